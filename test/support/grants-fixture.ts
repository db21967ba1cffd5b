import { equals } from '../../protocol/bytes.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { Access, type PeerAccess } from '../../src/grants/access.ts'
import { SEND_BURST_DEFAULT, SEND_PER_MIN_DEFAULT } from '../../src/grants/grant.ts'
import { Grants } from '../../src/grants/grants.ts'
import { SendBuckets } from '../../src/grants/send-buckets.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { Successions } from '../../src/identity/successions.ts'
import { type Clock, ManualClock } from '../../src/platform/clock.ts'
import { type Logger, silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { Store } from '../../src/store/store.ts'

/** Grants, buckets and access over a store, as a node wires them. */
export async function openAccess({
  store,
  clock = new ManualClock(),
  peers = 'required',
  own = [],
  byToken = () => undefined,
  logger = silentLogger,
  limits = { burst: SEND_BURST_DEFAULT, perMin: SEND_PER_MIN_DEFAULT }
}: {
  store: Store
  clock?: Clock
  peers?: PeerAccess
  /** the node's own agents */
  own?: readonly LocalAgent[]
  byToken?: (text: string) => LocalAgent | undefined
  logger?: Logger
  limits?: { burst: number; perMin: number }
}) {
  const grants = await Grants.open({ store, crypto: nodeCrypto, random: systemRandom, clock, logger })
  const set = { ...limits }
  const buckets = new SendBuckets({ clock, grants }, () => set)
  const successions = await Successions.open({ store, clock })
  const access = new Access(
    { grants, buckets, agents: { byToken, ofAnyEid: (eid) => own.find((agent) => equals(agent.eid, eid)) }, successions, logger },
    { peers: () => peers }
  )
  return { grants, buckets, successions, access, clock, limits: set }
}

/** The name of an EID that nobody has the key of. */
export function eidOf(byte: number): EidHex {
  return byte.toString(16).padStart(2, '0').repeat(32) as EidHex
}

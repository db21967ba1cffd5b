import type { CborFields } from '../cbor.ts'
import { REACHABILITY_MODES, type ReachabilityMode, type WakeWindow } from '../delivery/modes.ts'
import { locatorKey } from '../discovery/dht-key.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { bytes32Item, RECORD_BYTES_MAX, type RecordPayload, type RecordType, type SignedRecord, textItem } from './envelope.ts'
import { byGeneration, type Selection } from './selection.ts'

export const LOCATOR_TTL_SEC = 86_400
export const LOCATOR_ADDRS_MAX = 8
export const LOCATOR_KEEPERS_MAX = 4
/** of one address, as multiaddr text */
export const ADDR_BYTES_MAX = 128
/** No wake window repeats less often than weekly. */
export const WINDOW_PERIOD_SEC_MAX = 604_800
const PEER_BYTES_MAX = 64
const PEER = /^[1-9A-HJ-NP-Za-km-z]+$/
/** Printable ASCII without a space; whether it is a multiaddr is for who dials. */
export const ADDR = /^[\x21-\x7e]+$/

/** Where an agent is and how it can be reached (protocol/README.md §3, `locator`). */
export interface Locator extends RecordPayload {
  readonly eid: Eid
  /** PeerId, base58 text */
  readonly peer: string
  /** multiaddr texts, at most 8 */
  readonly addrs: readonly string[]
  /** X25519 key that objects for this agent are sealed to, 32 bytes */
  readonly mbox: Uint8Array
  readonly mode: ReachabilityMode
  readonly window?: WakeWindow
  /** EIDs of nodes that hold mail by this agent's wish, at most 4 */
  readonly keepers: readonly Eid[]
  /** generation, see `nextSequence` */
  readonly gen: number
}

export type LocatorRecord = SignedRecord<'locator', Locator>

export const locatorType: RecordType<'locator', Locator> = {
  kind: 'locator',
  bytesMax: RECORD_BYTES_MAX,
  ttlSec: LOCATOR_TTL_SEC,
  toCbor: (p) => ({
    eid: p.eid,
    peer: p.peer,
    addrs: [...p.addrs],
    mbox: p.mbox,
    mode: p.mode,
    window: p.window && { ...p.window },
    keepers: [...p.keepers],
    gen: p.gen
  }),
  fromCbor: (fields, times) => {
    const window = fields.optional('window', (name) => readWindow(fields.map(name)))
    return {
      eid: eid(fields.bytes('eid', { length: 32 })),
      peer: fields.text('peer', { bytesMax: PEER_BYTES_MAX, pattern: PEER }),
      addrs: fields.list('addrs', { max: LOCATOR_ADDRS_MAX }, textItem('locator.addrs', ADDR_BYTES_MAX, ADDR)),
      mbox: fields.bytes('mbox', { length: 32 }),
      mode: fields.oneOf('mode', REACHABILITY_MODES),
      ...(window === undefined ? {} : { window }),
      keepers: fields.list('keepers', { max: LOCATOR_KEEPERS_MAX }, bytes32Item('locator.keepers')).map(eid),
      gen: fields.uint('gen'),
      ...times
    }
  },
  signer: (p) => p.eid,
  sequence: (p) => p.gen,
  dhtKey: (_, p) => locatorKey(p.eid)
}

/** The end of this EID's locators, for good: no later generation takes it back. */
export function locatorTombstone(last: Locator, { gen, nowSec }: { gen: number; nowSec: number }): Locator {
  const { window: _, ...rest } = last
  return { ...rest, addrs: [], keepers: [], gen, ts: nowSec, exp: nowSec + LOCATOR_TTL_SEC, gone: true }
}

/** `gone` for good, then the higher generation. Both records are valid and of one EID. */
export function selectLocator(held: LocatorRecord, offered: LocatorRecord): Selection {
  return byGeneration(held, offered)
}

function readWindow(fields: CborFields): WakeWindow {
  const periodSec = fields.uint('periodSec', { min: 1, max: WINDOW_PERIOD_SEC_MAX })
  const window = {
    periodSec,
    openSec: fields.uint('openSec', { min: 1, max: periodSec }),
    offsetSec: fields.uint('offsetSec', { max: periodSec - 1 })
  }
  fields.end()
  return window
}

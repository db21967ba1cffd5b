import { toHex } from '../../protocol/bytes.ts'
import { DEPOSIT_OBJECT_BYTES_MAX } from '../../protocol/delivery/mailbox.ts'
import { decodeObject, type GovernedObject } from '../../protocol/delivery/object.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Flow } from '../../protocol/session/contract.ts'
import type { Clock } from '../platform/clock.ts'
import type { Session } from '../sessions/session.ts'

/** Who deposits counts an object for so much longer than who keeps it: their clocks may differ. */
const DEPOSITOR_MARGIN_MS = 60_000

/** Room that a session's contract gives an object that is to be stored. */
export interface StoredRoom {
  /** the contract has none left */
  breach: ProtocolError | undefined
  /** it was not kept */
  release(): void
}

/** Takes room for an object until it expires; nothing in a plain session, or for bytes that are no object and will be refused. */
export function holdStored(session: Session, flow: Flow, object: Uint8Array, clock: Clock): StoredRoom {
  const { contract } = session
  const decoded = contract === undefined ? undefined : read(object)
  if (contract === undefined || decoded === undefined) return { breach: undefined, release: () => {} }
  const nowMs = clock.monotonicMs()
  const name = toHex(decoded.issuer) + toHex(decoded.id)
  const lifeMs = decoded.expiresAtMs - clock.nowMs() + (flow === 'sent' ? DEPOSITOR_MARGIN_MS : 0)
  const breach = contract.store(flow, { name, bytes: object.length, untilMs: nowMs + lifeMs }, nowMs)
  return { breach, release: () => contract.unstore(flow, name) }
}

function read(object: Uint8Array): GovernedObject | undefined {
  try {
    return decodeObject(object, { bytesMax: DEPOSIT_OBJECT_BYTES_MAX })
  } catch (error) {
    if (error instanceof ProtocolError) return undefined
    throw error
  }
}

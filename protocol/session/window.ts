import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { ITEM_KINDS, isTransaction } from './items.ts'

/** Payload bytes that each side may send on a channel before the first WINDOW (protocol/README.md §6). */
export const WINDOW_START_BYTES = 1_048_576
/** What the smallest item counts for, so that empty items cannot pile up without end in front of a slow reader. */
export const WINDOW_ITEM_BYTES_MIN = 256

/** Transactions and live items are counted, control items are not. */
export function isCounted(kind: number): boolean {
  return isTransaction(kind) || kind === ITEM_KINDS.live
}

export function windowCost(payloadBytes: number): number {
  return Math.max(payloadBytes, WINDOW_ITEM_BYTES_MIN)
}

export interface WindowGrant {
  channel: number
  /** bytes that may be sent on the channel in this epoch in all */
  bytes: bigint
}

/** channel u16 ‖ u64 bytes. */
export function encodeWindow(grant: WindowGrant): Uint8Array {
  return new Writer(10).u16(grant.channel).u64(grant.bytes).finish()
}

/** @throws ProtocolError `TRUNCATED`, `TRAILING_BYTES`, `RANGE` (beyond 2^53 − 1, more than an epoch can carry) */
export function decodeWindow(payload: Uint8Array): WindowGrant {
  const reader = new Reader(payload)
  const grant = { channel: reader.u16('channel'), bytes: reader.u64('bytes') }
  reader.end('WINDOW')
  if (grant.bytes > BigInt(Number.MAX_SAFE_INTEGER)) throw new ProtocolError('RANGE', 'WINDOW beyond 2^53 − 1 bytes', { field: 'bytes' })
  return grant
}

/** What the peer lets us send on one channel. */
export class SendCredit {
  #granted: number
  #used = 0

  constructor(grantedBytes = WINDOW_START_BYTES) {
    this.#granted = grantedBytes
  }

  allows(cost: number): boolean {
    return this.#used + cost <= this.#granted
  }

  use(cost: number): void {
    this.#used += cost
  }

  /** @throws ProtocolError `WINDOW` when it lowers what was granted */
  grant(bytes: number): void {
    if (bytes < this.#granted) throw new ProtocolError('WINDOW', `WINDOW lowers ${this.#granted} granted bytes to ${bytes}`)
    this.#granted = bytes
  }
}

/**
 * What we let the peer send on one channel: at most two starting windows wait unhandled. A grant falls due when less than one starting window is
 * left beyond what was handled, so the largest item always fits once everything before it was handled.
 */
export class ReceiveCredit {
  #granted = WINDOW_START_BYTES
  #received = 0
  #handled = 0

  /** @throws ProtocolError `WINDOW` */
  receive(cost: number, channel: number): void {
    if (this.#received + cost > this.#granted) {
      throw new ProtocolError('WINDOW', `the peer sent more on channel ${channel} than the ${this.#granted} bytes granted`, {
        field: 'window'
      })
    }
    this.#received += cost
  }

  /** @returns the new total to grant, or undefined while the last grant still serves */
  handled(cost: number): number | undefined {
    this.#handled += cost
    if (this.#granted - this.#handled >= WINDOW_START_BYTES) return undefined
    this.#granted = this.#handled + 2 * WINDOW_START_BYTES
    return this.#granted
  }

  get waitingBytes(): number {
    return this.#received - this.#handled
  }
}

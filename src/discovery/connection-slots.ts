import { REQUEST_HEADER_BYTES } from '../../protocol/discovery/request.ts'
import type { Clock } from '../platform/clock.ts'

/** Connections with a buffer; a request over another one is dropped until one of these is at rest. */
export const SLOTS_MAX = 1_024
const REJECT_PAUSE_MS = 1_000
/** Resting slots that are given up with every request, so that closed connections do not add up. */
const SWEPT_A_TIME = 2

/** What one connection has for all its requests: 120 bytes to read a header into, one after the other, and when it was sent a REJ last. */
export class ConnectionSlot {
  readonly header = new Uint8Array(REQUEST_HEADER_BYTES)
  readonly #clock: Clock
  #turn: Promise<unknown> = Promise.resolve()
  #rejectedAtMs = Number.NEGATIVE_INFINITY
  /** requests that read or wait to read */
  readers = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Runs `read` alone: the buffer is everybody's. */
  async read<T>(read: (header: Uint8Array) => Promise<T>): Promise<T> {
    this.readers++
    const run = this.#turn.then(() => read(this.header))
    this.#turn = run.catch(() => {})
    try {
      return await run
    } finally {
      this.readers--
    }
  }

  /** True at most once a second. */
  mayReject(): boolean {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#rejectedAtMs < REJECT_PAUSE_MS) return false
    this.#rejectedAtMs = nowMs
    return true
  }

  get isAtRest(): boolean {
    return this.readers === 0 && this.#clock.monotonicMs() - this.#rejectedAtMs >= REJECT_PAUSE_MS
  }
}

/** The slots of all connections, by the connection's id. Grows with connections, never with requests. */
export class ConnectionSlots {
  readonly #clock: Clock
  readonly #max: number
  readonly #slots = new Map<string, ConnectionSlot>()

  constructor(clock: Clock, max = SLOTS_MAX) {
    this.#clock = clock
    this.#max = max
  }

  get size(): number {
    return this.#slots.size
  }

  /** @returns undefined when all slots are taken and none is at rest */
  of(connection: string): ConnectionSlot | undefined {
    const held = this.#slots.get(connection)
    if (held !== undefined) return held
    this.#giveUp(SWEPT_A_TIME)
    if (this.#slots.size >= this.#max) this.#giveUp(this.#max)
    if (this.#slots.size >= this.#max) return undefined
    const slot = new ConnectionSlot(this.#clock)
    this.#slots.set(connection, slot)
    return slot
  }

  #giveUp(looks: number): void {
    for (const [connection, slot] of this.#slots) {
      if (looks-- === 0) return
      if (slot.isAtRest) this.#slots.delete(connection)
    }
  }
}

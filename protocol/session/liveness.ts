import { equals, Writer } from '../bytes.ts'
import type { StreamTimes } from './closing.ts'
import { ITEM_KINDS } from './items.ts'

/** A longer ping gets no answer. */
const PING_BYTES_MAX = 32

/** Whether the peer is still there (protocol/README.md §6, Liveness): pings after silence, both sides' pongs, round trips on demand. */
export class Liveness {
  readonly #times: StreamTimes
  /** monotonic, as all times here */
  #heardMs: number
  #pinged = false
  #probeUntilMs: number | undefined
  #pingOut = false
  #pong: Uint8Array | undefined
  /** the driver's own ping: wanted, then under way */
  #measure: { payload: Uint8Array; sentMs: number | undefined } | undefined
  #measures = 0

  constructor(times: StreamTimes, nowMs: number) {
    this.#times = times
    this.#heardMs = nowMs
  }

  /** A record of the peer opened. */
  heard(nowMs: number): void {
    this.#heardMs = nowMs
    this.#pinged = false
    this.#probeUntilMs = undefined
    this.#pingOut = false
  }

  /** Something says that the peer is gone: a ping goes out now, and silence until the limit ends the epoch. */
  probe(nowMs: number, withinMs: number): void {
    this.#pinged = true
    this.#probeUntilMs ??= nowMs + withinMs
  }

  /** Asks for a ping whose answer is timed. One that is under way serves. */
  measure(): void {
    if (this.#measure !== undefined) return
    this.#measures += 1
    this.#measure = { payload: new Writer(8).u64(BigInt(this.#measures)).finish(), sentMs: undefined }
  }

  get wakeAtMs(): number {
    const silenceMs = this.#heardMs + (this.#pinged ? this.#times.lostAfterMs : this.#times.pingAfterMs)
    return Math.min(silenceMs, this.#probeUntilMs ?? Number.POSITIVE_INFINITY)
  }

  /** @returns true once nothing was heard for too long */
  isSilent(nowMs: number): boolean {
    const quietMs = nowMs - this.#heardMs
    if (quietMs >= this.#times.lostAfterMs || nowMs >= (this.#probeUntilMs ?? Number.POSITIVE_INFINITY)) return true
    if (quietMs >= this.#times.pingAfterMs) this.#pinged = true
    return false
  }

  /** A pong or a ping waits to be taken. */
  get isDue(): boolean {
    return (
      this.#pong !== undefined || (this.#pinged && !this.#pingOut) || (this.#measure !== undefined && this.#measure.sentMs === undefined)
    )
  }

  takePong(): Uint8Array | undefined {
    const pong = this.#pong
    this.#pong = undefined
    return pong
  }

  /** The pings that are due, each once. */
  takePings(nowMs: number): Uint8Array[] {
    const pings: Uint8Array[] = []
    if (this.#pinged && !this.#pingOut) {
      this.#pingOut = true
      pings.push(new Uint8Array(0))
    }
    if (this.#measure !== undefined && this.#measure.sentMs === undefined) {
      this.#measure.sentMs = nowMs
      pings.push(this.#measure.payload)
    }
    return pings
  }

  /** @returns the round trip that a pong ends */
  take(kind: typeof ITEM_KINDS.ping | typeof ITEM_KINDS.pong, payload: Uint8Array, nowMs: number): number | undefined {
    if (kind === ITEM_KINDS.ping) {
      if (payload.length <= PING_BYTES_MAX) this.#pong = payload.slice()
      return undefined
    }
    const { payload: sent, sentMs } = this.#measure ?? {}
    if (sent === undefined || sentMs === undefined || !equals(payload, sent)) return undefined
    this.#measure = undefined
    return nowMs - sentMs
  }
}

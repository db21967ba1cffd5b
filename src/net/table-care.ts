import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'

/**
 * Pauses before each look-up of ourselves while the table is small and grows by them, the last one from then on; each half as long to half as long
 * again by chance.
 */
const PAUSES_MS = [1_000, 4_000, 15_000, 60_000, 300_000] as const
/** Peers that are connected and missing in a small table are tried after the first, then twice as late each time up to the last; by chance as above. */
const TAKE_IN_FIRST_MS = 5_000
const TAKE_IN_LAST_MS = 300_000
/** New peers begin the pauses anew, at most this often. */
const ANEW_MS = 30_000

export interface TableCareInit {
  /** peers in the routing table */
  size(): number
  /** the size from which on the table is no longer small */
  enough: number
  lookUpSelf(signal: AbortSignal): Promise<unknown>
  lookUp(key: Uint8Array, signal: AbortSignal): Promise<unknown>
  /** Puts connected peers that serve the DHT into the table, where they answer. */
  takeIn(signal: AbortSignal): Promise<unknown>
}

/**
 * Keeps the routing table from staying thin: a node looks itself up a second after it met its first peer, when hardly anyone knows anyone, and then
 * at growing pauses, by which islands that meet grow together too. While the table is small a random key is looked up beside, and who is connected is
 * kept in it: kad-dht tries a peer once, when it connects, and a busy machine lets that fail.
 */
export class TableCare {
  readonly #c: { clock: Clock; random: Random; logger: Logger }
  readonly #init: TableCareInit
  readonly #stopping = new AbortController()
  #cancel: () => void = () => {}
  #cancelTakeIn: (() => void) | undefined
  #takeInMs = TAKE_IN_FIRST_MS
  #isTakingIn = false
  #next = 0
  #isRunning = false
  #begunAtMs = Number.NEGATIVE_INFINITY

  constructor(components: { clock: Clock; random: Random; logger: Logger }, init: TableCareInit) {
    this.#c = components
    this.#init = init
  }

  /** A peer arrived. */
  peerArrived(): void {
    this.#takeInMs = TAKE_IN_FIRST_MS
    if (!this.#isTakingIn) this.#scheduleTakeIn()
    const nowMs = this.#c.clock.monotonicMs()
    if (nowMs - this.#begunAtMs < ANEW_MS) return
    if (this.#begunAtMs !== Number.NEGATIVE_INFINITY && this.#init.size() >= this.#init.enough) return
    this.#begunAtMs = nowMs
    this.#next = 0
    if (!this.#isRunning) this.#schedule()
  }

  #scheduleTakeIn(): void {
    this.#cancelTakeIn?.()
    this.#cancelTakeIn = undefined
    if (this.#stopping.signal.aborted || this.#init.size() >= this.#init.enough) return
    const pauseMs = this.#takeInMs * (0.5 + randomFraction(this.#c.random))
    this.#cancelTakeIn = this.#c.clock.after(pauseMs, () => void this.#takeIn())
  }

  async #takeIn(): Promise<void> {
    const { signal } = this.#stopping
    this.#isTakingIn = true
    this.#takeInMs = Math.min(TAKE_IN_LAST_MS, this.#takeInMs * 2)
    try {
      await this.#init.takeIn(signal)
    } catch (error) {
      if (!signal.aborted) this.#c.logger.debug({ error: String(error) }, 'connected peers were not taken into the table')
    } finally {
      this.#isTakingIn = false
      this.#scheduleTakeIn()
    }
  }

  #schedule(): void {
    if (this.#stopping.signal.aborted) return
    this.#cancel()
    const pauseMs = PAUSES_MS[Math.min(this.#next, PAUSES_MS.length - 1)] as number
    this.#next++
    this.#cancel = this.#c.clock.after(pauseMs * (0.5 + randomFraction(this.#c.random)), () => void this.#run())
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    this.#isRunning = true
    const before = this.#init.size()
    try {
      await this.#init.lookUpSelf(signal)
      if (this.#init.size() < this.#init.enough) await this.#init.lookUp(this.#c.random.bytes(32), signal)
    } catch (error) {
      if (!signal.aborted) this.#c.logger.debug({ error: String(error) }, 'a look-up of ourselves failed')
    } finally {
      this.#isRunning = false
      const size = this.#init.size()
      const isFutile = size <= before && this.#next > 1 // the first may come before anyone is known by name
      if (size >= this.#init.enough || isFutile) this.#next = PAUSES_MS.length - 1
      this.#schedule()
    }
  }

  stop(): void {
    this.#cancel()
    this.#cancelTakeIn?.()
    this.#stopping.abort(new Error('the host stops'))
  }
}

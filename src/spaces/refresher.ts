import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'

/** What a refresh came to. */
export interface Refreshed {
  /** when the bytes now published were signed, Unix ms */
  signedAtMs: number
  /** `partial`: some registrar does not hold them, so they are put again soon */
  coverage: 'full' | 'partial'
  /** nothing more to do, ever */
  next?: 'forget'
}

/** Something of ours that others forget unless it is put again. */
export interface Refreshable {
  ttlMs: number
  /** the same bytes are put again so often; default: a quarter of the TTL */
  putMs?: number
  /** when the bytes now published were signed, Unix ms; -Infinity signs at once */
  signedAtMs: number
  /** `none`: they were not put by this process yet */
  coverage: 'full' | 'partial' | 'none'
  /** Signs anew and puts. */
  sign(signal: AbortSignal): Promise<Refreshed>
  /** Puts the same bytes again. */
  put(signal: AbortSignal): Promise<Refreshed>
}

interface Item {
  readonly what: Refreshable
  signedAtMs: number
  signDueMs: number
  putDueMs: number
  retryMs: number
  running: Promise<void> | undefined
}

/** Refreshes at once; the others wait their turn. */
const AT_ONCE_MAX = 4
/** The clock is looked at this often, so that a wall clock that was set, or a laptop that slept, is noticed. */
const LOOK_MS = 60_000
const RETRY_MIN_MS = 60_000
/** A step of the wall clock against the elapsed time, either way, after which all is signed anew: no reader takes what a wrong clock signed. */
export const STEP_MS = 60_000
/** New peers arrive in bursts: what is not everywhere yet is put again this long after the first of them. */
const NEW_PEERS_MS = 2_000
const NEW_PEERS_AGAIN_MS = 30_000
const JITTER = 0.1

/**
 * Keeps records alive: signed anew at half of their TTL, the same bytes put again at a quarter, up to a tenth earlier by chance; after a
 * partial put after one minute, then two, four and so on up to the quarter (protocol/README.md §3, G-28). Where the wall clock stepped, everything is
 * signed anew within a minute.
 */
export class Refresher {
  readonly #clock: Clock
  readonly #random: Random
  readonly #logger: Logger
  readonly #items = new Map<string, Item>()
  readonly #stopping = new AbortController()
  #cancelTimer: () => void = () => {}
  #cancelSoon: (() => void) | undefined
  #broughtForwardAtMs = Number.NEGATIVE_INFINITY
  #running = 0
  /** wall clock less elapsed time, as it was looked at last */
  #offsetMs: number
  #steps = 0

  constructor(components: { clock: Clock; random: Random; logger: Logger }) {
    this.#clock = components.clock
    this.#random = components.random
    this.#logger = components.logger
    this.#offsetMs = this.#clock.nowMs() - this.#clock.monotonicMs()
  }

  keep(name: string, what: Refreshable): void {
    const nowMs = this.#clock.nowMs()
    this.#afterStep(nowMs)
    const item: Item = { what, signedAtMs: what.signedAtMs, signDueMs: 0, putDueMs: nowMs, retryMs: RETRY_MIN_MS, running: undefined }
    this.#items.set(name, item)
    item.signDueMs = this.#signDue(what, what.signedAtMs)
    if (what.coverage !== 'none') this.#putLater(item, what.coverage)
    this.#look()
  }

  forget(name: string): void {
    this.#items.delete(name)
  }

  /** A peer arrived: what does not lie everywhere yet gets its chance, at most every half minute. */
  peersArrived(): void {
    if (this.#cancelSoon !== undefined || this.#stopping.signal.aborted) return
    const waitMs = Math.max(NEW_PEERS_MS, this.#broughtForwardAtMs + NEW_PEERS_AGAIN_MS - this.#clock.monotonicMs())
    this.#cancelSoon = this.#clock.after(waitMs, () => {
      this.#cancelSoon = undefined
      this.#broughtForwardAtMs = this.#clock.monotonicMs()
      for (const item of this.#items.values()) if (item.retryMs > 0) item.putDueMs = this.#clock.nowMs()
      this.#look()
    })
  }

  signSoon(): void {
    for (const item of this.#items.values()) item.signDueMs = this.#clock.nowMs()
    this.#look()
  }

  /** At once for what was signed by a clock that was ahead of the present one. */
  #signDue({ ttlMs }: Refreshable, signedAtMs: number): number {
    const nowMs = this.#clock.nowMs()
    return signedAtMs > nowMs + STEP_MS ? nowMs : signedAtMs + this.#early(ttlMs / 2)
  }

  /** What was reckoned by the clock as it was before a step counts for nothing after it. A tombstone that nobody signs anew is put again. */
  #afterStep(nowMs: number): void {
    const offsetMs = nowMs - this.#clock.monotonicMs()
    if (Math.abs(offsetMs - this.#offsetMs) <= STEP_MS) return
    this.#offsetMs = offsetMs
    this.#steps++
    for (const item of this.#items.values()) {
      item.signDueMs = nowMs
      item.putDueMs = nowMs
    }
  }

  #early(ms: number): number {
    return ms * (1 - JITTER * randomFraction(this.#random))
  }

  #putLater(item: Item, coverage: 'full' | 'partial'): void {
    const quarterMs = item.what.putMs ?? item.what.ttlMs / 4
    if (coverage === 'full') {
      item.putDueMs = this.#clock.nowMs() + this.#early(quarterMs)
      item.retryMs = 0
      return
    }
    const retryMs = item.retryMs === 0 ? RETRY_MIN_MS : item.retryMs
    item.putDueMs = this.#clock.nowMs() + this.#early(Math.min(retryMs, quarterMs))
    item.retryMs = Math.min(retryMs * 2, quarterMs)
  }

  /** Starts what is due and sets the one timer to what comes next. */
  #look(): void {
    this.#cancelTimer()
    if (this.#stopping.signal.aborted || this.#items.size === 0) return
    const nowMs = this.#clock.nowMs()
    this.#afterStep(nowMs)
    let nextMs = nowMs + LOOK_MS
    for (const [name, item] of this.#items) {
      if (item.running !== undefined) continue
      const dueMs = Math.min(item.signDueMs, item.putDueMs)
      if (dueMs > nowMs) nextMs = Math.min(nextMs, dueMs)
      else if (this.#running < AT_ONCE_MAX) this.#start(name, item, item.signDueMs <= nowMs ? 'sign' : 'put')
    }
    this.#cancelTimer = this.#clock.after(nextMs - nowMs, () => this.#look())
  }

  #start(name: string, item: Item, verb: 'sign' | 'put'): void {
    this.#running++
    const steps = this.#steps
    item.running = item.what[verb](this.#stopping.signal)
      .then((done) => {
        if (done.next === 'forget') return this.#forgetIfSame(name, item)
        if (done.signedAtMs !== item.signedAtMs) {
          item.signedAtMs = done.signedAtMs
          item.signDueMs = this.#signDue(item.what, done.signedAtMs)
        } else if (verb === 'sign') item.signDueMs = Number.POSITIVE_INFINITY // it is not signed again: a tombstone, which is only put
        this.#putLater(item, done.coverage)
        if (steps !== this.#steps) item.signDueMs = this.#clock.nowMs()
      })
      .catch((error: unknown) => {
        if (this.#stopping.signal.aborted) return
        this.#logger.warn({ error, name, verb }, 'a record of ours could not be refreshed; it is tried again')
        this.#putLater(item, 'partial')
        if (verb === 'sign') item.signDueMs = item.putDueMs
      })
      .then(() => {
        item.running = undefined
        this.#running--
        this.#look()
      })
  }

  #forgetIfSame(name: string, item: Item): void {
    if (this.#items.get(name) === item) this.#items.delete(name)
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    for (;;) {
      const running = [...this.#items.values()].map((item) => item.running).filter((work) => work !== undefined)
      if (running.length === 0) return
      await Promise.all(running)
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the node stops'))
    this.#cancelTimer()
    this.#cancelSoon?.()
    await this.idle()
  }
}

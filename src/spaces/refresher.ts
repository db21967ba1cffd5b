import type { Clock } from '../platform/clock.ts'
import { DueTimes } from '../platform/due-times.ts'
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
  /** 0 once they lie everywhere */
  retryMs: number
  isRunning: boolean
}

/** How it stands with what is kept alive. */
export interface UpkeepStats {
  records: number
  /** not known to lie at every place that they belong to */
  partial: number
  /** due, and not begun: others have their turn */
  waiting: number
  /** how long the first of those waits, ms; 0 where none does */
  lateMs: number
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
  /** when each is due that is not under way: what is due first goes first, however many there are */
  readonly #due = new DueTimes()
  readonly #running = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  #cancelTimer: () => void = () => {}
  #cancelSoon: (() => void) | undefined
  #broughtForwardAtMs = Number.NEGATIVE_INFINITY
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
    const item: Item = { what, signedAtMs: what.signedAtMs, signDueMs: 0, putDueMs: nowMs, retryMs: RETRY_MIN_MS, isRunning: false }
    this.#items.set(name, item)
    item.signDueMs = this.#signDue(what, what.signedAtMs)
    if (what.coverage !== 'none') this.#putLater(item, what.coverage)
    this.#setDue(name, item)
    this.#look()
  }

  forget(name: string): void {
    this.#items.delete(name)
    this.#due.set(name, undefined)
  }

  stats(): UpkeepStats {
    const nowMs = this.#clock.nowMs()
    const stats: UpkeepStats = { records: this.#items.size, partial: 0, waiting: 0, lateMs: 0 }
    for (const item of this.#items.values()) {
      if (item.retryMs > 0) stats.partial++
      const dueMs = item.isRunning ? Number.POSITIVE_INFINITY : dueOf(item)
      if (dueMs > nowMs) continue
      stats.waiting++
      // what is to be signed at once has no time at which it fell due
      if (Number.isFinite(dueMs)) stats.lateMs = Math.max(stats.lateMs, nowMs - dueMs)
    }
    return stats
  }

  #setDue(name: string, item: Item): void {
    this.#due.set(name, dueOf(item))
  }

  /** A peer arrived: what does not lie everywhere yet gets its chance, at most every half minute. */
  peersArrived(): void {
    if (this.#cancelSoon !== undefined || this.#stopping.signal.aborted) return
    const waitMs = Math.max(NEW_PEERS_MS, this.#broughtForwardAtMs + NEW_PEERS_AGAIN_MS - this.#clock.monotonicMs())
    this.#cancelSoon = this.#clock.after(waitMs, () => {
      this.#cancelSoon = undefined
      this.#broughtForwardAtMs = this.#clock.monotonicMs()
      const nowMs = this.#clock.nowMs()
      this.#bringForward((item) => {
        if (item.retryMs > 0) item.putDueMs = nowMs
      })
    })
  }

  signSoon(): void {
    const nowMs = this.#clock.nowMs()
    this.#bringForward((item) => {
      item.signDueMs = nowMs
    })
  }

  #bringForward(change: (item: Item) => void): void {
    for (const [name, item] of this.#items) {
      change(item)
      if (!item.isRunning) this.#setDue(name, item)
    }
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
    for (const [name, item] of this.#items) {
      item.signDueMs = nowMs
      item.putDueMs = nowMs
      if (!item.isRunning) this.#setDue(name, item)
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
    for (let due = this.#due.first(); due !== undefined; due = this.#due.first()) {
      if (due.atMs > nowMs) nextMs = Math.min(nextMs, due.atMs)
      if (due.atMs > nowMs || this.#running.size >= AT_ONCE_MAX) break
      const item = this.#items.get(due.id) as Item
      this.#due.set(due.id, undefined)
      this.#start(due.id, item, item.signDueMs <= nowMs ? 'sign' : 'put')
    }
    this.#cancelTimer = this.#clock.after(nextMs - nowMs, () => this.#look())
  }

  #start(name: string, item: Item, verb: 'sign' | 'put'): void {
    item.isRunning = true
    const steps = this.#steps
    const run: Promise<void> = item.what[verb](this.#stopping.signal)
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
        item.isRunning = false
        this.#running.delete(run)
        if (this.#items.get(name) === item) this.#setDue(name, item)
        this.#look()
      })
    this.#running.add(run)
  }

  #forgetIfSame(name: string, item: Item): void {
    if (this.#items.get(name) === item) this.forget(name)
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the node stops'))
    this.#cancelTimer()
    this.#cancelSoon?.()
    await this.idle()
  }
}

function dueOf({ signDueMs, putDueMs }: Item): number {
  return Math.min(signDueMs, putDueMs)
}

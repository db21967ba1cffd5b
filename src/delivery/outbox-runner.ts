import { awaitsDelivery, type OutboxState, retryAfterMs } from '../../protocol/delivery/outbox-state.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'
import type { Outbox, OutboxEntry, OutboxLearnt } from './outbox.ts'

/** Lanes that are tried at once: a start with a full outbox, or a network that comes back, is no storm. */
export const LANES_AT_ONCE = 8
/** A peer that is seen again and again brings its lanes forward at most this often. */
export const SEEN_AGAIN_MS = 1_000
/** What is sent next is not held up by what was delivered long ago: so many questions a round about what became of the delivered. */
const QUESTIONS_MAX = 32
const ERROR_CODE = /^[A-Z][A-Z0-9_]{0,63}$/

/** What an attempt came to. `away`: the audience could not be reached at all, so nothing else in the lane is tried with it now. */
export interface Attempted extends OutboxLearnt {
  news: OutboxState | undefined
  audience: 'met' | 'away'
  /** why it is not delivered yet, a code */
  why?: string | undefined
  /** when the audience means to be back */
  retryAfterMs?: number | undefined
}

export interface OutboxRunnerComponents {
  outbox: Outbox
  clock: Clock
  random: Random
  logger: Logger
  /** @param audience - `away`: it was not reached a moment ago, so only keepers are asked */
  attempt: (entry: OutboxEntry, audience: 'try' | 'away', signal: AbortSignal) => Promise<Attempted>
  /** the EID that somebody was first known by here */
  rootOf: (eid: EidHex) => EidHex
}

interface Lane {
  readonly from: EidHex
  readonly to: EidHex
  failures: number
  running: Promise<void> | undefined
  again: boolean
  cancel: () => void
  nextAtMs: number | undefined
  lastError: string | undefined
  seenAtMs: number
}

/**
 * Delivers what the outbox holds: one attempt after another for each pair of sender and audience, in order, after failures at growing distances, at once when the
 * audience is seen (F082). An attempt ends in something learnt and synced, or in nothing.
 */
export class OutboxRunner {
  readonly #c: OutboxRunnerComponents
  /** as many as pairs with an entry that is not at its end: bounded by the outbox */
  readonly #lanes = new Map<string, Lane>()
  readonly #stopping = new AbortController()
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(components: OutboxRunnerComponents) {
    this.#c = components
  }

  /** Tries everything that an earlier run left. */
  start(): void {
    for (const { from, to } of this.#c.outbox.list({ isOpen: true })) this.kick(from, to)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new RookeryError('NODE_STOPPING', 'the node stops', { kind: 'unavailable' }))
    for (const wake of this.#waiting.splice(0)) wake()
    for (const lane of this.#lanes.values()) lane.cancel()
    await Promise.allSettled([...this.#lanes.values()].map(({ running }) => running))
  }

  /** Tries now, whatever the backoff says. Resolves when the round has ended. */
  kick(from: EidHex, to: EidHex): Promise<void> {
    const lane = this.#lane(from, to)
    lane.cancel()
    lane.nextAtMs = undefined
    if (lane.running !== undefined) {
      lane.again = true
      return lane.running
    }
    lane.running = this.#run(lane).finally(() => {
      lane.running = undefined
    })
    return lane.running
  }

  /** The peer proved that it is there, or that it moved: who waits for it waits no longer. */
  seen(peer: EidHex): void {
    const nowMs = this.#c.clock.monotonicMs()
    for (const lane of this.#lanes.values()) {
      if (this.#c.rootOf(lane.to) !== this.#c.rootOf(peer) || nowMs - lane.seenAtMs < SEEN_AGAIN_MS) continue
      lane.seenAtMs = nowMs
      lane.failures = 0
      void this.kick(lane.from, lane.to)
    }
  }

  /** When it is tried again and why it was not delivered; for who looks. */
  progress({ from, to }: OutboxEntry): { nextAttemptAtMs?: number; attempts: number; lastError?: string } {
    const lane = this.#lanes.get(`${from}/${to}`)
    return {
      attempts: lane?.failures ?? 0,
      ...(lane?.nextAtMs === undefined ? {} : { nextAttemptAtMs: lane.nextAtMs }),
      ...(lane?.lastError === undefined ? {} : { lastError: lane.lastError })
    }
  }

  #lane(from: EidHex, to: EidHex): Lane {
    const key = `${from}/${to}`
    let lane = this.#lanes.get(key)
    if (lane === undefined) {
      lane = {
        from,
        to,
        failures: 0,
        running: undefined,
        again: false,
        cancel: () => {},
        nextAtMs: undefined,
        lastError: undefined,
        seenAtMs: Number.NEGATIVE_INFINITY
      }
      this.#lanes.set(key, lane)
    }
    return lane
  }

  async #run(lane: Lane): Promise<void> {
    const { signal } = this.#stopping
    do {
      lane.again = false
      await this.#turn()
      try {
        if (!signal.aborted) await this.#round(lane)
      } catch (error) {
        if (!signal.aborted) this.#c.logger.warn({ err: error }, 'a round of the outbox failed and is tried again')
        lane.failures++
        lane.lastError = error instanceof RookeryError ? error.code : 'INTERNAL'
        this.#later(lane, 0)
      } finally {
        this.#running--
        this.#waiting.shift()?.()
      }
    } while (lane.again && !signal.aborted)
    if (lane.nextAtMs === undefined && this.#lanes.get(`${lane.from}/${lane.to}`) === lane) this.#lanes.delete(`${lane.from}/${lane.to}`)
  }

  async #turn(): Promise<void> {
    while (this.#running >= LANES_AT_ONCE) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
      if (this.#stopping.signal.aborted) break
    }
    this.#running++
  }

  async #round(lane: Lane): Promise<void> {
    const { outbox, clock } = this.#c
    const { signal } = this.#stopping
    await outbox.sweep()
    let audience: 'try' | 'away' = 'try'
    let open = 0
    let hintMs = 0
    let questions = 0
    lane.lastError = undefined
    for (const entry of outbox.lane(lane.from, lane.to)) {
      signal.throwIfAborted()
      const waits = awaitsDelivery(entry.state)
      // Somebody may yet ask what became of what was delivered, but not for ever.
      const nobodyKnows = audience === 'away' && entry.keepers.length === 0
      if (!waits && (entry.expiresAtMs <= clock.nowMs() || nobodyKnows || questions++ >= QUESTIONS_MAX)) continue
      const tried = await this.#attempt(entry, audience)
      if (tried.audience === 'away') audience = 'away'
      if (tried.news !== undefined) {
        const { news, receipts, confirmation, task, untilMs } = tried
        await outbox.learn(entry.id, news, { receipts, confirmation, task, untilMs })
      }
      const now = outbox.get(entry.id)
      if (now !== undefined && now.state.name !== 'handled' && now.state.name !== 'expired' && now.state.name !== 'refused') open++
      if (tried.why !== undefined) lane.lastError = tried.why
      hintMs = Math.max(hintMs, tried.retryAfterMs ?? 0)
      // What was neither delivered nor kept must not be overtaken.
      if (now !== undefined && now.state.name === 'queued-here') break
    }
    if (open === 0) return
    lane.failures++
    this.#later(lane, hintMs)
  }

  async #attempt(entry: OutboxEntry, audience: 'try' | 'away'): Promise<Attempted> {
    try {
      return await this.#c.attempt(entry, audience, this.#stopping.signal)
    } catch (error) {
      this.#stopping.signal.throwIfAborted()
      const code = error instanceof RookeryError && ERROR_CODE.test(error.code) ? error.code : 'INTERNAL'
      if (code === 'INTERNAL') this.#c.logger.error({ err: error, message: entry.id }, 'an attempt to deliver failed')
      return { news: undefined, audience: 'away', why: code }
    }
  }

  #later(lane: Lane, hintMs: number): void {
    if (this.#stopping.signal.aborted) return
    const waitMs = retryAfterMs(lane.failures, randomFraction(this.#c.random), hintMs)
    lane.nextAtMs = this.#c.clock.nowMs() + waitMs
    lane.cancel = this.#c.clock.after(waitMs, () => void this.kick(lane.from, lane.to))
  }
}

import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'

const DELAY_FIRST_MS = 1_000
const DELAY_MAX_MS = 30_000
/** Peers tried in one round: all bootstrap entries, then remembered ones up to this many. */
const ROUND_MAX = 16

export interface RejoinComponents {
  clock: Clock
  random: Random
  logger: Logger
}

export interface RejoinInit {
  /** peers that have an open connection now */
  connected(): number
  /** whom to try, best first */
  candidates(): readonly { peer: string; addrs: readonly string[]; origin: 'bootstrap' | 'remembered' }[]
  dial(target: { peer: string; addrs: readonly string[] }): Promise<void>
}

/** While there is no peer at all, tries bootstrap entries and remembered peers again and again, with jittered back-off. */
export class Rejoin {
  readonly #c: RejoinComponents
  readonly #init: RejoinInit
  #cancel: (() => void) | undefined
  #delayMs = DELAY_FIRST_MS
  #stopped = false
  #running = false
  #isToldAlone = false
  readonly #warned = new Set<string>()

  constructor(components: RejoinComponents, init: RejoinInit) {
    this.#c = components
    this.#init = init
  }

  /** Tries at once. */
  start(): void {
    void this.#round()
  }

  /** The last connection went: start over with short delays. */
  isolated(): void {
    this.#delayMs = DELAY_FIRST_MS
    this.#schedule()
  }

  /** A peer is there. */
  connected(): void {
    if (!this.#isToldAlone) return
    this.#isToldAlone = false
    this.#c.logger.info({}, 'a peer is there: no longer alone')
  }

  #tellAlone(): void {
    if (this.#isToldAlone || this.#stopped) return
    this.#isToldAlone = true
    const tried = this.#init.candidates().length
    this.#c.logger.info(
      { tried },
      tried === 0
        ? 'no peer, and none is known to call: waiting for one that calls or shows on this link; what is announced waits'
        : 'no peer answers: trying again until one does; what is announced waits'
    )
  }

  stop(): void {
    this.#stopped = true
    this.#cancel?.()
  }

  #schedule(): void {
    if (this.#stopped || this.#running) return
    this.#cancel?.()
    const delayMs = this.#delayMs * (0.5 + randomFraction(this.#c.random))
    this.#delayMs = Math.min(DELAY_MAX_MS, this.#delayMs * 2)
    this.#cancel = this.#c.clock.after(delayMs, () => void this.#round())
  }

  async #round(): Promise<void> {
    if (this.#stopped || this.#running) return
    this.#running = true
    try {
      if (this.#init.connected() === 0) {
        await Promise.all(
          this.#init
            .candidates()
            .slice(0, ROUND_MAX)
            .map((candidate) => this.#try(candidate))
        )
      }
    } finally {
      this.#running = false
    }
    if (this.#init.connected() === 0) {
      this.#tellAlone()
      this.#schedule()
    } else this.#delayMs = DELAY_FIRST_MS
  }

  async #try(candidate: { peer: string; addrs: readonly string[]; origin: string }): Promise<void> {
    try {
      await this.#init.dial(candidate)
      this.#warned.delete(candidate.peer)
    } catch (error) {
      if (this.#stopped || candidate.origin !== 'bootstrap' || this.#warned.has(candidate.peer)) return
      this.#warned.add(candidate.peer)
      this.#c.logger.warn(
        { peer: candidate.peer, addrs: candidate.addrs, error: error instanceof Error ? error.message : String(error) },
        'a bootstrap peer does not answer; it is tried again while there is no other'
      )
    }
  }
}

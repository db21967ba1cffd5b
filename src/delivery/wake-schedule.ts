import { nextOpeningMs } from '../../protocol/delivery/reachability.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'

/** A longer timer is set again when it ends, so that a step of the wall clock is noticed within this time. */
const TIMER_MS_MAX = 60_000

/**
 * Calls `open` whenever the window of an `hourly_wake` agent opens, and once the time has come until which a `sleep` agent meant to sleep, then
 * every minute until it is followed anew. One timer an agent.
 */
export class WakeSchedule {
  readonly #clock: Clock
  readonly #open: (agent: LocalAgent) => void
  readonly #cancels = new Map<EidHex, () => void>()
  #stopped = false

  constructor(clock: Clock, open: (agent: LocalAgent) => void) {
    this.#clock = clock
    this.#open = open
  }

  /** Reads the agent's settings again; call it after each change. */
  follow(agent: LocalAgent): void {
    this.#cancels.get(homeOf(agent))?.()
    this.#cancels.delete(homeOf(agent))
    if (this.#stopped) return
    const { mode, window, untilMs } = agent.reachability
    if (mode === 'hourly_wake' && window !== undefined) this.#wait(agent, nextOpeningMs(window, this.#clock.nowMs()))
    // A time that passed while the node was off has come now.
    else if (mode === 'sleep' && untilMs !== undefined) this.#wait(agent, untilMs)
  }

  #wait(agent: LocalAgent, atMs: number): void {
    const waitMs = atMs - this.#clock.nowMs()
    const cancel = this.#clock.after(Math.min(TIMER_MS_MAX, Math.max(0, waitMs)), () => {
      if (waitMs > TIMER_MS_MAX) this.follow(agent)
      else {
        this.#open(agent)
        if (agent.reachability.mode === 'hourly_wake') this.follow(agent)
        // Whoever woke the agent follows it again; a wake that the disk refused is tried again.
        else this.#wait(agent, this.#clock.nowMs() + TIMER_MS_MAX)
      }
    })
    this.#cancels.set(homeOf(agent), cancel)
  }

  stop(): void {
    this.#stopped = true
    for (const cancel of this.#cancels.values()) cancel()
    this.#cancels.clear()
  }
}

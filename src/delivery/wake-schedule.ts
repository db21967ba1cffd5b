import { nextOpeningMs } from '../../protocol/delivery/reachability.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'

/** A longer timer is set again when it ends, so that a step of the wall clock is noticed within this time. */
const TIMER_MS_MAX = 60_000

/** Calls `open` whenever the window of an `hourly_wake` agent opens. One timer an agent. */
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
    this.#cancels.get(agent.eidHex)?.()
    this.#cancels.delete(agent.eidHex)
    const { mode, window } = agent.reachability
    if (this.#stopped || mode !== 'hourly_wake' || window === undefined) return
    this.#wait(agent, nextOpeningMs(window, this.#clock.nowMs()))
  }

  #wait(agent: LocalAgent, atMs: number): void {
    const waitMs = atMs - this.#clock.nowMs()
    const cancel = this.#clock.after(Math.min(TIMER_MS_MAX, Math.max(0, waitMs)), () => {
      if (waitMs > TIMER_MS_MAX) this.follow(agent)
      else {
        this.#open(agent)
        this.follow(agent)
      }
    })
    this.#cancels.set(agent.eidHex, cancel)
  }

  stop(): void {
    this.#stopped = true
    for (const cancel of this.#cancels.values()) cancel()
    this.#cancels.clear()
  }
}

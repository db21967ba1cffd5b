import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Clock } from '../platform/clock.ts'

/** Identities that wait to be looked up; more are dropped and come again with their next join or session. */
export const CHECKS_WAITING_MAX = 256
/** Identities whose last look-up is remembered; at the bound the one looked up longest ago goes. */
const CHECKED_MAX = 4_096
/** One look-up of an identity in this time is enough. */
const CHECK_AGAIN_MS = 3_600_000
/** Between two look-ups: whoever makes us curious costs us no more than this. */
const CHECK_EVERY_MS = 30_000

/** Looks up, behind everybody's back and at a bounded rate, whether there is evidence against those that this node has to do with. */
export class Checks {
  readonly #clock: Clock
  readonly #check: (eid: EidHex) => Promise<void>
  readonly #waiting = new Set<EidHex>()
  readonly #checkedAtMs = new Map<EidHex, number>()
  #cancel: (() => void) | undefined
  #running: Promise<void> | undefined
  #state: 'idle' | 'on' | 'stopped' = 'idle'

  /** @param check - never rejects */
  constructor(clock: Clock, check: (eid: EidHex) => Promise<void>) {
    this.#clock = clock
    this.#check = check
  }

  begin(): void {
    this.#state = 'on'
    this.#arm()
  }

  ask(eid: EidHex): void {
    const atMs = this.#checkedAtMs.get(eid)
    if (atMs !== undefined && this.#clock.monotonicMs() - atMs < CHECK_AGAIN_MS) return
    if (this.#waiting.size >= CHECKS_WAITING_MAX) return
    this.#waiting.add(eid)
    this.#arm()
  }

  get waiting(): number {
    return this.#waiting.size
  }

  #arm(): void {
    if (this.#state !== 'on' || this.#cancel !== undefined || this.#running !== undefined || this.#waiting.size === 0) return
    this.#cancel = this.#clock.after(CHECK_EVERY_MS, () => {
      this.#cancel = undefined
      const eid = this.#waiting.values().next().value
      if (eid === undefined) return
      this.#waiting.delete(eid)
      this.#remember(eid)
      this.#running = this.#check(eid).finally(() => {
        this.#running = undefined
        this.#arm()
      })
    })
  }

  #remember(eid: EidHex): void {
    this.#checkedAtMs.delete(eid)
    if (this.#checkedAtMs.size >= CHECKED_MAX) this.#checkedAtMs.delete(this.#checkedAtMs.keys().next().value as EidHex)
    this.#checkedAtMs.set(eid, this.#clock.monotonicMs())
  }

  async idle(): Promise<void> {
    await this.#running
  }

  async stop(): Promise<void> {
    this.#state = 'stopped'
    this.#cancel?.()
    await this.#running
  }
}

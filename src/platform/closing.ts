import type { Clock } from './clock.ts'
import type { Logger } from './logger.ts'

interface Step {
  name: string
  budgetMs: number
  close: () => Promise<void> | void
}

/**
 * What was opened, closed in the opposite order, once, within a bound: a step that takes longer than its budget is left behind and named in the log,
 * so that one stuck peer or disk never holds up the rest (F095).
 */
export class Closing {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #totalMs: number
  readonly #steps: Step[] = []
  #running: Promise<void> | undefined

  constructor(components: { clock: Clock; logger: Logger }, init: { totalMs: number }) {
    this.#clock = components.clock
    this.#logger = components.logger
    this.#totalMs = init.totalMs
  }

  /** @param budgetMs - at most this long; the last steps of a stop (the first pushed) get what they name even when others overran */
  push(name: string, budgetMs: number, close: () => Promise<void> | void): void {
    this.#steps.push({ name, budgetMs, close })
  }

  get begun(): boolean {
    return this.#running !== undefined
  }

  /** Never rejects; a second call shares the first one's end. */
  run(): Promise<void> {
    this.#running ??= this.#run()
    return this.#running
  }

  async #run(): Promise<void> {
    const untilMs = this.#clock.monotonicMs() + this.#totalMs
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      const reservedMs = this.#steps.reduce((sum, one) => sum + Math.min(one.budgetMs, 250), 0)
      const leftMs = Math.max(50, untilMs - this.#clock.monotonicMs() - reservedMs)
      await this.#close(step, Math.min(step.budgetMs, leftMs))
    }
  }

  async #close({ name, close }: Step, budgetMs: number): Promise<void> {
    const late = Promise.withResolvers<'late'>()
    const cancel = this.#clock.after(budgetMs, () => late.resolve('late'))
    try {
      const done = (async () => await close())()
      done.catch(() => {})
      if ((await Promise.race([done, late.promise])) === 'late')
        this.#logger.warn({ step: name, budgetMs }, 'a step of the stop was left behind')
    } catch (error) {
      this.#logger.warn({ step: name, err: error }, 'a step of the stop failed')
    } finally {
      cancel()
    }
  }
}

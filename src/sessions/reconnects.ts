import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'

/** The first pause before a session is taken up again; doubled after each failure. */
export const RECONNECT_MS_MIN = 1_000

interface Attempt {
  failures: number
  running: boolean
  /** asked for again while one was running */
  again: boolean
  cancel: (() => void) | undefined
}

/**
 * When lost sessions are tried again: after about 1, 2, 4 … s up to a bound, each pause between 0.75 and 1.25 of that (F080), and at once when
 * something says that it would work now. One attempt a session at a time.
 */
export class Reconnects {
  readonly #clock: Clock
  readonly #random: Random
  readonly #msMax: number
  readonly #attempt: (id: string, failures: number) => Promise<'done' | 'failed'>
  /** as many as there are sessions in memory */
  readonly #attempts = new Map<string, Attempt>()
  #stopped = false

  constructor(
    { clock, random }: { clock: Clock; random: Random },
    { msMax, attempt }: { msMax: number; attempt: (id: string, failures: number) => Promise<'done' | 'failed'> }
  ) {
    this.#clock = clock
    this.#random = random
    this.#msMax = msMax
    this.#attempt = attempt
  }

  get size(): number {
    return this.#attempts.size
  }

  /** The session lost its connection: tries again after the pause that is due. */
  schedule(id: string): void {
    if (this.#stopped) return
    const attempt = this.#attempts.get(id) ?? { failures: 0, running: false, again: false, cancel: undefined }
    this.#attempts.set(id, attempt)
    if (attempt.running || attempt.cancel !== undefined) return
    const pauseMs = Math.min(this.#msMax, RECONNECT_MS_MIN * 2 ** Math.min(attempt.failures, 30)) * this.#jitter()
    attempt.cancel = this.#clock.after(pauseMs, () => void this.#run(id, attempt))
  }

  /** Something changed: the network, the peer's address, or it was seen. Tries now, and counts from the start again. */
  now(id: string): void {
    if (this.#stopped) return
    const attempt = this.#attempts.get(id) ?? { failures: 0, running: false, again: false, cancel: undefined }
    this.#attempts.set(id, attempt)
    attempt.failures = 0
    attempt.cancel?.()
    attempt.cancel = undefined
    if (attempt.running) attempt.again = true
    else void this.#run(id, attempt)
  }

  /** It is connected, parked or gone. */
  forget(id: string): void {
    this.#attempts.get(id)?.cancel?.()
    this.#attempts.delete(id)
  }

  stop(): void {
    this.#stopped = true
    for (const id of [...this.#attempts.keys()]) this.forget(id)
  }

  async #run(id: string, attempt: Attempt): Promise<void> {
    attempt.cancel = undefined
    attempt.running = true
    const outcome = await this.#attempt(id, attempt.failures).catch(() => 'failed' as const)
    attempt.running = false
    if (this.#attempts.get(id) !== attempt) return
    if (outcome === 'done') {
      this.forget(id)
      return
    }
    attempt.failures += 1
    if (attempt.again) {
      attempt.again = false
      void this.#run(id, attempt)
    } else this.schedule(id)
  }

  #jitter(): number {
    return 0.75 + ((this.#random.bytes(1)[0] as number) / 255) * 0.5
  }
}

import type { EseStatus } from '../../protocol/state/replica.ts'

/** Keys that wait for one watcher; beyond it all of them become one `reset`. */
export const WATCH_KEYS_MAX = 4_096
/** Watchers of one ESE. */
export const WATCHERS_MAX = 256

/**
 * What a watcher is told. Changes that come faster than it takes them are told once a key, with the value as it then is.
 * `reset`: more may have changed than is told key by key; read the whole. `status`: the state was lost, restored, or is gone.
 */
export type StateEvent<V> =
  | { kind: 'set'; key: string; value: V }
  | { kind: 'delete'; key: string }
  | { kind: 'reset' }
  | { kind: 'status'; status: EseStatus }

type Told = { kind: 'changed'; key: string } | { kind: 'reset' } | { kind: 'status'; status: EseStatus }

/** What waits for one watcher: bounded by {@link WATCH_KEYS_MAX}, whatever the writer does. */
export class Watch {
  readonly #wants: ((key: string) => boolean) | undefined
  readonly #keys = new Set<string>()
  #reset = false
  #status: EseStatus | undefined
  #over = false
  #wake: (() => void) | undefined

  constructor(wants?: (key: string) => boolean) {
    this.#wants = wants
  }

  changed(keys: Iterable<string>): void {
    if (this.#reset) return
    for (const key of keys) {
      if (this.#wants !== undefined && !this.#wants(key)) continue
      if (this.#keys.size === WATCH_KEYS_MAX && !this.#keys.has(key)) {
        this.reset()
        return
      }
      this.#keys.add(key)
    }
    if (this.#keys.size > 0) this.#wake?.()
  }

  reset(): void {
    this.#keys.clear()
    this.#reset = true
    this.#wake?.()
  }

  status(status: EseStatus): void {
    this.#status = status
    this.#wake?.()
  }

  end(): void {
    this.#over = true
    this.#wake?.()
  }

  /** @returns undefined once it is over and everything was told */
  async next(signal: AbortSignal | undefined): Promise<Told | undefined> {
    for (;;) {
      signal?.throwIfAborted()
      const told = this.#take()
      if (told !== undefined) return told
      if (this.#over) return undefined
      const { promise, resolve } = Promise.withResolvers<void>()
      const wake = () => resolve()
      this.#wake = wake
      signal?.addEventListener('abort', wake, { once: true })
      await promise
      signal?.removeEventListener('abort', wake)
      this.#wake = undefined
    }
  }

  #take(): Told | undefined {
    if (this.#status !== undefined) {
      const status = this.#status
      this.#status = undefined
      return { kind: 'status', status }
    }
    if (this.#reset) {
      this.#reset = false
      return { kind: 'reset' }
    }
    for (const key of this.#keys) {
      this.#keys.delete(key)
      return { kind: 'changed', key }
    }
    return undefined
  }
}

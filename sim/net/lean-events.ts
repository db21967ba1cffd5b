type Listener = ((event: Event) => void) | { handleEvent(event: Event): void }

interface Entry {
  readonly listener: Listener
  readonly once: boolean
  /** stops following the signal that was to end it */
  forget(): void
}

/**
 * The listeners of one end of a stream or a connection. Node's EventTarget, and main-event's own list beside it, keep some ten objects for each listener and
 * take longer for each event than all else that a stream in memory does.
 */
export class LeanEvents {
  readonly #lists = new Map<string, readonly Entry[]>()

  count(type: string): number {
    return this.#lists.get(type)?.length ?? 0
  }

  add(type: string, listener: Listener | null, options?: boolean | AddEventListenerOptions): void {
    if (listener === null) return
    const { once = false, signal = undefined } = typeof options === 'object' ? options : {}
    const list = this.#lists.get(type) ?? []
    if (signal?.aborted === true || list.some((one) => one.listener === listener)) return
    const gone = () => this.remove(type, listener)
    signal?.addEventListener('abort', gone, { once: true })
    this.#lists.set(type, [...list, { listener, once, forget: () => signal?.removeEventListener('abort', gone) }])
  }

  remove(type: string, listener: Listener | null): void {
    const list = this.#lists.get(type)
    const entry = list?.find((one) => one.listener === listener)
    if (list === undefined || entry === undefined) return
    entry.forget()
    if (list.length === 1) this.#lists.delete(type)
    else
      this.#lists.set(
        type,
        list.filter((one) => one !== entry)
      )
  }

  /** Calls those that listen now, in their order; one that throws is an uncaught exception, and the others are called all the same. */
  dispatch(event: Event): boolean {
    for (const { listener, once } of this.#lists.get(event.type) ?? []) {
      // one that an earlier listener took away is not called any more
      if (!this.#lists.get(event.type)?.some((one) => one.listener === listener)) continue
      if (once) this.remove(event.type, listener)
      try {
        if (typeof listener === 'function') listener(event)
        else listener.handleEvent(event)
      } catch (error) {
        queueMicrotask(() => {
          throw error
        })
      }
    }
    return !event.defaultPrevented
  }
}

const listeners = Symbol('listeners')

interface Emitter {
  [listeners]?: LeanEvents
}

/** Gives a class of event emitters these in place of its own, from the constructor of its base on. `listened` is told of each that is added. */
export function useLeanEvents<T extends object>(prototype: T, listened: (target: T, type: string) => void = () => {}): void {
  const of = (target: Emitter) => {
    target[listeners] ??= new LeanEvents()
    return target[listeners]
  }
  const calls = {
    listenerCount(this: Emitter, type: string): number {
      return of(this).count(type)
    },
    addEventListener(this: Emitter, type: string, listener: Listener | null, options?: boolean | AddEventListenerOptions): void {
      of(this).add(type, listener, options)
      listened(this as T, type)
    },
    removeEventListener(this: Emitter, type: string, listener: Listener | null): void {
      of(this).remove(type, listener)
    },
    dispatchEvent(this: Emitter, event: Event): boolean {
      return of(this).dispatch(event)
    },
    safeDispatchEvent(this: Emitter, type: string, detail: CustomEventInit = {}): boolean {
      const own = of(this)
      return own.count(type) === 0 || own.dispatch(new CustomEvent(type, detail))
    }
  }
  for (const [name, value] of Object.entries(calls)) Object.defineProperty(prototype, name, { value, writable: true, configurable: true })
}

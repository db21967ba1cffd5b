/** As much of Node's module as abstract-level uses. */
export class EventEmitter {
  #listeners = new Map()

  on(name, listener) {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener])
    return this
  }

  once(name, listener) {
    const once = (...args) => {
      this.off(name, once)
      listener(...args)
    }
    return this.on(name, once)
  }

  off(name, listener) {
    const rest = (this.#listeners.get(name) ?? []).filter((one) => one !== listener)
    this.#listeners.set(name, rest)
    return this
  }

  removeListener(name, listener) {
    return this.off(name, listener)
  }

  listenerCount(name) {
    return this.#listeners.get(name)?.length ?? 0
  }

  emit(name, ...args) {
    const listeners = this.#listeners.get(name) ?? []
    for (const listener of listeners) listener(...args)
    return listeners.length > 0
  }
}

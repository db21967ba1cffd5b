const NO_ENTRIES: ReadonlyMap<unknown, unknown> = new Map()
const NO_MEMBERS: ReadonlySet<unknown> = new Set()

/** A map whose table is made with its first entry and goes with the last. A session has dozens, and while it is idle nearly all of them are empty. */
export class LazyMap<K, V> implements ReadonlyMap<K, V> {
  #map: Map<K, V> | undefined

  constructor(entries: Iterable<readonly [K, V]> = []) {
    for (const [key, value] of entries) this.set(key, value)
  }

  get size(): number {
    return this.#map?.size ?? 0
  }

  get(key: K): V | undefined {
    return this.#map?.get(key)
  }

  has(key: K): boolean {
    return this.#map?.has(key) === true
  }

  set(key: K, value: V): this {
    this.#map ??= new Map()
    this.#map.set(key, value)
    return this
  }

  delete(key: K): boolean {
    const deleted = this.#map?.delete(key) === true
    if (deleted && this.#map?.size === 0) this.#map = undefined
    return deleted
  }

  clear(): void {
    this.#map = undefined
  }

  get #entries(): ReadonlyMap<K, V> {
    return this.#map ?? (NO_ENTRIES as ReadonlyMap<K, V>)
  }

  keys(): MapIterator<K> {
    return this.#entries.keys()
  }

  values(): MapIterator<V> {
    return this.#entries.values()
  }

  entries(): MapIterator<[K, V]> {
    return this.#entries.entries()
  }

  forEach(each: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const [key, value] of this.#entries) each(value, key, this)
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.#entries.entries()
  }
}

/** As {@link LazyMap}, of members. */
export class LazySet<T> implements Iterable<T> {
  #set: Set<T> | undefined

  get size(): number {
    return this.#set?.size ?? 0
  }

  has(value: T): boolean {
    return this.#set?.has(value) === true
  }

  add(value: T): this {
    this.#set ??= new Set()
    this.#set.add(value)
    return this
  }

  delete(value: T): boolean {
    const deleted = this.#set?.delete(value) === true
    if (deleted && this.#set?.size === 0) this.#set = undefined
    return deleted
  }

  clear(): void {
    this.#set = undefined
  }

  [Symbol.iterator](): SetIterator<T> {
    return (this.#set ?? (NO_MEMBERS as ReadonlySet<T>)).values()
  }
}

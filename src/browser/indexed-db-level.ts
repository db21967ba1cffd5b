import { AbstractIterator, AbstractLevel } from 'abstract-level'
import { RookeryError } from '../errors.ts'

/** The one object store of the database. */
const ROWS = 'rows'
/** Rows that a scan reads at a time, in one transaction. */
const SCAN_ROWS = 256

type Key = Uint8Array
type Op = { type: 'put'; key: Key; value: Uint8Array } | { type: 'del'; key: Key }
interface Range {
  gt?: Key
  gte?: Key
  lt?: Key
  lte?: Key
  reverse: boolean
  limit: number
}

/**
 * A level over IndexedDB. A batch is one transaction of durability `strict`: it resolves once the browser has it on disk, so that what is promised on
 * it outlives the page, the browser and the machine's power. Scans see what is written while they run.
 */
export class IndexedDbLevel extends AbstractLevel<Uint8Array, string, Uint8Array> {
  readonly #name: string
  #db: IDBDatabase | undefined

  /** @param name - of the database */
  constructor(name: string) {
    super({ encodings: { view: true }, snapshots: false, seek: false, has: true } as never, { keyEncoding: 'utf8', valueEncoding: 'view' })
    this.#name = name
  }

  /** @throws RookeryError `STORAGE_UNAVAILABLE` */
  protected async _open(): Promise<void> {
    this.#db = await openDatabase(this.#name)
    // another version of the page wants to change or remove the database: it is let go, and commits fail from here on
    this.#db.onversionchange = () => this.#db?.close()
  }

  protected async _close(): Promise<void> {
    this.#db?.close()
    this.#db = undefined
  }

  protected async _get(key: Key): Promise<Uint8Array | undefined> {
    const row: unknown = await answer(this.#rows('readonly').get(key as never))
    return row instanceof Uint8Array ? row : undefined
  }

  protected async _has(key: Key): Promise<boolean> {
    return (await answer(this.#rows('readonly').count(key as never))) > 0
  }

  protected async _put(key: Key, value: Uint8Array): Promise<void> {
    await this._batch([{ type: 'put', key, value }])
  }

  protected async _del(key: Key): Promise<void> {
    await this._batch([{ type: 'del', key }])
  }

  /** @throws RookeryError `STORE_FULL` where the browser grants no more room; then nothing of it is stored */
  protected async _batch(ops: readonly Op[]): Promise<void> {
    const rows = this.#rows('readwrite')
    const done = committed(rows.transaction)
    try {
      for (const op of ops) {
        if (op.type === 'put') rows.put(op.value, op.key as never)
        else rows.delete(op.key as never)
      }
      rows.transaction.commit()
    } catch (cause) {
      done.catch(() => {})
      throw storageError(cause)
    }
    await done
  }

  protected _iterator(options: Range): AbstractIterator<this, Uint8Array, Uint8Array> {
    return new Scan(this, options, (range, count) => this.#read(range, count))
  }

  async #read(range: Range, count: number): Promise<[Key, Uint8Array][]> {
    const bounds = keyRange(range)
    if (bounds === 'empty') return []
    const request = this.#rows('readonly').openCursor(bounds, range.reverse ? 'prev' : 'next')
    const { promise, resolve, reject } = Promise.withResolvers<[Key, Uint8Array][]>()
    const read: [Key, Uint8Array][] = []
    request.onerror = () => reject(storageError(request.error))
    request.onsuccess = () => {
      const cursor = request.result
      if (cursor === null) return resolve(read)
      read.push([new Uint8Array(cursor.key as ArrayBuffer), cursor.value as Uint8Array])
      if (read.length >= count) resolve(read)
      else cursor.continue()
    }
    return await promise
  }

  #rows(mode: 'readonly' | 'readwrite'): IDBObjectStore {
    if (this.#db === undefined) throw storageError(new Error('the database is closed'))
    try {
      return this.#db.transaction(ROWS, mode, { durability: 'strict' }).objectStore(ROWS)
    } catch (cause) {
      throw storageError(cause)
    }
  }
}

class Scan<Level> extends AbstractIterator<Level, Uint8Array, Uint8Array> {
  readonly #read: (range: Range, count: number) => Promise<[Key, Uint8Array][]>
  #range: Range
  #ahead: [Key, Uint8Array][] = []
  #isAtEnd = false

  constructor(level: Level, range: Range, read: (range: Range, count: number) => Promise<[Key, Uint8Array][]>) {
    super(level, range as never)
    this.#range = range
    this.#read = read
  }

  protected async _next(): Promise<[Key, Uint8Array] | undefined> {
    const [row] = await this._nextv(1)
    return row
  }

  protected async _nextv(size: number): Promise<[Key, Uint8Array][]> {
    if (this.#ahead.length === 0 && !this.#isAtEnd) {
      const count = this.limit >= 0 && Number.isFinite(this.limit) ? Math.min(SCAN_ROWS, Math.max(1, this.limit - this.count)) : SCAN_ROWS
      this.#ahead = await this.#read(this.#range, count)
      this.#isAtEnd = this.#ahead.length < count
      const last = this.#ahead.at(-1)?.[0]
      if (last !== undefined) this.#range = { ...this.#range, ...(this.#range.reverse ? { lt: last, lte: last } : { gt: last, gte: last }) }
      if (last !== undefined) delete this.#range[this.#range.reverse ? 'lte' : 'gte']
    }
    return this.#ahead.splice(0, size)
  }
}

function keyRange({ gt, gte, lt, lte }: Range): IDBKeyRange | null | 'empty' {
  const lower = gte ?? gt
  const upper = lte ?? lt
  try {
    if (lower !== undefined && upper !== undefined) return IDBKeyRange.bound(lower, upper, gte === undefined, lte === undefined)
    if (lower !== undefined) return IDBKeyRange.lowerBound(lower, gte === undefined)
    return upper === undefined ? null : IDBKeyRange.upperBound(upper, lte === undefined)
  } catch {
    return 'empty' // its ends have changed places
  }
}

async function openDatabase(name: string): Promise<IDBDatabase> {
  const { promise, resolve, reject } = Promise.withResolvers<IDBDatabase>()
  try {
    const request = indexedDB.open(name, 1)
    request.onupgradeneeded = () => request.result.createObjectStore(ROWS)
    request.onerror = () => reject(request.error)
    request.onblocked = () => reject(new Error('another page holds an older version of it'))
    request.onsuccess = () => resolve(request.result)
    return await promise
  } catch (cause) {
    throw new RookeryError('STORAGE_UNAVAILABLE', `this page cannot open its database: ${text(cause)}`, {
      kind: 'storage',
      field: 'store',
      value: name,
      remedy:
        "allow the page to keep data (private windows and blocked site data do not), or give `store: 'memory'`: then the identity ends with the page",
      cause
    })
  }
}

function answer<T>(request: IDBRequest<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  request.onsuccess = () => resolve(request.result)
  request.onerror = () => reject(storageError(request.error))
  return promise
}

function committed(transaction: IDBTransaction): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  transaction.oncomplete = () => resolve()
  transaction.onabort = () => reject(storageError(transaction.error))
  return promise
}

function storageError(cause: unknown): RookeryError {
  if (cause instanceof Error && cause.name === 'QuotaExceededError') {
    return new RookeryError('STORE_FULL', 'the browser grants this page no more room; nothing of this was stored', {
      kind: 'storage',
      field: 'store',
      remedy: 'free space on the device, end sessions that are no longer needed, or ask for more with navigator.storage.persist()',
      cause
    })
  }
  return new RookeryError('STORE_WRITE_FAILED', `the page's database failed: ${text(cause)}`, {
    kind: 'storage',
    field: 'store',
    remedy: 'reload the page; if it stays, the browser no longer lets this page keep data',
    cause
  })
}

function text(cause: unknown): string {
  return cause instanceof Error ? cause.message || cause.name : String(cause)
}

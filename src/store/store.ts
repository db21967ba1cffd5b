import type { AbstractLevel, AbstractSublevel } from 'abstract-level'
import { type CborValue, decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import { RookeryError } from '../errors.ts'

/** How a table's values become bytes. */
export interface Codec<V> {
  encode(value: V): Uint8Array
  decode(bytes: Uint8Array): V
}

export const bytesCodec: Codec<Uint8Array> = { encode: (value) => value, decode: (bytes) => bytes }

/** JSON values, as UTF-8. */
export function jsonCodec<V>(): Codec<V> {
  const encoder = new TextEncoder()
  const decoder = new TextDecoder('utf-8', { fatal: true })
  return { encode: (value) => encoder.encode(JSON.stringify(value)), decode: (bytes) => JSON.parse(decoder.decode(bytes)) as V }
}

export function cborCodec<V extends CborValue>(): Codec<V> {
  return { encode: (value) => encodeCbor(value), decode: (bytes) => decodeCbor(bytes) as V }
}

export interface RangeOptions {
  gt?: string
  gte?: string
  lt?: string
  lte?: string
  limit?: number
  reverse?: boolean
}

/** One step of a write batch; made by a table, performed by {@link Store.commit}. */
export interface WriteOp {
  readonly table: string
  readonly key: string
  /** undefined deletes */
  readonly value: Uint8Array | undefined
}

/** A typed sublevel. Keys are text that sorts by UTF-8 bytes; parts from outside go in as hex, so that no key reaches into another. */
export interface Table<V> {
  get(key: string): Promise<V | undefined>
  has(key: string): Promise<boolean>
  entries(range?: RangeOptions): AsyncIterable<[key: string, value: V]>
  keys(range?: RangeOptions): AsyncIterable<string>
  put(key: string, value: V): WriteOp
  del(key: string): WriteOp
}

type Level = AbstractLevel<string | Buffer | Uint8Array, string, Uint8Array>
type Sublevel = AbstractSublevel<Level, string | Buffer | Uint8Array, string, Uint8Array>

/** Writes that wait while a sync is under way go out together in the next one, at most this many operations at a time. */
const GROUP_OPS_MAX = 4_096

interface Waiting {
  ops: readonly WriteOp[]
  resolve(): void
  reject(error: unknown): void
}

/**
 * One LevelDB (or `memory-level`) with typed tables. {@link commit} is the only way to write: atomic, synced before it resolves, and
 * grouped: one sync serves all that wait for it.
 */
export class Store {
  readonly #level: Level
  readonly #tables = new Map<string, Sublevel>()
  #waiting: Waiting[] = []
  #flushing: Promise<void> | undefined
  #closed = false
  /** synced batches so far, for metrics and tests */
  syncs = 0

  // biome-ignore lint/suspicious/noExplicitAny: abstract-level is invariant in its types, and every encoding is set per sublevel
  constructor(level: AbstractLevel<any, any, any>) {
    this.#level = level as Level
  }

  table<V>(name: string, codec: Codec<V>): Table<V> {
    if (!/^[a-z][a-z0-9-]*$/.test(name)) throw new TypeError(`"${name}" is no table name`)
    const sub = this.#sublevel(name)
    return {
      async get(key) {
        const bytes = await sub.get(key)
        return bytes === undefined ? undefined : codec.decode(bytes)
      },
      has: (key) => sub.has(key),
      async *entries(range = {}) {
        for await (const [key, bytes] of sub.iterator(range)) yield [key, codec.decode(bytes)]
      },
      keys: (range = {}) => sub.keys(range),
      put: (key, value) => ({ table: name, key, value: codec.encode(value) }),
      del: (key) => ({ table: name, key, value: undefined })
    }
  }

  #sublevel(name: string): Sublevel {
    let sub = this.#tables.get(name)
    if (sub === undefined) {
      sub = this.#level.sublevel<string, Uint8Array>(name, { keyEncoding: 'utf8', valueEncoding: 'view' }) as unknown as Sublevel
      this.#tables.set(name, sub)
    }
    return sub
  }

  /**
   * Writes all of `ops` or none, and resolves after the sync.
   * @throws RookeryError `STORE_WRITE_FAILED`, `STORE_CLOSED`; then nothing of `ops` may be promised to anyone
   */
  async commit(ops: readonly WriteOp[]): Promise<void> {
    if (this.#closed) throw new RookeryError('STORE_CLOSED', 'the store is closed', { kind: 'storage' })
    if (ops.length === 0) return
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ ops, resolve, reject })
      this.#flushing ??= this.#flush()
    })
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group: Waiting[] = []
      let size = 0
      while (this.#waiting.length > 0 && size < GROUP_OPS_MAX) {
        const next = this.#waiting.shift() as Waiting
        group.push(next)
        size += next.ops.length
      }
      try {
        await this.#write(group.flatMap((one) => one.ops))
        for (const one of group) one.resolve()
      } catch (cause) {
        const error = new RookeryError('STORE_WRITE_FAILED', `the data directory refused a write: ${message(cause)}`, {
          kind: 'storage',
          cause,
          remedy: 'free space or mend the disk; the node goes on and tries again with the next write'
        })
        for (const one of group) one.reject(error)
      }
    }
    this.#flushing = undefined
  }

  async #write(ops: readonly WriteOp[]): Promise<void> {
    const batch = ops.map((op) =>
      op.value === undefined
        ? { type: 'del' as const, sublevel: this.#sublevel(op.table), key: op.key }
        : { type: 'put' as const, sublevel: this.#sublevel(op.table), key: op.key, value: op.value }
    )
    this.syncs++
    await this.#level.batch(batch as never, { sync: true } as never)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#flushing
    await this.#level.close()
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

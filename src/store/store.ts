import type { AbstractLevel, AbstractSnapshot, AbstractSublevel } from 'abstract-level'
import { equals } from '../../protocol/bytes.ts'
import { type CborValue, decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import { RookeryError } from '../errors.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import type { DiskRoom } from './disk-room.ts'

/** How a table's values become bytes. */
export interface Codec<V> {
  encode(value: V): Uint8Array
  decode(bytes: Uint8Array): V
}

export const bytesCodec: Codec<Uint8Array> = { encode: (value) => value, decode: (bytes) => bytes }

/** JSON values, as UTF-8. */
export function jsonCodec<V>(): Codec<V> {
  const encoder = new TextEncoder()
  return { encode: (value) => encoder.encode(JSON.stringify(value)), decode: (bytes) => parseStored(bytes) as V }
}

const decoder = new TextDecoder('utf-8', { fatal: true })

/** JSON that this node wrote down. @throws RookeryError `STORE_DAMAGED` where it is not what was written */
export function parseStored(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes))
  } catch (cause) {
    throw new RookeryError('STORE_DAMAGED', 'a row of the store cannot be read: it is not the JSON that was written', {
      kind: 'storage',
      cause,
      remedy: 'restore a backup; the disk may be failing'
    })
  }
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
  /** reads what stood there then */
  at?: Snapshot
}

/** All tables as they stood at one moment; open only within {@link Store.reading}. */
export interface Snapshot {
  readonly of: AbstractSnapshot
}

/** One step of a write batch; made by a table, performed by {@link Store.commit}. */
export interface WriteOp {
  readonly table: string
  readonly key: string
  /** undefined deletes */
  readonly value: Uint8Array | undefined
  /** told as soon as the batch with this operation has its place before all later ones, ahead of its sync */
  readonly onQueued?: () => void
  /** told once the batch with this operation is synced, before the commit resolves */
  readonly onSynced?: () => void
}

/** A typed sublevel. Keys are text that sorts by UTF-8 bytes; parts from outside go in as hex, so that no key reaches into another. */
export interface Table<V> {
  get(key: string, at?: Snapshot): Promise<V | undefined>
  has(key: string): Promise<boolean>
  entries(range?: RangeOptions): AsyncIterable<[key: string, value: V]>
  keys(range?: RangeOptions): AsyncIterable<string>
  put(key: string, value: V): WriteOp
  del(key: string): WriteOp
}

/** What LevelDB can and other databases cannot. */
interface ClassicLevel {
  approximateSize(start: string, end: string): Promise<number>
  compactRange(start: string, end: string): Promise<void>
}

/** Of a row as {@link Store.dump} gives it. */
export function tableOfKey(key: string): string {
  return key.slice(1, key.indexOf('!', 1))
}

type ScanOptions = Omit<RangeOptions, 'at'> & { snapshot?: AbstractSnapshot }
type Level = AbstractLevel<string | Buffer | Uint8Array, string, Uint8Array>
type Sublevel = AbstractSublevel<Level, string | Buffer | Uint8Array, string, Uint8Array>

/** Writes that wait while a sync is under way go out together in the next one, at most this many operations at a time. */
const GROUP_OPS_MAX = 4_096
/** After a failed try to open the database anew: twice as long each time, up to the last. */
const REOPEN_FIRST_MS = 250
const REOPEN_LAST_MS = 10_000
/** Opening LevelDB writes its log out as a table: with less room than that it is left as it is, readable. */
const REOPEN_FREE_BYTES_MIN = 6 * 1_048_576
const ITERATOR_GONE: readonly unknown[] = ['LEVEL_ITERATOR_NOT_OPEN', 'LEVEL_DATABASE_NOT_OPEN']

export interface CommitOptions {
  /** `reserve`: the write may use the room that is kept for what the owner does and what takes work off the node. Batches that delete always may */
  room?: 'reserve'
}

/** `full`: new things are refused, all else goes on; `failing`: no write is taken until the database was opened anew; `down`: it could not be opened */
export interface StoreState {
  state: 'ok' | 'full' | 'failing' | 'down'
  /** why, and since when, Unix ms */
  reason?: string
  sinceMs?: number
  freeBytes?: number
  reserveBytes?: number
}

interface Waiting {
  ops: readonly WriteOp[]
  room: CommitOptions['room']
  resolve(): void
  reject(error: unknown): void
}

interface Failure {
  error: RookeryError
  sinceMs: number
  retryAtMs: number
  backoffMs: number
  /** what the keys of the failed batch held before it */
  before: { table: string; key: string; value: Uint8Array | undefined }[]
  isDown: boolean
}

/**
 * One LevelDB (or `memory-level`) with typed tables. {@link commit} is the only way to write: atomic, synced before it resolves, and
 * grouped: one sync serves all that wait for it.
 *
 * After a write that the disk refused LevelDB takes no other, or takes it behind the remains of the first. So the next commit opens it anew, puts the keys
 * of the failed batch back to what they held (that batch was promised to nobody), and goes on; while that fails, commits fail at once.
 */
export class Store {
  readonly #level: Level
  readonly #clock: Clock
  readonly #room: DiskRoom | undefined
  readonly #tables = new Map<string, Sublevel>()
  #waiting: Waiting[] = []
  #flushing: Promise<void> | undefined
  #failure: Failure | undefined
  #reopening: Promise<void> | undefined
  readonly #onSync: ((ms: number) => void) | undefined
  #closed = false
  /** what there was no room for, until something of its size is admitted again */
  #refusedBytes = 0
  /** synced batches so far, for metrics and tests */
  syncs = 0
  /** times that the database was opened anew after a failed write */
  reopened = 0

  // biome-ignore lint/suspicious/noExplicitAny: abstract-level is invariant in its types, and every encoding is set per sublevel
  constructor(level: AbstractLevel<any, any, any>, init: { clock?: Clock; room?: DiskRoom; onSync?: (ms: number) => void } = {}) {
    const { clock = systemClock, room, onSync } = init
    this.#level = level as Level
    this.#clock = clock
    this.#room = room
    this.#onSync = onSync
  }

  table<V>(name: string, codec: Codec<V>): Table<V> {
    if (!/^[a-z][a-z0-9-]*$/.test(name)) throw new TypeError(`"${name}" is no table name`)
    return {
      get: async (key, at) => {
        const bytes = await read(await this.#readable(name), key, at)
        return bytes === undefined ? undefined : codec.decode(bytes)
      },
      has: async (key) => await (await this.#readable(name)).has(key),
      entries: (range = {}) => this.#entries(name, codec, range),
      keys: (range = {}) => this.#keys(name, range),
      put: (key, value) => ({ table: name, key, value: codec.encode(value) }),
      del: (key) => ({ table: name, key, value: undefined })
    }
  }

  async *#entries<V>(name: string, codec: Codec<V>, range: RangeOptions): AsyncGenerator<[key: string, value: V]> {
    for await (const [key, bytes] of this.#scan(
      name,
      range,
      (sub, rest) => sub.iterator(rest),
      ([key]) => key
    ))
      yield [key, codec.decode(bytes)]
  }

  #keys(name: string, range: RangeOptions): AsyncGenerator<string> {
    return this.#scan(
      name,
      range,
      (sub, rest) => sub.keys(rest),
      (key) => key
    )
  }

  /** A scan goes on behind the last key where the database was opened anew meanwhile. */
  async *#scan<T>(
    name: string,
    { at, ...range }: RangeOptions,
    over: (sub: Sublevel, range: ScanOptions) => AsyncIterable<T>,
    keyOf: (item: T) => string
  ): AsyncGenerator<T> {
    let rest: ScanOptions = at === undefined ? range : { ...range, snapshot: at.of }
    for (;;) {
      const opened = this.reopened
      try {
        for await (const item of over(await this.#readable(name), rest)) {
          yield item
          const { gt: _, gte: __, lt: ___, lte: ____, limit, ...others } = rest
          const bound = range.reverse === true ? { lt: keyOf(item) } : { gt: keyOf(item) }
          rest = { ...range, ...others, ...bound, ...(limit === undefined ? {} : { limit: limit - 1 }) }
        }
        return
      } catch (error) {
        if (this.#closed || at !== undefined || !ITERATOR_GONE.includes((error as { code?: unknown }).code)) throw error
        if (this.#reopening === undefined && this.reopened === opened) throw error
        if (rest.limit !== undefined && rest.limit <= 0) return
      }
    }
  }

  /** @throws RookeryError `STORE_DOWN` */
  async #readable(name: string): Promise<Sublevel> {
    await this.#opened()
    return this.#sublevel(name)
  }

  async #opened(): Promise<void> {
    await this.#reopening
    if (this.#failure?.isDown === true && !this.#closed) {
      throw new RookeryError('STORE_DOWN', `the store could not be opened anew: ${this.#failure.error.message}`, {
        kind: 'storage',
        cause: this.#failure.error,
        remedy: 'free space or mend the disk; the node tries again by itself'
      })
    }
  }

  /**
   * Reads of one moment: whatever `work` reads with the snapshot fits together, however many rows are written meanwhile.
   * @throws RookeryError `STORE_DOWN`, and `STORE_REOPENED` where the database was opened anew under it
   */
  async reading<T>(work: (at: Snapshot) => Promise<T>): Promise<T> {
    await this.#opened()
    const of = this.#level.snapshot()
    const opened = this.reopened
    try {
      return await work({ of })
    } catch (error) {
      if (this.#reopening === undefined && this.reopened === opened) throw error
      throw new RookeryError('STORE_REOPENED', 'the store was opened anew while it was read', {
        kind: 'storage',
        cause: error,
        remedy: 'ask again'
      })
    } finally {
      await of.close()
    }
  }

  /** All rows of all tables as they stand at one moment, whatever is written meanwhile; keys hold the name of the table. */
  async *dump(): AsyncGenerator<[key: string, value: Uint8Array]> {
    await this.#reopening
    yield* this.#level.iterator({ keyEncoding: 'utf8', valueEncoding: 'view' }) as AsyncIterable<[string, Uint8Array]>
  }

  /** Names of the tables that hold something. */
  async tables(): Promise<string[]> {
    await this.#reopening
    const names: string[] = []
    for (let after = ''; ; ) {
      const [key] = (await this.#level.keys({ gt: after, limit: 1, keyEncoding: 'utf8' } as never).all()) as unknown as string[]
      if (key === undefined) return names
      const name = tableOfKey(key)
      names.push(name)
      // every row's key begins with "!table!"
      after = `!${name}"`
    }
  }

  /** What a table takes of LevelDB's files, about; what still lies in its log is not in it. 0 in memory. */
  async bytesOnDisk(table: string): Promise<number> {
    await this.#reopening
    const { approximateSize } = this.#level as Partial<ClassicLevel>
    return (await approximateSize?.call(this.#level, `!${table}!`, `!${table}"`)) ?? 0
  }

  /**
   * Has LevelDB rewrite a table without what was deleted or replaced; reads and writes go on. It needs about the table's size of free room meanwhile.
   * @throws RookeryError `STORE_FULL`: nothing was touched
   */
  async compact(table: string): Promise<void> {
    const bytes = await this.bytesOnDisk(table)
    const space = await this.#room?.state()
    if (space !== undefined && space.totalBytes > 0 && space.freeBytes - bytes < space.reserveBytes) throw storeFull()
    const { compactRange } = this.#level as Partial<ClassicLevel>
    await compactRange?.call(this.#level, `!${table}!`, `!${table}"`)
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
   * @throws RookeryError `STORE_FULL`, `STORE_WRITE_FAILED`, `STORE_CLOSED`; then nothing of `ops` may be promised to anyone
   */
  async commit(ops: readonly WriteOp[], options: CommitOptions = {}): Promise<void> {
    if (this.#closed) throw new RookeryError('STORE_CLOSED', 'the store is closed', { kind: 'storage' })
    if (ops.length === 0) return
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ ops, room: options.room, resolve, reject })
      for (const { onQueued } of ops) onQueued?.()
      this.#flushing ??= this.#flush()
    })
  }

  /** What `status` shows. Tries to open the database anew where that is due, so that asking is enough to get well. */
  async state(): Promise<StoreState> {
    if (this.#failure !== undefined && !this.#closed) {
      this.#flushing ??= this.#flush()
      await this.#flushing
    }
    const space = await this.#room?.state()
    const shown = space === undefined || space.totalBytes === 0 ? {} : { freeBytes: space.freeBytes, reserveBytes: space.reserveBytes }
    const failure = this.#failure
    if (failure !== undefined) {
      return { state: failure.isDown ? 'down' : 'failing', reason: failure.error.message, sinceMs: failure.sinceMs, ...shown }
    }
    if (this.#room !== undefined && !(await this.#room.admits(this.#refusedBytes))) {
      return { state: 'full', reason: 'less is free than is kept in reserve; nothing new is taken', ...shown }
    }
    this.#refusedBytes = 0
    return { state: 'ok', ...shown }
  }

  async #flush(): Promise<void> {
    if (this.#failure !== undefined) await this.#recover()
    while (this.#waiting.length > 0) {
      const group: Waiting[] = []
      let size = 0
      while (this.#waiting.length > 0 && size < GROUP_OPS_MAX) {
        const next = this.#waiting.shift() as Waiting
        group.push(next)
        size += next.ops.length
      }
      await this.#writeGroup(group)
    }
    this.#flushing = undefined
  }

  async #writeGroup(asked: readonly Waiting[]): Promise<void> {
    const { group, bytes } = await this.#admitted(asked)
    if (group.length === 0) return
    if (this.#failure !== undefined) await this.#recover()
    const ops = group.flatMap((one) => one.ops)
    try {
      if (this.#failure !== undefined) throw this.#failure.error
      await this.#write(ops)
      this.#room?.spent(bytes)
      for (const { onSynced } of ops) onSynced?.()
      for (const one of group) one.resolve()
    } catch (cause) {
      if (this.#failure === undefined) await this.#failed(ops, cause)
      const error = this.#failure?.error ?? cause
      for (const one of group) one.reject(error)
    }
  }

  /** What there is room for; the rest is refused. */
  async #admitted(asked: readonly Waiting[]): Promise<{ group: readonly Waiting[]; bytes: number }> {
    const allBytes = asked.reduce((sum, { ops }) => sum + bytesOf(ops), 0)
    if (this.#room === undefined || (await this.#room.admits(allBytes))) return { group: asked, bytes: allBytes }
    const group: Waiting[] = []
    let bytes = 0
    for (const one of asked) {
      const ownBytes = bytesOf(one.ops)
      if (usesReserve(one) || (await this.#room.admits(bytes + ownBytes))) {
        group.push(one)
        bytes += ownBytes
      } else {
        this.#refusedBytes = ownBytes
        one.reject(storeFull())
      }
    }
    return { group, bytes }
  }

  async #write(ops: readonly WriteOp[]): Promise<void> {
    const batch = ops.map((op) =>
      op.value === undefined
        ? { type: 'del' as const, sublevel: this.#sublevel(op.table), key: op.key }
        : { type: 'put' as const, sublevel: this.#sublevel(op.table), key: op.key, value: op.value }
    )
    this.syncs++
    const startMs = this.#clock.monotonicMs()
    await this.#level.batch(batch as never, { sync: true } as never)
    this.#onSync?.(this.#clock.monotonicMs() - startMs)
  }

  /** A refused batch is in no memory table, so what its keys held can still be read. */
  async #failed(ops: readonly WriteOp[], cause: unknown): Promise<void> {
    const error = cause instanceof RookeryError ? cause : refused(cause, 'with the next write')
    const before = new Map<string, Failure['before'][number]>()
    for (const { table, key } of ops) {
      const name = `${table} ${key}`
      if (before.has(name)) continue
      const value = await this.#sublevel(table)
        .get(key)
        .catch(() => undefined)
      before.set(name, { table, key, value })
    }
    const retryAtMs = this.#clock.monotonicMs()
    this.#failure = {
      error,
      sinceMs: this.#clock.nowMs(),
      retryAtMs,
      backoffMs: REOPEN_FIRST_MS,
      before: [...before.values()],
      isDown: false
    }
  }

  async #recover(): Promise<void> {
    const failure = this.#failure
    const nowMs = this.#clock.monotonicMs()
    if (failure === undefined || this.#closed || nowMs < failure.retryAtMs) return
    failure.retryAtMs = nowMs + failure.backoffMs
    failure.backoffMs = Math.min(failure.backoffMs * 2, REOPEN_LAST_MS)
    const space = await this.#room?.state()
    if (space !== undefined && space.totalBytes > 0 && space.freeBytes < REOPEN_FREE_BYTES_MIN) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#reopening = promise
    try {
      await this.#level.close()
      this.#tables.clear()
      await this.#level.open()
      failure.isDown = false
      this.reopened++
      const undo: WriteOp[] = []
      for (const { table, key, value } of failure.before) {
        const now = await this.#sublevel(table).get(key)
        const isSame = now === undefined || value === undefined ? now === value : equals(now, value)
        if (!isSame) undo.push({ table, key, value })
      }
      if (undo.length > 0) await this.#write(undo)
      this.#failure = undefined
    } catch (cause) {
      failure.isDown = this.#level.status !== 'open'
      failure.error = cause instanceof RookeryError ? cause : refused(cause, 'by itself')
    } finally {
      this.#reopening = undefined
      resolve()
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#flushing
    await this.#level.close()
  }
}

/**
 * Looks up in this thread where the database can: what is asked for lies in memory or in the system's file cache as a rule, and the detour through
 * the thread pool costs many times the look-up.
 */
async function read(sub: Sublevel, key: string, at: Snapshot | undefined): Promise<Uint8Array | undefined> {
  const { getSync } = sub.supports as { getSync?: boolean }
  const options = at === undefined ? {} : { snapshot: at.of }
  return getSync === true && sub.status === 'open' ? sub.getSync(key, options) : await sub.get(key, options)
}

function usesReserve({ ops, room }: Waiting): boolean {
  return room === 'reserve' || ops.some(({ value }) => value === undefined)
}

function bytesOf(ops: readonly WriteOp[]): number {
  return ops.reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), 0)
}

function refused(cause: unknown, again: string): RookeryError {
  return new RookeryError('STORE_WRITE_FAILED', `the data directory refused a write: ${message(cause)}`, {
    kind: 'storage',
    cause,
    remedy: `free space or mend the disk; the node goes on and tries again ${again}`
  })
}

function storeFull(): RookeryError {
  return new RookeryError('STORE_FULL', 'the disk is full but for a reserve, so nothing new is taken', {
    kind: 'storage',
    field: 'dataDir',
    remedy: 'free space on the volume of the data directory; the node takes new things again by itself'
  })
}

/** The reason at the bottom: an `Error: database failed to open` alone would say nothing. */
function message(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  const text = error instanceof Error ? error.message : String(error)
  return cause instanceof Error ? `${text}: ${cause.message}` : text
}

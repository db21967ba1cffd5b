import type { EseValue, EseWrite } from '../../protocol/state/batch.ts'
import type { JsonValue } from '../../protocol/state/json.ts'
import type { JsonPatchOp } from '../../protocol/state/patch.ts'
import type { EseStatus } from '../../protocol/state/replica.ts'
import type { EseSide } from './ese-side.ts'
import type { SessionEse } from './session-ese.ts'
import type { SchemaOf } from './standard-schema.ts'
import { TypedOwnState, TypedState } from './typed.ts'
import type { StateEvent } from './watch.ts'

export interface WatchOptions {
  /** only these; default: every key */
  keys?: readonly string[]
  signal?: AbortSignal
}

/** The facts of one ESE, for people and programs. */
export interface StateInfo {
  status: EseStatus
  keys: number
  /** as the contract counts them: key, value and 32 an entry */
  bytes: number
  bytesMax: number
  /** SHA-256 over the whole state, hex: equal at the writer and the mirror; absent unless `current` */
  hash?: string
}

/** One ESE of a session's pair, read. Every read gives a value of its own. */
export class State {
  protected readonly ese: SessionEse
  protected readonly side: EseSide

  constructor(ese: SessionEse, side: EseSide) {
    this.ese = ese
    this.side = side
  }

  /** `lost`: this node came back without the values and waits for the peer; `gone`: erased */
  get status(): EseStatus {
    return this.side.status
  }

  /** Keys that hold a value. */
  get size(): number {
    return this.side.replica.map.size
  }

  info(): StateInfo {
    const { map } = this.side.replica
    const { status, size } = this
    return {
      status,
      keys: size,
      bytes: map.bytes,
      bytesMax: map.bounds.bytesMax,
      ...(status === 'current' ? { hash: this.side.hash() } : {})
    }
  }

  /** SHA-256 over the whole state, hex. @throws as {@link get} */
  hash(): string {
    this.#check()
    return this.side.hash()
  }

  /** @throws RookeryError `ESE_GONE`, `ESE_LOST`; `CONTRACT_LIMIT` where the contract grants no reading */
  get(key: string): EseValue | undefined {
    this.#check()
    return this.side.get(key)
  }

  has(key: string): boolean {
    this.#check()
    return this.side.replica.map.has(key)
  }

  /** Sorted. @throws as {@link get} */
  keys(): string[] {
    this.#check()
    return [...this.side.replica.map.keys()].sort()
  }

  /** Sorted by key. @throws as {@link get} */
  entries(): [key: string, value: EseValue][] {
    return this.keys().map((key) => [key, this.side.get(key) as EseValue])
  }

  #check(): void {
    this.ese.checkScopes()
    this.side.checkReadable()
  }

  /**
   * What changes from now on. A watcher that is slower than the writer sees a key once, with its value at that time, and never holds the writer up.
   * Ends with the session, or by the signal; leaving the loop stops it.
   * @throws RookeryError `ESE_WATCHERS_MAX`, `CONTRACT_LIMIT`
   */
  watch({ keys, signal }: WatchOptions = {}): AsyncGenerator<StateEvent<EseValue>, void, undefined> {
    this.ese.checkScopes()
    const { side } = this
    const { watch, stop } = side.watch(keys)
    const loop: AsyncGenerator<StateEvent<EseValue>, void, undefined> = (async function* () {
      try {
        for (;;) {
          const told = await watch.next(signal)
          if (told === undefined) return
          if (told.kind !== 'changed') yield told
          else if (side.status === 'current') {
            const value = side.get(told.key)
            yield value === undefined ? { kind: 'delete', key: told.key } : { kind: 'set', key: told.key, value }
          }
        }
      } catch (error) {
        if (signal?.aborted !== true) throw error
      } finally {
        stop()
      }
    })()
    const end = loop.return.bind(loop)
    loop.return = (value) => {
      stop() // also where nothing was asked for yet
      return end(value)
    }
    return loop
  }

  /** The same, with values checked by a Standard Schema (zod, valibot …): one for every key, or one a key. */
  as<const S extends SchemaOf>(schema: S): TypedState<S> {
    return new TypedState(this, schema)
  }
}

/**
 * The ESE that we write. Each call takes effect here at once and resolves when the peer has it; all of them may reject with `ESE_GONE`, `ESE_LOST`,
 * `ESE_REFUSED`, `ESE_LIMIT`, `CONTRACT_LIMIT`, `SESSION_CLOSED`, `SESSION_QUEUE_FULL`, and then nothing has changed; with `SESSION_LOST` where the session
 * ended before the peer had it.
 */
export class OwnState extends State {
  set(key: string, value: EseValue): Promise<void> {
    return this.ese.write([{ op: 'set', key, value }])
  }

  delete(key: string): Promise<void> {
    return this.ese.write([{ op: 'delete', key }])
  }

  /** RFC 6902; the key must hold JSON. */
  patch(key: string, patch: readonly JsonPatchOp[]): Promise<void> {
    return this.ese.write([{ op: 'patch', key, patch }])
  }

  /** RFC 7396; members that are null go. */
  merge(key: string, patch: JsonValue): Promise<void> {
    return this.ese.write([{ op: 'merge', key, patch }])
  }

  /** All of them, or none; the peer sees them at once, too. At most 1,024 changes and about 1 MiB. */
  write(writes: readonly EseWrite[]): Promise<void> {
    return this.ese.write(writes)
  }

  /** The whole state anew; the one way to write while it is `lost`. */
  replace(entries: Iterable<readonly [key: string, value: EseValue]> | Readonly<Record<string, EseValue>>): Promise<void> {
    const all = Symbol.iterator in entries ? (entries as Iterable<readonly [string, EseValue]>) : Object.entries(entries)
    return this.ese.write(
      Array.from(all, ([key, value]) => ({ op: 'set', key, value })),
      { clear: true }
    )
  }

  override as<const S extends SchemaOf>(schema: S): TypedOwnState<S> {
    return new TypedOwnState(this, schema)
  }
}

/** The pair of a session. */
export interface SessionStates {
  /** ours: the peer mirrors it */
  readonly own: OwnState
  /** the mirror of the peer's */
  readonly peer: State
  /** no other session shares either (flag EXCLUSIVE) */
  readonly exclusive: boolean
}

import { compare, concat, equals, utf8, Writer, wipe } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import {
  changeBytes,
  decodeEseBatch,
  decodeEseValue,
  ESE_CHANGES_MAX,
  ESE_VALUE_BYTES_MAX,
  type EseBatch,
  type EseChange,
  type EseValue,
  encodeEseBatch,
  encodeEseValue
} from './batch.ts'
import { type JsonValue, parseCanonicalJson } from './json.ts'
import { applyJsonPatch, applyMergePatch, jsonPatchOf } from './patch.ts'

/** What an entry counts beside its key's and its value's bytes. */
export const ESE_ENTRY_BYTES = 32
/** What one batch of a snapshot carries where nobody says otherwise; one larger value travels alone. */
export const SNAPSHOT_BATCH_BYTES = 65_536

const STATE_CONTEXT = context('ese-state')

export interface EseBounds {
  readonly keysMax: number
  /** of one value; default ESE_VALUE_BYTES_MAX */
  readonly valueBytesMax?: number
  /** of all entries: key, value and {@link ESE_ENTRY_BYTES} each */
  readonly bytesMax: number
}

export const ESE_BOUNDS_DEFAULT: EseBounds = { keysMax: 65_536, bytesMax: 16 * 1_048_576 }

/** What a batch did. `cleared`: all that was there before went first. */
export interface EseDelta {
  readonly cleared: boolean
  /** keys whose value is another one now; those that only a clear took away are not among them */
  readonly keys: readonly string[]
}

/**
 * The state of one Ephemeral State Endpoint (protocol/README.md §6): a map with one writer, the same at the writer and at every replica. Values are
 * held as bytes, in buffers that nothing else holds, so that they can be overwritten: when they are replaced, and all of them by {@link erase}.
 */
export class EseMap {
  readonly bounds: EseBounds
  readonly #crypto: CryptoProvider
  readonly #entries = new Map<string, Uint8Array>()
  #bytes = 0
  #erased = false

  constructor(crypto: CryptoProvider, bounds: EseBounds = ESE_BOUNDS_DEFAULT) {
    this.#crypto = crypto
    this.bounds = bounds
  }

  get size(): number {
    return this.#entries.size
  }

  /** As {@link EseBounds.bytesMax} counts them. */
  get bytes(): number {
    return this.#bytes
  }

  /** Overwritten: there is nothing here any more, and never will be. */
  get isErased(): boolean {
    return this.#erased
  }

  keys(): IterableIterator<string> {
    return this.#entries.keys()
  }

  has(key: string): boolean {
    return this.#entries.has(key)
  }

  /** A value of its own, not shared with the map. */
  get(key: string): EseValue | undefined {
    const bytes = this.#entries.get(key)
    return bytes === undefined ? undefined : decodeEseValue(bytes)
  }

  /** The buffer itself, for who must see that it is overwritten. */
  held(key: string): Uint8Array | undefined {
    return this.#entries.get(key)
  }

  /**
   * Applies all changes in their order, or none of them.
   * @throws as {@link prepare}
   */
  apply(batch: EseBatch): EseDelta {
    return this.prepare(batch).commit()
  }

  /**
   * Works out what a batch does, without doing it. Until `commit` or `discard` the map must not change.
   * @param batch - copied: nothing of it is kept
   * @throws ProtocolError `TOO_LARGE` (field `keysMax`, `bytesMax`, `valueBytesMax`, `value`), `FIELD_INVALID` (a patch that does not fit, a value
   *   that is none), `UTF8_INVALID`, `OUT_OF_ORDER` after {@link erase}
   */
  prepare({ clear, changes }: EseBatch): { readonly bytes: number; commit(): EseDelta; discard(): void } {
    if (this.#erased) throw new ProtocolError('OUT_OF_ORDER', 'the state was erased', { field: 'state' })
    const { valueBytesMax = ESE_VALUE_BYTES_MAX } = this.bounds
    const staged = new Map<string, Uint8Array | undefined>()
    const now = (key: string) => (staged.has(key) ? staged.get(key) : clear ? undefined : this.#entries.get(key))
    const discard = () => {
      for (const value of staged.values()) if (value !== undefined) wipe(value)
    }
    let size = clear ? 0 : this.#entries.size
    let bytes = clear ? 0 : this.#bytes
    try {
      for (const change of changes) {
        const { key } = change
        const before = now(key)
        const after = resultOf(change, before)
        if (staged.has(key)) wipe(before ?? new Uint8Array(0))
        staged.set(key, after)
        const keyBytes = utf8(key).length + ESE_ENTRY_BYTES
        if (before !== undefined) bytes -= keyBytes + before.length
        if (after !== undefined) {
          bytes += keyBytes + after.length
          if (after.length > valueBytesMax) throw over('valueBytesMax', after.length, valueBytesMax)
        }
        size += (after === undefined ? 0 : 1) - (before === undefined ? 0 : 1)
      }
      if (size > this.bounds.keysMax) throw over('keysMax', size, this.bounds.keysMax)
      if (bytes > this.bounds.bytesMax) throw over('bytesMax', bytes, this.bounds.bytesMax)
    } catch (error) {
      discard()
      throw error
    }
    return { bytes, commit: () => this.#commit(clear, staged, bytes), discard }
  }

  #commit(clear: boolean, staged: ReadonlyMap<string, Uint8Array | undefined>, bytes: number): EseDelta {
    const keys: string[] = []
    for (const [key, after] of staged) {
      const before = this.#entries.get(key)
      const isSame = before === undefined || after === undefined ? before === after : equals(before, after)
      if (!isSame) keys.push(key)
    }
    if (clear) this.#wipeAll()
    for (const [key, after] of staged) {
      const before = this.#entries.get(key)
      if (before !== undefined) wipe(before)
      if (after === undefined) this.#entries.delete(key)
      else this.#entries.set(key, after)
    }
    this.#bytes = bytes
    return { cleared: clear, keys }
  }

  /** The same for equal states, however they came about: H(context ‖ u32 count ‖ H(u16 length ‖ key ‖ value)*), keys in the order of their bytes. */
  hash(): Uint8Array {
    const sorted = this.#sorted()
    const leaves = sorted.map(([key, value]) => this.#crypto.sha256(new Writer(2 + key.length).u16(key.length).bytes(key).finish(), value))
    return this.#crypto.sha256(STATE_CONTEXT, new Writer(4).u32(sorted.length).finish(), concat(leaves))
  }

  #sorted(): [key: Uint8Array, value: Uint8Array][] {
    return [...this.#entries].map(([key, value]): [Uint8Array, Uint8Array] => [utf8(key), value]).sort(([a], [b]) => compare(a, b))
  }

  /**
   * The state as encoded batches, the first of which clears: applied in order to any map they make this one. It is the shortest history that does.
   * @param partBytes - what one batch may take; a value that is larger by itself gets a batch of its own
   */
  *snapshot(partBytes: number = SNAPSHOT_BATCH_BYTES): Generator<Uint8Array, void, undefined> {
    let changes: EseChange[] = []
    let size = 3
    let clear = true
    for (const key of [...this.#entries.keys()].sort()) {
      const bytes = this.#entries.get(key)
      if (bytes === undefined) continue
      const change: EseChange = { op: 'set', key, bytes }
      const more = changeBytes(change)
      if (changes.length > 0 && (size + more > partBytes || changes.length === ESE_CHANGES_MAX)) {
        yield encodeEseBatch({ clear, changes })
        changes = []
        size = 3
        clear = false
      }
      changes.push(change)
      size += more
    }
    if (clear || changes.length > 0) yield encodeEseBatch({ clear, changes })
  }

  /** @throws as {@link decodeEseBatch} and {@link apply}; `OUT_OF_ORDER` where the first batch does not clear, or a later one does */
  static fromSnapshot(crypto: CryptoProvider, bounds: EseBounds, parts: Iterable<Uint8Array>): EseMap {
    const map = new EseMap(crypto, bounds)
    let first = true
    try {
      for (const part of parts) {
        const batch = decodeEseBatch(part)
        if (batch.clear !== first) throw new ProtocolError('OUT_OF_ORDER', 'a snapshot clears once, first', { field: 'flags' })
        first = false
        map.apply(batch)
      }
      if (first) throw new ProtocolError('TRUNCATED', 'a snapshot has at least one batch', { field: 'parts' })
    } catch (error) {
      map.erase()
      throw error
    }
    return map
  }

  /** Overwrites every value with zeros and lets go of all keys, for good. */
  erase(): void {
    this.#wipeAll()
    this.#bytes = 0
    this.#erased = true
  }

  #wipeAll(): void {
    for (const value of this.#entries.values()) wipe(value)
    this.#entries.clear()
  }
}

/** The value that the key then holds, in a buffer of its own. */
function resultOf(change: EseChange, before: Uint8Array | undefined): Uint8Array | undefined {
  if (change.op === 'delete') return undefined
  if (change.op === 'set') {
    decodeEseValue(change.bytes)
    return new Uint8Array(change.bytes)
  }
  const patch = parseCanonicalJson(change.bytes)
  const held = before === undefined ? undefined : decodeEseValue(before)
  if (held instanceof Uint8Array) throw noJson(change.key, 'holds a blob')
  if (change.op === 'merge') return encodeEseValue(applyMergePatch(held, patch))
  if (held === undefined) throw noJson(change.key, 'holds nothing')
  return encodeEseValue(applyJsonPatch(held, jsonPatchOf(patch)) as JsonValue)
}

function noJson(key: string, why: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', `"${key.slice(0, 64)}" ${why}: only JSON can be patched`, { field: 'key' })
}

function over(field: keyof EseBounds, value: number, max: number): ProtocolError {
  return new ProtocolError('TOO_LARGE', `${field}: ${value}, at most ${max}`, { field })
}

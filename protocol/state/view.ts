import { equals, Reader, Writer } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { decodeEseBatch } from './batch.ts'
import { type EseBounds, EseMap } from './map.ts'
import { ESE_RUN_BYTES, type EsePoint } from './seal.ts'

/** Parts of one view. */
export const VIEW_PARTS_MAX = 65_535
/** What stands before a part's batch. */
export const VIEW_HEAD_BYTES = ESE_RUN_BYTES + 8 + 4

/** Nothing was written yet: an all-zero run. */
const NO_RUN = new Uint8Array(ESE_RUN_BYTES)

/** A part of a view: one side's whole state of an ESE. `count` 0: it holds none. */
export interface ViewPart {
  /** the writer's newest batch that is in it; undefined: none yet */
  readonly asOf: EsePoint | undefined
  readonly index: number
  readonly count: number
  readonly batch: Uint8Array
}

/** run 16 ‖ n u64 ‖ u16 index ‖ u16 count ‖ batch */
export function encodeViewPart({ asOf, index, count, batch }: ViewPart): Uint8Array {
  return new Writer(VIEW_HEAD_BYTES + batch.length)
    .bytes(asOf?.run ?? NO_RUN)
    .u64(asOf?.n ?? 0n)
    .u16(index)
    .u16(count)
    .bytes(batch)
    .finish()
}

/** @returns byte fields are views into `bytes`. @throws ProtocolError `TRUNCATED`, `RANGE`, `TRAILING_BYTES` */
export function decodeViewPart(bytes: Uint8Array): ViewPart {
  const reader = new Reader(bytes)
  const run = reader.bytes(ESE_RUN_BYTES, 'view.run')
  const n = reader.u64('view.n')
  const index = reader.u16('view.index')
  const count = reader.u16('view.count')
  if (count === 0) {
    if (index !== 0) throw new ProtocolError('RANGE', `part ${index} of no view`, { field: 'view.index' })
    reader.end('view')
  } else if (index >= count) throw new ProtocolError('RANGE', `part ${index} of ${count}`, { field: 'view.index' })
  if (equals(run, NO_RUN) !== (n === 0n)) throw new ProtocolError('RANGE', 'a view of no run has number 0', { field: 'view.n' })
  return { asOf: n === 0n ? undefined : { run, n }, index, count, batch: reader.rest() }
}

/** The parts that make up one side's state; at least one. */
export function* viewParts(map: EseMap | undefined, asOf: EsePoint | undefined, partBytes: number): Generator<Uint8Array, void, undefined> {
  if (map === undefined) {
    yield encodeViewPart({ asOf: undefined, index: 0, count: 0, batch: new Uint8Array(0) })
    return
  }
  const batches = [...map.snapshot(partBytes)]
  if (batches.length > VIEW_PARTS_MAX) throw new RangeError(`a view of ${batches.length} parts`)
  for (const [index, batch] of batches.entries()) {
    yield encodeViewPart({ asOf, index, count: batches.length, batch })
    batch.fill(0)
  }
}

/** Puts a view together; nothing of it shows before its last part is there. */
export class ViewAssembler {
  readonly #crypto: CryptoProvider
  readonly #bounds: EseBounds
  #map: EseMap | undefined
  #next = 0
  #count = 0

  constructor(crypto: CryptoProvider, bounds: EseBounds) {
    this.#crypto = crypto
    this.#bounds = bounds
  }

  /**
   * @returns undefined: more is to come; `none`: the sender holds nothing of this ESE
   * @throws ProtocolError `OUT_OF_ORDER` (not the next part), and what {@link EseMap.apply} throws; then the view is dropped
   */
  add({ asOf, index, count, batch }: ViewPart): { map: EseMap; asOf: EsePoint | undefined } | 'none' | undefined {
    if (count === 0) {
      this.drop()
      return 'none'
    }
    try {
      if (index === 0) {
        this.drop()
        this.#map = new EseMap(this.#crypto, this.#bounds)
        this.#count = count
      } else if (this.#map === undefined || index !== this.#next || count !== this.#count) {
        throw new ProtocolError('OUT_OF_ORDER', `part ${index} of ${count} does not continue the view`, { field: 'view.index' })
      }
      const decoded = decodeEseBatch(batch)
      if (decoded.clear !== (index === 0)) throw new ProtocolError('OUT_OF_ORDER', 'a view clears once, first', { field: 'flags' })
      const map = this.#map as EseMap
      map.apply(decoded)
      this.#next = index + 1
      if (this.#next < count) return undefined
      this.#map = undefined
      return { map, asOf: asOf === undefined ? undefined : { run: asOf.run.slice(), n: asOf.n } }
    } catch (error) {
      this.drop()
      throw error
    }
  }

  /** Overwrites what came so far. */
  drop(): void {
    this.#map?.erase()
    this.#map = undefined
    this.#next = 0
  }
}

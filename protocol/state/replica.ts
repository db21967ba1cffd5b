import { equals, wipe } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { decodeEseBatch } from './batch.ts'
import { ESE_BOUNDS_DEFAULT, type EseBounds, type EseDelta, EseMap } from './map.ts'
import type { EsePoint } from './seal.ts'
import { ViewAssembler, type ViewPart } from './view.ts'

/** `current`: the writer's state; `lost`: this side came back without it, and waits for a view; `gone`: erased for good. */
export type EseStatus = 'current' | 'lost' | 'gone'

/**
 * What one side holds of an ESE: the map, how far it goes, and whether it is whole. At the writer it follows its own batches, at the peer those
 * that come (protocol/README.md §6).
 */
export class EseReplica {
  readonly #crypto: CryptoProvider
  readonly #bounds: EseBounds
  readonly #view: ViewAssembler
  #map: EseMap
  #point: EsePoint | undefined
  #status: EseStatus

  constructor(crypto: CryptoProvider, options: { bounds?: EseBounds; status?: 'current' | 'lost' } = {}) {
    this.#crypto = crypto
    this.#bounds = options.bounds ?? ESE_BOUNDS_DEFAULT
    this.#map = new EseMap(crypto, this.#bounds)
    this.#view = new ViewAssembler(crypto, this.#bounds)
    this.#status = options.status ?? 'current'
  }

  get map(): EseMap {
    return this.#map
  }

  get status(): EseStatus {
    return this.#status
  }

  /** The writer's newest batch in it; undefined before the first. */
  get point(): EsePoint | undefined {
    return this.#point
  }

  /**
   * A batch of the writer, at its place: the next of its run, or the first of another.
   * @returns undefined where this side waits for a view and the batch does not clear
   * @throws ProtocolError `SEQUENCE`; `OUT_OF_ORDER` once erased; what {@link decodeEseBatch} and {@link EseMap.apply} throw: nothing is changed then
   */
  apply({ run, n }: EsePoint, encoded: Uint8Array): EseDelta | undefined {
    this.#checkAlive()
    const batch = decodeEseBatch(encoded)
    const isWhole = this.#status === 'current'
    if (!isWhole && !batch.clear) return undefined
    if (isWhole) {
      const expected = this.#point !== undefined && equals(this.#point.run, run) ? this.#point.n + 1n : 1n
      if (n !== expected) throw new ProtocolError('SEQUENCE', `batch ${n} of an ESE where ${expected} is due`, { field: 'ese.n' })
    }
    const delta = this.#map.apply(batch)
    this.#moved({ run, n })
    return delta
  }

  /** The writer itself: what was prepared on the map takes effect. */
  #moved({ run, n }: EsePoint): void {
    this.#point = { run: this.#point !== undefined && equals(this.#point.run, run) ? this.#point.run : run.slice(), n }
    this.#status = 'current'
    this.#view.drop()
  }

  /** For the writer: `commit` was done on {@link map} and numbered so. */
  wrote(point: EsePoint): void {
    this.#moved(point)
  }

  /**
   * A part of a view.
   * @returns `restored` with the last part; `none` where the sender holds nothing; undefined in between
   * @throws ProtocolError `OUT_OF_ORDER`, and what {@link EseMap.apply} throws
   */
  addView(part: ViewPart): 'restored' | 'none' | undefined {
    this.#checkAlive()
    const done = this.#view.add(part)
    if (done === undefined || done === 'none') return done
    this.#map.erase()
    this.#map = done.map
    this.#point = done.asOf
    this.#status = 'current'
    return 'restored'
  }

  /** This side lost track: it waits for a view, or for a batch that clears. */
  lose(): void {
    this.#checkAlive()
    this.#map.erase()
    this.#map = new EseMap(this.#crypto, this.#bounds)
    this.#point = undefined
    this.#status = 'lost'
  }

  /** Overwrites everything, for good. */
  erase(): void {
    this.#view.drop()
    this.#map.erase()
    if (this.#point !== undefined) wipe(this.#point.run)
    this.#point = undefined
    this.#status = 'gone'
  }

  #checkAlive(): void {
    if (this.#status === 'gone') throw new ProtocolError('OUT_OF_ORDER', 'the ESE was erased', { field: 'state' })
  }
}

import { Reader, toHex, Writer, wipe } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type Eid, eid } from '../../protocol/identity/eid.ts'
import { ESE_ID_BYTES, eseId, eseSeed, nextEseSeed } from '../../protocol/state/seal.ts'
import type { Store, Table, WriteOp } from '../store/store.ts'
import type { KeySlots } from './key-slots.ts'

/** What all mirrors of a node hold together; beyond it a mirror lets go of its values and waits for the next exchange. */
export const MIRRORS_BYTES_MAX = 256 * 1_048_576

const ROW_VERSION = 1
const SEED_BYTES = 32
const NONCE = new Uint8Array(12)
/** Earlier ESEs of a session whose last items are still told from undesignated ones; the oldest goes first. */
export const FORMER_ESES_MAX = 8

/** The pair of ESEs of a session as the disk knows it: who writes them, and their seeds, sealed under a key that stands apart. */
export interface EseRow {
  readonly slot: number
  /** something was written to one of the two */
  readonly used: boolean
  readonly own: Eid
  readonly peer: Eid
  /** ids that either had under an earlier EID; at most FORMER_ESES_MAX */
  readonly former: readonly Uint8Array[]
  /** AEAD(key of the slot, nonce 0: each seals once, aad = sid, seed of own ‖ seed of peer) */
  readonly sealed: Uint8Array
}

const rowCodec = {
  encode({ slot, used, own, peer, former, sealed }: EseRow): Uint8Array {
    const writer = new Writer(256)
      .u8(ROW_VERSION)
      .u32(slot)
      .u8(used ? 1 : 0)
      .bytes(own)
      .bytes(peer)
      .u8(former.length)
    for (const id of former) writer.bytes(id)
    return writer.bytes(sealed).finish()
  },
  decode(bytes: Uint8Array): EseRow {
    const reader = new Reader(bytes)
    const version = reader.u8('version')
    if (version !== ROW_VERSION) throw new TypeError(`an ESE row of version ${version}`)
    const slot = reader.u32('slot')
    const used = reader.u8('used') !== 0
    const own = eid(reader.bytes(32, 'own').slice())
    const peer = eid(reader.bytes(32, 'peer').slice())
    const former = Array.from({ length: reader.u8('former') }, () => reader.bytes(ESE_ID_BYTES, 'former').slice())
    return { slot, used, own, peer, former, sealed: reader.rest().slice() }
  }
}

/** The secrets of a pair, in memory; whoever holds them wipes them. */
export interface EseSeeds {
  own: Uint8Array
  peer: Uint8Array
}

/** Rows and keys of all pairs of a node. */
export class EseStore {
  readonly #crypto: CryptoProvider
  readonly #keys: KeySlots
  readonly #rows: Table<EseRow>
  readonly #mirrorsBytesMax: number
  #mirrored = 0

  private constructor(components: { store: Store; crypto: CryptoProvider; keys: KeySlots }, mirrorsBytesMax: number) {
    this.#mirrorsBytesMax = mirrorsBytesMax
    this.#crypto = components.crypto
    this.#keys = components.keys
    this.#rows = components.store.table('session-ese', rowCodec)
  }

  /** Destroys the keys that nothing refers to: those of pairs whose end a crash cut short. */
  static async open(
    components: { store: Store; crypto: CryptoProvider; keys: KeySlots },
    { mirrorsBytesMax = MIRRORS_BYTES_MAX }: { mirrorsBytesMax?: number | undefined } = {}
  ): Promise<EseStore> {
    const one = new EseStore(components, mirrorsBytesMax)
    const used = new Set<number>()
    for await (const [, { slot }] of one.#rows.entries()) used.add(slot)
    components.keys.sweep(used)
    return one
  }

  /** For a session that was just agreed on. @param exported - the exporter secret of its first exchange */
  create(sid: Uint8Array, exported: Uint8Array, { own, peer }: { own: Eid; peer: Eid }): { row: EseRow; seeds: EseSeeds } {
    const seeds = { own: eseSeed(this.#crypto, exported, sid, own), peer: eseSeed(this.#crypto, exported, sid, peer) }
    return { row: this.#sealed(sid, seeds, { used: false, own, peer, former: [] }), seeds }
  }

  /** @returns undefined where there is none, or its key was destroyed */
  async load(sid: Uint8Array): Promise<{ row: EseRow; seeds: EseSeeds } | undefined> {
    const row = await this.#rows.get(toHex(sid))
    const key = row === undefined ? undefined : this.#keys.read(row.slot)
    if (row === undefined || key === undefined) return undefined
    const plain = this.#crypto.aead.open(key, NONCE, sid, row.sealed)
    wipe(key)
    if (plain === undefined) return undefined
    const seeds = { own: new Uint8Array(plain.subarray(0, SEED_BYTES)), peer: new Uint8Array(plain.subarray(SEED_BYTES)) }
    wipe(plain)
    return { row, seeds }
  }

  /**
   * A side goes by another EID: the seeds as they then are, under a key of their own. Once the row is on disk, {@link destroy} the slot before.
   * `seeds` are changed in place, and what they were is overwritten.
   */
  rotated(sid: Uint8Array, row: EseRow, seeds: EseSeeds, side: 'own' | 'peer', next: Eid): EseRow {
    const before = seeds[side]
    seeds[side] = nextEseSeed(this.#crypto, before, next)
    wipe(before)
    const former = [...row.former, eseId(this.#crypto, sid, row[side])].slice(-FORMER_ESES_MAX)
    return this.#sealed(sid, seeds, { used: row.used, own: row.own, peer: row.peer, former, [side]: next })
  }

  #sealed(sid: Uint8Array, seeds: EseSeeds, rest: Omit<EseRow, 'slot' | 'sealed'>): EseRow {
    const { slot, key } = this.#keys.take()
    const plain = new Uint8Array(2 * SEED_BYTES)
    plain.set(seeds.own)
    plain.set(seeds.peer, SEED_BYTES)
    const sealed = new Uint8Array(this.#crypto.aead.seal(key, NONCE, sid, plain))
    wipe(key, plain)
    return { slot, ...rest, sealed }
  }

  /** A mirror holds so many bytes more, or less. */
  mirrored(bytes: number): void {
    this.#mirrored += bytes
  }

  /** All mirrors together hold more than they may. */
  get isFull(): boolean {
    return this.#mirrored > this.#mirrorsBytesMax
  }

  put(sid: Uint8Array, row: EseRow): WriteOp {
    return this.#rows.put(toHex(sid), row)
  }

  gone(sid: Uint8Array): WriteOp {
    return this.#rows.del(toHex(sid))
  }

  /** Nothing that the row seals, or that was sealed under its seeds, opens any more when this returns. */
  destroy({ slot, used }: EseRow): void {
    if (used) this.#keys.destroy(slot)
    else this.#keys.release(slot)
  }
}

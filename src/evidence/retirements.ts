import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { RebuttalKind } from '../../protocol/evidence/escrow.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { jsonCodec, type Store, type Table } from '../store/store.ts'

/** Retired identities that are remembered; at the bound the one held for longest goes. */
export const RETIRED_MAX = 10_000
/**
 * Of one agent that rotates on and on; then its oldest goes, so that nobody else's is pushed out by it. Fewer than the names that are remembered of one
 * agent: those tell which belong together.
 */
export const RETIRED_PER_AGENT_MAX = 6
/** Signed items whose first sight is remembered; at the bound the one seen longest ago goes. */
export const SIGHTINGS_MAX = 4_096

export interface Retirement {
  by: RebuttalKind
  /** since when this node holds the certificate or tombstone itself, Unix ms */
  heldSinceMs: number
  /** hashes of items of this identity that were seen before that */
  before: readonly string[]
}

/**
 * Which identities their owners had done with, and since when this node knows: what a rebuttal is measured by (protocol/README.md §8). Persisted; the first
 * sights of items live as long as the process, those that came before a retirement are kept with it.
 */
export class Retirements {
  readonly #store: Store
  readonly #crypto: CryptoProvider
  readonly #table: Table<Retirement>
  readonly #byEid = new Map<EidHex, Retirement>()
  /** whose item it was, by the item's hash, in the order of first sight */
  readonly #sightings = new Map<string, EidHex>()

  private constructor(store: Store, crypto: CryptoProvider) {
    this.#store = store
    this.#crypto = crypto
    this.#table = store.table('evidence-retired', jsonCodec<Retirement>())
  }

  static async open({ store, crypto }: { store: Store; crypto: CryptoProvider }): Promise<Retirements> {
    const retirements = new Retirements(store, crypto)
    const rows: [EidHex, Retirement][] = []
    for await (const [name, row] of retirements.#table.entries()) rows.push([name as EidHex, row])
    rows.sort(([, a], [, b]) => a.heldSinceMs - b.heldSinceMs)
    for (const [name, row] of rows) retirements.#byEid.set(name, row)
    return retirements
  }

  get(eid: Eid): Retirement | undefined {
    return this.#byEid.get(eidHex(eid))
  }

  entries(): Iterable<[EidHex, Retirement]> {
    return this.#byEid.entries()
  }

  /** A signed item of `eid` was seen; the first time counts. */
  saw(eid: Eid, item: Uint8Array): void {
    const hash = toHex(this.#crypto.sha256(item))
    if (this.#sightings.has(hash)) return
    if (this.#sightings.size >= SIGHTINGS_MAX) this.#sightings.delete(this.#sightings.keys().next().value as string)
    this.#sightings.set(hash, eidHex(eid))
  }

  /** `nowMs`, or the moment of the retirement where one of the items was seen before that: all that a rebuttal is measured by. */
  firstSeenMs(eid: Eid, items: readonly Uint8Array[], nowMs: number): number {
    const retired = this.get(eid)
    const seenBefore = items.some((item) => retired?.before.includes(toHex(this.#crypto.sha256(item))))
    return retired !== undefined && seenBefore ? Math.min(nowMs, retired.heldSinceMs) : nowMs
  }

  /**
   * This node now holds proof that the owner has done with `eid`. The first such moment stays.
   * @param predecessors - EIDs that led to this one, as far as this node was shown
   */
  async note(eid: Eid, by: RebuttalKind, nowMs: number, predecessors: readonly Eid[] = []): Promise<void> {
    const name = eidHex(eid)
    if (this.#byEid.has(name)) return
    const before = [...this.#sightings].filter(([, owner]) => owner === name).map(([hash]) => hash)
    const row: Retirement = { by, heldSinceMs: nowMs, before }
    this.#byEid.set(name, row)
    const ops = [this.#table.put(name, row)]
    const chain = new Set(predecessors.map(eidHex))
    const mine = chain.size < RETIRED_PER_AGENT_MAX ? [] : [...this.#byEid.keys()].filter((other) => chain.has(other))
    for (const other of mine.slice(0, Math.max(0, mine.length + 1 - RETIRED_PER_AGENT_MAX))) {
      this.#byEid.delete(other)
      ops.push(this.#table.del(other))
    }
    if (this.#byEid.size > RETIRED_MAX) {
      const oldest = this.#byEid.keys().next().value as EidHex
      this.#byEid.delete(oldest)
      ops.push(this.#table.del(oldest))
    }
    await this.#store.commit(ops)
  }
}

import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import type { Clock } from '../platform/clock.ts'
import { jsonCodec, type Store, type Table } from '../store/store.ts'

/** How long this node keeps away from an identity that broke something without leaving proof. */
export const DISTRUST_MS = 86_400_000
/** At the bound the one whose time is up first goes. */
export const DISTRUSTED_MAX = 10_000

export interface Distrust {
  reason: string
  untilMs: number
}

/** This node's own experience with identities, which proves nothing to others and ends by itself (protocol/README.md §10). Persisted. */
export class Distrusted {
  readonly #store: Store
  readonly #clock: Clock
  readonly #table: Table<Distrust>
  readonly #byEid = new Map<EidHex, Distrust>()

  private constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#clock = clock
    this.#table = store.table('evidence-distrusted', jsonCodec<Distrust>())
  }

  static async open({ store, clock }: { store: Store; clock: Clock }): Promise<Distrusted> {
    const distrusted = new Distrusted(store, clock)
    const rows: [EidHex, Distrust][] = []
    for await (const [name, row] of distrusted.#table.entries()) rows.push([name as EidHex, row])
    for (const [name, row] of rows.sort(([, a], [, b]) => a.untilMs - b.untilMs)) distrusted.#byEid.set(name, row)
    return distrusted
  }

  get(eid: Eid): Distrust | undefined {
    return this.byName(eidHex(eid))
  }

  byName(name: EidHex): Distrust | undefined {
    const row = this.#byEid.get(name)
    return row !== undefined && row.untilMs > this.#clock.nowMs() ? row : undefined
  }

  names(): Iterable<EidHex> {
    return this.#byEid.keys()
  }

  async add(eid: Eid, reason: string): Promise<void> {
    const name = eidHex(eid)
    const row = { reason, untilMs: this.#clock.nowMs() + DISTRUST_MS }
    this.#byEid.delete(name)
    this.#byEid.set(name, row)
    const ops = [this.#table.put(name, row)]
    const nowMs = this.#clock.nowMs()
    for (const [other, { untilMs }] of this.#byEid) {
      if (untilMs > nowMs && this.#byEid.size <= DISTRUSTED_MAX) break
      this.#byEid.delete(other)
      ops.push(this.#table.del(other))
    }
    await this.#store.commit(ops)
  }
}

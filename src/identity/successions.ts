import { fromHex } from '../../protocol/bytes.ts'
import { type Eid, type EidHex, eidHex, eid as eidOf } from '../../protocol/identity/eid.ts'
import type { Rotation } from '../../protocol/identity/rotation.ts'
import type { Clock } from '../platform/clock.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'

/** Rotations of others that are remembered; at the bound the one shown longest ago goes. */
export const SUCCESSIONS_MAX = 10_000
/** Of one agent; then its second oldest goes, so that rotating often pushes nobody else's name out. */
export const SUCCESSIONS_PER_AGENT_MAX = 8

interface Row {
  old: EidHex
  /** the EID that this agent was first known by here */
  root: EidHex
  heldSinceMs: number
}

/** Which EIDs gave way to which, as certificates in sessions showed: who sheds a name keeps what goes with it (G-73). Persisted. */
export class Successions {
  readonly #store: Store
  readonly #clock: Clock
  readonly #table: Table<Row>
  /** by the new EID, oldest first */
  readonly #rows = new Map<EidHex, Row>()
  readonly #next = new Map<EidHex, EidHex>()

  private constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#clock = clock
    this.#table = store.table('succession', jsonCodec<Row>())
  }

  static async open({ store, clock }: { store: Store; clock: Clock }): Promise<Successions> {
    const successions = new Successions(store, clock)
    const rows: [EidHex, Row][] = []
    for await (const [name, row] of successions.#table.entries()) rows.push([name as EidHex, row])
    for (const [name, row] of rows.sort(([, a], [, b]) => a.heldSinceMs - b.heldSinceMs)) successions.#take(name, row)
    return successions
  }

  get size(): number {
    return this.#rows.size
  }

  #take(name: EidHex, row: Row): void {
    this.#rows.set(name, row)
    this.#next.set(row.old, name)
  }

  /** Remembers a verified certificate, synced. The same one twice changes nothing. */
  async note({ old, new: next }: Pick<Rotation, 'old' | 'new'>): Promise<void> {
    const [before, name] = [eidHex(old), eidHex(next)]
    if (this.#rows.has(name)) return
    const row: Row = { old: before, root: this.rootOf(before), heldSinceMs: this.#clock.nowMs() }
    this.#take(name, row)
    const ops: WriteOp[] = [this.#table.put(name, row)]
    const mine = [...this.#rows].filter(([, { root }]) => root === row.root)
    if (mine.length > SUCCESSIONS_PER_AGENT_MAX) ops.push(this.#drop((mine[0] as [EidHex, Row])[0]))
    if (this.#rows.size > SUCCESSIONS_MAX) ops.push(this.#drop(this.#rows.keys().next().value as EidHex))
    await this.#store.commit(ops)
  }

  #drop(name: EidHex): WriteOp {
    const row = this.#rows.get(name)
    this.#rows.delete(name)
    if (row !== undefined && this.#next.get(row.old) === name) this.#next.delete(row.old)
    return this.#table.del(name)
  }

  /** The EID that this agent was first known by here. */
  rootOf(name: EidHex): EidHex {
    return this.#rows.get(name)?.root ?? name
  }

  /** EIDs that it had before, as far as this node was shown. */
  predecessors(of: Eid): Eid[] {
    const names = new Set<EidHex>()
    for (let row = this.#rows.get(eidHex(of)); row !== undefined && !names.has(row.old); row = this.#rows.get(row.old)) {
      names.add(row.old)
      names.add(row.root)
    }
    return [...names].map((name) => eidOf(fromHex(name)))
  }

  /** The EID that it has now, as far as this node was shown. */
  newest(of: Eid): Eid {
    const seen = new Set<EidHex>()
    let name = eidHex(of)
    for (let next = this.#next.get(name); next !== undefined && !seen.has(next); next = this.#next.get(name)) {
      seen.add(next)
      name = next
    }
    return eidOf(fromHex(name))
  }
}

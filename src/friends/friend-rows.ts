import type { EidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { GrantVerb } from '../grants/principal.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'

/** Requests of others that wait for the owner; above it the next is answered `busy`. */
export const FRIENDS_PENDING_MAX = 100
/** Requests of ours that are kept. */
export const FRIENDS_ASKED_MAX = 1_000
/** Requests of others that were decided and are kept; beyond it the one decided first goes. */
export const FRIENDS_DECIDED_MAX = 1_000

/** A friend request, of an agent of ours (`out`) or to one (`in`), and what became of it. One for each pair of agent and peer. */
export interface FriendRow {
  direction: 'in' | 'out'
  /** the agent's first EID */
  agent: EidHex
  /** the EID that the peer was first known by here */
  peer: EidHex
  /** of the newest request, 16 bytes in hex */
  id: string
  /** of who asks, in its own words */
  name: string
  note: string
  verbs: GrantVerb[]
  /** `sent`: out, without an answer yet */
  state: 'sent' | 'pending' | 'busy' | 'denied' | 'approved' | 'ended'
  /** approved: what was vended; the credential only where we are the holder */
  grant?: { id: string; verbs: GrantVerb[]; untilMs: number; credential?: string }
  /** in: when it asked, within the last day, Unix ms */
  asked?: number[]
  createdAtMs: number
  changedAtMs: number
  /** the peer has not acknowledged the newest state, or the request */
  untold?: true
}

/** Friend requests on disk and, all of them, in memory. */
export class FriendRows {
  readonly #store: Store
  readonly #table: Table<FriendRow>
  readonly #rows = new Map<string, FriendRow>()

  private constructor(store: Store) {
    this.#store = store
    this.#table = store.table('friend', jsonCodec<FriendRow>())
  }

  static async open({ store }: { store: Store }): Promise<FriendRows> {
    const rows = new FriendRows(store)
    for await (const [key, row] of rows.#table.entries()) rows.#rows.set(key, row)
    return rows
  }

  all(): FriendRow[] {
    return [...this.#rows.values()].sort((a, b) => a.createdAtMs - b.createdAtMs)
  }

  get(direction: FriendRow['direction'], agent: EidHex, peer: EidHex): FriendRow | undefined {
    return this.#rows.get(keyOf({ direction, agent, peer }))
  }

  pending(): number {
    let count = 0
    for (const row of this.#rows.values()) if (row.direction === 'in' && row.state === 'pending') count++
    return count
  }

  /** The write of a row and of what has to make room, for a batch of another part; call `done` once it is on disk. */
  writing(row: FriendRow): { ops: WriteOp[]; done: () => void } {
    const surplus = this.#surplus(row)
    return {
      ops: [this.#table.put(keyOf(row), row), ...surplus.map((one) => this.#table.del(keyOf(one)))],
      done: () => {
        for (const one of surplus) this.#rows.delete(keyOf(one))
        this.#rows.set(keyOf(row), row)
      }
    }
  }

  /** @throws RookeryError `FRIENDS_FULL` for one of ours more than is kept; those of the store */
  async put(row: FriendRow): Promise<FriendRow> {
    if (row.direction === 'out' && !this.#rows.has(keyOf(row))) {
      const asked = this.all().filter(({ direction }) => direction === 'out').length
      if (asked >= FRIENDS_ASKED_MAX) {
        throw new RookeryError('FRIENDS_FULL', `${FRIENDS_ASKED_MAX} requests of this node are kept`, {
          kind: 'refused',
          field: 'friends',
          value: FRIENDS_ASKED_MAX,
          remedy: 'remove some with `rookery friends remove`'
        })
      }
    }
    const { ops, done } = this.writing(row)
    await this.#store.commit(ops)
    done()
    return row
  }

  async delete(row: FriendRow): Promise<void> {
    await this.#store.commit([this.#table.del(keyOf(row))], { room: 'reserve' })
    this.#rows.delete(keyOf(row))
  }

  /** Decided long ago, and more than are kept. */
  #surplus(added: FriendRow): FriendRow[] {
    const decided = this.all().filter((row) => row.direction === 'in' && row.state !== 'pending' && keyOf(row) !== keyOf(added))
    return decided
      .filter(({ state }) => state !== 'approved')
      .sort((a, b) => a.changedAtMs - b.changedAtMs)
      .slice(0, Math.max(0, decided.length + 1 - FRIENDS_DECIDED_MAX))
  }
}

function keyOf({ direction, agent, peer }: Pick<FriendRow, 'direction' | 'agent' | 'peer'>): string {
  return `${direction}:${agent}:${peer}`
}

import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { ContractTotals } from '../../protocol/session/contract.ts'
import { Journal } from '../../protocol/session/journal.ts'
import { type Position, ReceiveLedger } from '../../protocol/session/ledger.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { positionCodec, type SessionRecord, type StoredTransaction, sessionCodec, transactionCodec } from './session-record.ts'

/** How a session ended, kept for `rookery session list` and for who asks again. */
export interface Tombstone {
  id: string
  local: string
  remote: string
  reason: string
  endedAtMs: number
}

/** What the driver keeps with each transaction of the journal. */
export interface JournalTag {
  atMs: number
  resolve(): void
  reject(error: unknown): void
}

/** Tombstones kept; the oldest goes first. */
export const TOMBSTONES_MAX = 1_000
/** And so many more between two times that they are counted through: whoever opens and ends sessions fills no disk. */
const TOMBSTONES_SLACK = 128

/** Sessions, their journals and receive positions in the node's one database. */
export class SessionStore {
  readonly #store: Store
  readonly #records: Table<SessionRecord>
  readonly #transactions: Table<StoredTransaction>
  readonly #positions: Table<Position>
  readonly #totals: Table<ContractTotals>
  readonly #tombstones: Table<Tombstone>
  /** put since the last sweep */
  #buried = 0

  constructor(store: Store) {
    this.#store = store
    this.#records = store.table('session', sessionCodec)
    this.#transactions = store.table('session-tx', transactionCodec)
    this.#positions = store.table('session-rx', positionCodec)
    this.#totals = store.table('session-contract', jsonCodec<ContractTotals>())
    this.#tombstones = store.table('session-ended', jsonCodec<Tombstone>())
  }

  /** Synced when it resolves. */
  commit(ops: readonly WriteOp[]): Promise<void> {
    return this.#store.commit(ops)
  }

  async *records(): AsyncIterable<SessionRecord> {
    for await (const [, record] of this.#records.entries()) yield record
  }

  /** Ids of the sessions whose journal holds something. */
  async unacked(): Promise<Set<string>> {
    const ids = new Set<string>()
    for await (const key of this.#transactions.keys()) ids.add(key.slice(0, 32))
    return ids
  }

  record(record: SessionRecord): WriteOp {
    return this.#records.put(toHex(record.sid), record)
  }

  /** What was used of a contract; written with the record. */
  totals(id: string, totals: ContractTotals): WriteOp {
    return this.#totals.put(id, totals)
  }

  transaction(id: string, seq: bigint, transaction: StoredTransaction): WriteOp {
    return this.#transactions.put(keyOf(id, seq), transaction)
  }

  transactionGone(id: string, seq: bigint): WriteOp {
    return this.#transactions.del(keyOf(id, seq))
  }

  position(id: string, seq: bigint, position: Position): WriteOp {
    return this.#positions.put(keyOf(id, seq), position)
  }

  positionGone(id: string, seq: bigint): WriteOp {
    return this.#positions.del(keyOf(id, seq))
  }

  /**
   * A session with its journal and what it holds of the peer.
   * @returns undefined where it is unknown; `broken` where the journal has a gap: the disk lost what was synced
   */
  async load(
    id: string,
    crypto: CryptoProvider
  ): Promise<
    | {
        record: SessionRecord
        journal: Journal<JournalTag>
        ledger: ReceiveLedger
        totals: ContractTotals | undefined
        broken: boolean
      }
    | undefined
  > {
    const record = await this.#records.get(id)
    if (record === undefined) return undefined
    const journal = new Journal<JournalTag>(crypto, record.tx)
    let broken = false
    for await (const [key, { kind, channel, atMs, payload }] of this.#transactions.entries(within(id))) {
      const seq = numberOf(key)
      if (seq <= record.tx.seq) continue
      if (seq !== journal.tx.seq + 1n) {
        broken = true
        break
      }
      journal.append({ kind, channel, payload, state: 'sent', tag: { atMs, resolve: nothing, reject: nothing } })
    }
    journal.markSynced(journal.tx.seq)
    const ledger = new ReceiveLedger(crypto, record.rx, record.rx.heads)
    for await (const [key, position] of this.#positions.entries(within(id))) ledger.restore(numberOf(key), position)
    return { record, journal, ledger, totals: record.sfc === undefined ? undefined : await this.#totals.get(id), broken }
  }

  /** What removes a session. */
  async gone(id: string, tombstone: Tombstone): Promise<WriteOp[]> {
    const ops: WriteOp[] = [this.#records.del(id), this.#totals.del(id), this.#tombstones.put(id, tombstone)]
    for await (const key of this.#transactions.keys(within(id))) ops.push(this.#transactions.del(key))
    for await (const key of this.#positions.keys(within(id))) ops.push(this.#positions.del(key))
    this.#buried += 1
    if (this.#buried > TOMBSTONES_SLACK) ops.push(...(await this.#excess()))
    return ops
  }

  async tombstones(): Promise<Tombstone[]> {
    const all: Tombstone[] = []
    for await (const [, one] of this.#tombstones.entries()) all.push(one)
    return all.sort((a, b) => a.endedAtMs - b.endedAtMs)
  }

  async tombstone(id: string): Promise<Tombstone | undefined> {
    return await this.#tombstones.get(id)
  }

  /** Forgets the oldest tombstones above {@link TOMBSTONES_MAX}. */
  async sweep(): Promise<void> {
    await this.commit(await this.#excess())
  }

  async #excess(): Promise<WriteOp[]> {
    this.#buried = 0
    const all = await this.tombstones()
    return all.slice(0, Math.max(0, all.length - TOMBSTONES_MAX)).map(({ id }) => this.#tombstones.del(id))
  }
}

function nothing(): void {}

function keyOf(id: string, seq: bigint): string {
  return `${id}/${seq.toString(16).padStart(16, '0')}`
}

function numberOf(key: string): bigint {
  return BigInt(`0x${key.slice(33)}`)
}

function within(id: string): { gte: string; lt: string } {
  return { gte: `${id}/`, lt: `${id}0` }
}

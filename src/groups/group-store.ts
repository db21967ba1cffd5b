import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { openStatement, type SignedStatement } from '../../protocol/group/statement.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { cborCodec, type Store, type Table } from '../store/store.ts'

/** s: the newest statement, b: the newest start of this member, as `startedMs` */
type Row = { s: Uint8Array; b: number }

export interface StoredGroup {
  home: EidHex
  statement: SignedStatement
  startedMs: number
}

/** What of groups survives a restart: trust lists, no key, no value. */
export class GroupStore {
  readonly #store: Store
  readonly #crypto: CryptoProvider
  readonly #table: Table<Row>
  readonly #left: Table<number>

  constructor(store: Store, crypto: CryptoProvider) {
    this.#store = store
    this.#crypto = crypto
    this.#table = store.table('groups', cborCodec<Row>())
    this.#left = store.table('groups-left', cborCodec<number>())
  }

  async *all(): AsyncGenerator<StoredGroup, void, undefined> {
    for await (const [key, { s, b }] of this.#table.entries()) {
      yield { home: key.split(':')[0] as EidHex, statement: openStatement(this.#crypto, s), startedMs: b }
    }
  }

  /** Synced when it resolves. */
  async put({ home, statement, startedMs }: StoredGroup): Promise<void> {
    await this.#store.commit([this.#table.put(groupKeyOf(home, statement.gid), { s: statement.bytes, b: startedMs })])
  }

  /** Groups that an agent left of its own will, by {@link groupKeyOf}, with their epoch then. */
  async left(): Promise<Map<string, number>> {
    const left = new Map<string, number>()
    for await (const [key, epoch] of this.#left.entries()) left.set(key, epoch)
    return left
  }

  /** @param forget - keys of groups that need not be known as left any more */
  async leave(home: EidHex, gid: Uint8Array, epoch: number, forget: readonly string[]): Promise<void> {
    const key = groupKeyOf(home, gid)
    await this.#store.commit([this.#table.del(key), this.#left.put(key, epoch), ...forget.map((one) => this.#left.del(one))])
  }

  async delete(home: EidHex, gid: Uint8Array): Promise<void> {
    await this.#store.commit([this.#table.del(groupKeyOf(home, gid))])
  }
}

export function groupKeyOf(home: EidHex, gid: Uint8Array): string {
  return `${home}:${toHex(gid)}`
}

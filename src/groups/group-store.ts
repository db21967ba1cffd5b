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

  constructor(store: Store, crypto: CryptoProvider) {
    this.#store = store
    this.#crypto = crypto
    this.#table = store.table('groups', cborCodec<Row>())
  }

  async *all(): AsyncGenerator<StoredGroup, void, undefined> {
    for await (const [key, { s, b }] of this.#table.entries()) {
      yield { home: key.split(':')[0] as EidHex, statement: openStatement(this.#crypto, s), startedMs: b }
    }
  }

  /** Synced when it resolves. */
  async put({ home, statement, startedMs }: StoredGroup): Promise<void> {
    await this.#store.commit([this.#table.put(keyOf(home, statement.gid), { s: statement.bytes, b: startedMs })])
  }

  async delete(home: EidHex, gid: Uint8Array): Promise<void> {
    await this.#store.commit([this.#table.del(keyOf(home, gid))])
  }
}

function keyOf(home: EidHex, gid: Uint8Array): string {
  return `${home}:${toHex(gid)}`
}

import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type DsId, dsId, parseSpaceName, type SpaceName } from '../../protocol/discovery/names.ts'
import { type Eid, eidHex } from '../../protocol/identity/eid.ts'
import { type AnnounceRecord, announceType } from '../../protocol/records/announce.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { type JoinRecord, joinType } from '../../protocol/records/join.ts'
import { cborCodec, type Store, type Table } from '../store/store.ts'

interface OwnCommon {
  /** names the row, the refresh and the sequence numbers: role, EID and DS_ID */
  readonly id: string
  readonly eid: Eid
  readonly name: SpaceName
  readonly dsid: DsId
  /** over how many keys the space spreads its members */
  readonly shards: number
}
export type OwnAnnounce = OwnCommon & { readonly role: 'curator'; record: AnnounceRecord }
export type OwnJoin = OwnCommon & { readonly role: 'member'; record: JoinRecord }
/** What an agent of this node announced or joined, with the bytes that it published last. */
export type OwnSpace = OwnAnnounce | OwnJoin

/** k: role, n: name, r: record, s: shards */
type Row = { k: string; n: string; r: Uint8Array; s: number }

/** Our own announcements and joins, on disk, so that a restart goes on where it stopped. */
export class OwnSpaces {
  readonly #store: Store
  readonly #crypto: CryptoProvider
  readonly #table: Table<Row>
  readonly #spaces = new Map<string, OwnSpace>()

  private constructor(store: Store, crypto: CryptoProvider) {
    this.#store = store
    this.#crypto = crypto
    this.#table = store.table('own-spaces', cborCodec<Row>())
  }

  static async open(store: Store, crypto: CryptoProvider): Promise<OwnSpaces> {
    const own = new OwnSpaces(store, crypto)
    for await (const [, row] of own.#table.entries()) {
      const name = parseSpaceName(row.n)
      const space =
        row.k === 'curator'
          ? own.announceOf(name, decodeRecord(announceType, row.r))
          : own.joinOf(name, decodeRecord(joinType, row.r), row.s)
      own.#spaces.set(space.id, space)
    }
    return own
  }

  announceOf(name: SpaceName, record: AnnounceRecord): OwnAnnounce {
    const { curator, shards } = record.payload
    const dsid = dsId(this.#crypto, name)
    return { role: 'curator', id: ownId('curator', curator, dsid), eid: curator, name, dsid, shards, record }
  }

  joinOf(name: SpaceName, record: JoinRecord, shards: number): OwnJoin {
    const { eid, dsid } = record.payload
    return { role: 'member', id: ownId('member', eid, dsid), eid, name, dsid, shards, record }
  }

  get(id: string): OwnSpace | undefined {
    return this.#spaces.get(id)
  }

  all(): OwnSpace[] {
    return [...this.#spaces.values()]
  }

  async save(space: OwnSpace): Promise<void> {
    await this.#store.commit([
      this.#table.put(space.id, { k: space.role, n: nameText(space.name), r: space.record.bytes, s: space.shards })
    ])
    this.#spaces.set(space.id, space)
  }

  async remove(id: string): Promise<void> {
    await this.#store.commit([this.#table.del(id)])
    this.#spaces.delete(id)
  }
}

export function ownId(role: OwnSpace['role'], eid: Eid, dsid: DsId): string {
  return `${role}:${eidHex(eid)}:${toHex(dsid)}`
}

/** The name without a pin: the record itself says who the curator is. */
export function nameText(name: { ns: string; topic: string; version: number }): string {
  return `${name.ns}/${name.topic}@${name.version}`
}

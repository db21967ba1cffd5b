import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type DsId, dsId, parseSpaceName, type SpaceName } from '../../protocol/discovery/names.ts'
import { type Eid, eidHex } from '../../protocol/identity/eid.ts'
import { type AnnounceRecord, announceType } from '../../protocol/records/announce.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, type JoinRecord, joinType } from '../../protocol/records/join.ts'
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
export type OwnJoin = OwnCommon & { readonly role: 'member'; record: JoinRecord; readonly earlier: readonly EarlierShards[] }
/** A number of shards that others may still read by, Unix seconds: the join is written under its key too. At most eight, as numbers double. */
export interface EarlierShards {
  readonly shards: number
  readonly untilSec: number
}
/** What an agent of this node announced or joined, with the bytes that it published last. */
export type OwnSpace = OwnAnnounce | OwnJoin

const EARLIER_MAX = 8

/** k: role, n: name, r: record, s: shards, o: earlier numbers of shards, each with when it ends */
type Row = { k: string; n: string; r: Uint8Array; s: number; o?: number[][] }

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
          : own.joinOf(
              name,
              decodeRecord(joinType, row.r),
              row.s,
              (row.o ?? []).map(([shards = 1, untilSec = 0]) => ({ shards, untilSec }))
            )
      own.#spaces.set(space.id, space)
    }
    return own
  }

  announceOf(name: SpaceName, record: AnnounceRecord): OwnAnnounce {
    const { curator, shards } = record.payload
    const dsid = dsId(this.#crypto, name)
    return { role: 'curator', id: ownId('curator', curator, dsid), eid: curator, name, dsid, shards, record }
  }

  joinOf(name: SpaceName, record: JoinRecord, shards: number, earlier: readonly EarlierShards[]): OwnJoin {
    const { eid, dsid } = record.payload
    return { role: 'member', id: ownId('member', eid, dsid), eid, name, dsid, shards, earlier, record }
  }

  get(id: string): OwnSpace | undefined {
    return this.#spaces.get(id)
  }

  all(): OwnSpace[] {
    return [...this.#spaces.values()]
  }

  /** All of them or none. */
  async save(...spaces: OwnSpace[]): Promise<void> {
    await this.#store.commit(spaces.map((space) => this.#table.put(space.id, rowOf(space))))
    for (const space of spaces) this.#spaces.set(space.id, space)
  }

  async remove(id: string): Promise<void> {
    await this.#store.commit([this.#table.del(id)])
    this.#spaces.delete(id)
  }
}

function rowOf(space: OwnSpace): Row {
  const row = { k: space.role, n: nameText(space.name), r: space.record.bytes, s: space.shards }
  if (space.role === 'curator' || space.earlier.length === 0) return row
  return { ...row, o: space.earlier.map(({ shards, untilSec }) => [shards, untilSec]) }
}

/**
 * What a member writes by beside the present number, for the life of a join each: the numbers that it wrote by before; a newcomer the half of the
 * present one, which some reader may still go by.
 */
export function earlierShards(before: Pick<OwnJoin, 'shards' | 'earlier'> | undefined, shards: number, nowSec: number): EarlierShards[] {
  const untilSec = nowSec + JOIN_TTL_SEC
  if (before === undefined) return shards === 1 ? [] : [{ shards: Math.floor(shards / 2), untilSec }]
  const running = before.earlier.filter((one) => one.untilSec > nowSec && one.shards !== shards && one.shards !== before.shards)
  return before.shards === shards ? running : [{ shards: before.shards, untilSec }, ...running].slice(0, EARLIER_MAX)
}

export function ownId(role: OwnSpace['role'], eid: Eid, dsid: DsId): string {
  return `${role}:${eidHex(eid)}:${toHex(dsid)}`
}

/** A curator's live announcement that names another one, of the same version, as whom it goes to. */
export function isOffered(space: OwnSpace): boolean {
  if (space.role !== 'curator' || space.record.payload.gone === true) return false
  const { next, ver, curator } = space.record.payload
  return next !== undefined && next.ver === ver && !equals(next.eid, curator)
}

/** The name without a pin: the record itself says who the curator is. */
export function nameText(name: { ns: string; topic: string; version: number }): string {
  return `${name.ns}/${name.topic}@${name.version}`
}

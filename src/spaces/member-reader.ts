import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type DsId, dsId } from '../../protocol/discovery/names.ts'
import type { MemberEntry } from '../../protocol/discovery/registry-entry.ts'
import { memberReadKeys } from '../../protocol/discovery/shards.ts'
import { type Eid, eid, eidToDid } from '../../protocol/identity/eid.ts'
import type { AnnounceRecord } from '../../protocol/records/announce.ts'
import { recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import type { JoinRecord } from '../../protocol/records/join.ts'
import type { Host, PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import { type NetworkKind, seedTarget } from './address-scope.ts'
import { eachOf } from './deadline.ts'
import { nameText } from './own-spaces.ts'
import type { RegistryClient, RequestOptions } from './registry-client.ts'
import type { SearchTally } from './search-tally.ts'
import type { FindQuery, MemberView } from './spaces.ts'

/** Members that one search holds; beyond them it ends as incomplete. */
export const MEMBERS_MAX = 50_000
const LISTS_AT_ONCE = 4

export interface MembersQuery extends Pick<FindQuery, 'tags' | 'mode' | 'limit'> {
  announce: AnnounceRecord
  /** whose followers are its members: the curator, then those it took the space over from */
  curators: readonly Eid[]
  /** keys that are listed at the most, DS_ID first, then parts; with fewer than there are the search is incomplete */
  keysMax?: number
}

export interface MembersRead {
  /** in the order of their DIDs' bytes, or as many of them as the limit asks */
  members: MemberView[]
  /** live joins that the curator hides */
  pruned: number
  /** there are more than a search holds */
  truncated: boolean
}

/** Lists the members of one announced space: all parts, all followed curators, without those that its curator pruned. */
export interface MemberReader {
  read(query: MembersQuery, tally: SearchTally, options?: RequestOptions): Promise<MembersRead>
  /** EIDs in hex that this curator hides now, each with when that ends, Unix seconds. */
  prunes(dsid: DsId, curator: Eid, tally: SearchTally, options?: RequestOptions): Promise<Map<string, number>>
}

export function createMemberReader(
  { host, registry, clock, crypto }: { host: Host; registry: RegistryClient; clock: Clock; crypto: CryptoProvider },
  { network, membersMax = MEMBERS_MAX }: { network: NetworkKind; membersMax?: number }
): MemberReader {
  async function prunes(dsid: DsId, curator: Eid, tally: SearchTally, options: RequestOptions = {}): Promise<Map<string, number>> {
    const outcome = await registry.list({ set: 'prunes', key: dsid, curator }, signalOf(options))
    tally.add(outcome)
    const nowSec = clock.nowMs() / 1_000
    const hidden = new Map<string, number>()
    for (const { entry } of outcome.entries) {
      if (entry.set === 'prunes' && entry.record.payload.until > nowSec)
        hidden.set(toHex(entry.record.payload.eid), entry.record.payload.until)
    }
    return hidden
  }

  async function joins(query: MembersQuery, limit: number | undefined, tally: SearchTally, options: RequestOptions): Promise<Joins> {
    const { ns, topic, ver, shards } = query.announce.payload
    const all = memberReadKeys(crypto, dsId(crypto, { ns, topic, version: ver }), shards)
    const keys = all.slice(0, query.keysMax ?? all.length)
    const seeds = seedTargets(query.announce, network)
    const found = new Joins(membersMax, keys.length < all.length)
    const lists = keys.flatMap((key) => query.curators.map((curator) => ({ key, curator })))
    await eachOf(lists, LISTS_AT_ONCE, async ({ key, curator }) => {
      if (found.isFull || (limit !== undefined && found.live().length >= limit)) return
      const outcome = await registry.list(
        {
          set: 'members',
          key,
          curator,
          seeds,
          ...(query.tags === undefined ? {} : { tags: query.tags }),
          ...(limit === undefined ? {} : { limit })
        },
        signalOf(options)
      )
      tally.add(outcome)
      for (const { entry, servedBy } of outcome.entries) if (entry.set === 'members') found.add(entry, servedBy)
    })
    return found
  }

  return {
    prunes,
    async read(query, tally, options = {}) {
      const { ns, topic, ver, curator } = query.announce.payload
      const space = { ns, topic, version: ver }
      const hiding = prunes(dsId(crypto, space), curator, tally, options)
      hiding.catch(() => {}) // awaited below; the joins may fail first
      // with a mode, or with somebody hidden, the first so many are not yet as many as wanted
      let found = await joins(query, query.mode === undefined ? query.limit : undefined, tally, options)
      const hidden = await hiding
      if (query.limit !== undefined && query.mode === undefined && found.live().some(({ entry }) => hidden.has(toHex(entry.id)))) {
        found = await joins(query, undefined, tally, options)
      }
      const live = found.live()
      const members = live
        .filter(({ entry }) => !hidden.has(toHex(entry.id)) && (query.mode === undefined || entry.record.payload.mode === query.mode))
        .map(({ entry, servedBy }) => memberView(entry.record, space, [...servedBy], host.peer))
      return {
        members: query.limit === undefined ? members : members.slice(0, query.limit),
        pruned: live.filter(({ entry }) => hidden.has(toHex(entry.id))).length,
        truncated: found.isFull || found.isPartial
      }
    }
  }
}

interface HeldJoin {
  entry: MemberEntry
  servedBy: Set<string>
}

/** Joins by member: of what lies under several keys the highest number counts, a tombstone like any. */
class Joins {
  readonly #max: number
  readonly #byMember = new Map<string, HeldJoin>()
  isFull = false
  /** there are parts that were not asked */
  readonly isPartial: boolean

  constructor(max: number, isPartial: boolean) {
    this.#max = max
    this.isPartial = isPartial
  }

  add(entry: MemberEntry, servedBy: readonly string[]): void {
    const name = toHex(entry.id)
    const held = this.#byMember.get(name)
    if (held === undefined && this.#byMember.size >= this.#max) {
      this.isFull = true
    } else if (held === undefined || entry.number > held.entry.number) {
      this.#byMember.set(name, { entry, servedBy: new Set(servedBy) })
    } else if (entry.number === held.entry.number) {
      for (const peer of servedBy) held.servedBy.add(peer)
    }
  }

  live(): HeldJoin[] {
    return [...this.#byMember.values()].filter(({ entry }) => !entry.gone)
  }
}

function seedTargets(announce: AnnounceRecord, network: NetworkKind): PeerAddress[] {
  return announce.payload.seeds.map((seed) => seedTarget(seed, network)).filter((target) => target !== undefined)
}

const signalOf = ({ signal }: RequestOptions) => (signal === undefined ? {} : { signal })

/** @param self - PeerId of this node: what nobody else served is known here alone */
export function memberView(
  record: JoinRecord,
  space: { ns: string; topic: string; version: number },
  servedBy: string[],
  self?: string
): MemberView {
  const { eid: member, curator, tags, mode, ts } = record.payload
  return {
    did: eidToDid(eid(member)),
    space: nameText(space),
    curator: eidToDid(curator),
    tags: [...tags],
    mode,
    joinedAtMs: ts * 1_000,
    expiresAtMs: recordExpiresAtMs(record),
    servedBy,
    known: servedBy.every((peer) => peer === self) ? 'local' : 'registry'
  }
}

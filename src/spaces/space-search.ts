import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { announceKey } from '../../protocol/discovery/dht-key.ts'
import {
  type DsId,
  dsId,
  isTopicWithin,
  parseSpaceQuery,
  prefixId,
  type SpaceName,
  shardKeys,
  type TopicName
} from '../../protocol/discovery/names.ts'
import { type Eid, eid, eidToDid } from '../../protocol/identity/eid.ts'
import type { AnnounceRecord } from '../../protocol/records/announce.ts'
import { recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import type { JoinRecord } from '../../protocol/records/join.ts'
import { RookeryError } from '../errors.ts'
import type { Host, PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import { type NetworkKind, seedTarget } from './address-scope.ts'
import { type Candidate, type CuratorChoice, type CuratorMemory, chooseCurator } from './curators.ts'
import { eachOf } from './deadline.ts'
import { dhtRecords } from './dht-records.ts'
import { checkedInput, NAME_REMEDY } from './input.ts'
import { nameText } from './own-spaces.ts'
import type { ListOutcome, RegistryClient, RequestOptions } from './registry-client.ts'
import type { FindQuery, FindResult, MemberView, SpaceView } from './spaces.ts'

/** Spaces of one parent query whose members are listed; beyond them it ends as incomplete. */
const SPACES_MAX = 256
const SPACES_AT_ONCE = 4
export const FIND_LIMIT_MAX = 10_000

/** One space that the search follows. */
export interface FoundSpace {
  record: AnnounceRecord
  contested: boolean
}

export interface SpaceSearch {
  /** All verified announcements of one space, tombstones too, by how many registrars hold each. */
  announcements(dsid: DsId, options?: RequestOptions): Promise<{ candidates: Candidate[]; outcome: ListOutcome }>
  /** Whom to follow in this space, by the pin, by what is remembered, or by the replicas. */
  choose(name: SpaceName, candidates: readonly Candidate[]): Promise<CuratorChoice>
  /** The verified announcements at and below a topic, tombstones too. */
  children(
    ns: string,
    topic: string,
    options?: RequestOptions & { curator?: Eid }
  ): Promise<{ records: AnnounceRecord[]; outcome: ListOutcome }>
  find(query: FindQuery, options?: RequestOptions): Promise<FindResult>
}

export function createSpaceSearch(
  {
    host,
    registry,
    clock,
    crypto,
    curators
  }: { host: Host; registry: RegistryClient; clock: Clock; crypto: CryptoProvider; curators: CuratorMemory },
  { network }: { network: NetworkKind }
): SpaceSearch {
  async function announcements(dsid: DsId, options: RequestOptions = {}): Promise<{ candidates: Candidate[]; outcome: ListOutcome }> {
    const outcome = await registry.list({ set: 'announcements', key: dsid }, options)
    const candidates: Candidate[] = []
    for (const { entry, servedBy } of outcome.entries) {
      if (entry.set === 'announcements') candidates.push({ record: entry.record, replicas: servedBy.length })
    }
    if (candidates.length === 0) candidates.push(...(await fromDht(dsid, options)))
    return { candidates, outcome }
  }

  /** The DHT's one record decides nothing, but it is a start where no registrar answers. */
  async function fromDht(dsid: DsId, options: RequestOptions): Promise<Candidate[]> {
    const key = announceKey(dsid)
    const byCurator = new Map<string, Candidate>()
    for await (const record of dhtRecords({ dht: host.dht, crypto, clock }, key, options.signal)) {
      if (record.kind !== 'announce') continue
      const curator = toHex(record.payload.curator)
      if ((byCurator.get(curator)?.record.payload.seq ?? -1) < record.payload.seq) byCurator.set(curator, { record, replicas: 1 })
    }
    return [...byCurator.values()]
  }

  async function choose(name: SpaceName, candidates: readonly Candidate[]): Promise<CuratorChoice> {
    const remembered = name.pin === undefined ? await curators.get(dsId(crypto, name)) : undefined
    return chooseCurator(candidates, { pin: name.pin, remembered })
  }

  async function children(
    ns: string,
    topic: string,
    { curator, ...options }: RequestOptions & { curator?: Eid } = {}
  ): Promise<{ records: AnnounceRecord[]; outcome: ListOutcome }> {
    const key = prefixId(crypto, ns, topic)
    const outcome = await registry.list({ set: 'children', key, ...(curator === undefined ? {} : { curator }) }, options)
    const records: AnnounceRecord[] = []
    for (const { entry } of outcome.entries) {
      if (entry.set === 'children' && entry.record.payload.ns === ns && isTopicWithin(entry.record.payload.topic, topic))
        records.push(entry.record)
    }
    return { records, outcome }
  }

  /** The newest live version of each topic, for each curator; where one is remembered for a topic's newest, only that one. */
  async function newestOfEach(query: TopicName, records: readonly AnnounceRecord[]): Promise<FoundSpace[]> {
    const live = records.filter(({ payload }) => payload.gone !== true && (query.pin === undefined || equals(payload.curator, query.pin)))
    const byTopic = Map.groupBy(live, ({ payload }) => payload.topic)
    const found: FoundSpace[] = []
    for (const topic of [...byTopic.keys()].sort()) {
      const newest = new Map<string, AnnounceRecord>()
      for (const record of byTopic.get(topic) as AnnounceRecord[]) {
        const curator = toHex(record.payload.curator)
        if ((newest.get(curator)?.payload.ver ?? 0) < record.payload.ver) newest.set(curator, record)
      }
      const followed = await rememberedAmong([...newest.values()])
      const chosen = followed === undefined ? [...newest.values()] : [followed]
      for (const record of chosen) found.push({ record, contested: chosen.length > 1 })
    }
    return found
  }

  async function rememberedAmong(records: readonly AnnounceRecord[]): Promise<AnnounceRecord | undefined> {
    if (records.length < 2) return undefined
    for (const record of records) {
      const { ns, topic, ver, curator } = record.payload
      const remembered = await curators.get(dsId(crypto, { ns, topic, version: ver }))
      if (remembered !== undefined && equals(remembered, curator)) return record
    }
    return undefined
  }

  async function find(query: FindQuery, options: RequestOptions = {}): Promise<FindResult> {
    const startedMs = clock.monotonicMs()
    const name = checkedInput('name', query.name, NAME_REMEDY, () => parseSpaceQuery(query.name))
    const limit = checkedLimit(query.limit)
    const tally = new Tally()
    options.onProgress?.('looking up the space')
    const { found, truncated } = await followed(name, tally, options)
    const members: MemberView[] = []
    options.onProgress?.(`${found.length} ${found.length === 1 ? 'space' : 'spaces'}, looking up members`)
    await eachOf(found, SPACES_AT_ONCE, async (space) => {
      if (limit !== undefined && members.length >= limit) return
      members.push(...(await membersOf(space.record, query, limit, tally, options)))
      options.onProgress?.(`${members.length} ${members.length === 1 ? 'member' : 'members'}`)
    })
    return {
      spaces: found.map(({ record, contested }) => spaceView(crypto, record, contested)),
      members: limit === undefined ? members : members.slice(0, limit),
      registrars: tally.counts(),
      complete: tally.complete && !truncated,
      elapsedMs: Math.round(clock.monotonicMs() - startedMs)
    }
  }

  async function followed(
    name: SpaceName | TopicName,
    tally: Tally,
    options: RequestOptions
  ): Promise<{ found: FoundSpace[]; truncated: boolean }> {
    if (name.version === undefined) {
      const { records, outcome } = await children(name.ns, name.topic, {
        ...options,
        ...(name.pin === undefined ? {} : { curator: name.pin })
      })
      tally.add(outcome)
      const found = await newestOfEach(name, records)
      return { found: found.slice(0, SPACES_MAX), truncated: found.length > SPACES_MAX }
    }
    const { candidates, outcome } = await announcements(dsId(crypto, name), options)
    tally.add(outcome)
    const choice = await choose(name, candidates)
    if (choice.kind === 'tie') throw contestedError(name, choice.candidates)
    if (choice.kind === 'none') return { found: [], truncated: false }
    return { found: [{ record: choice.candidate.record, contested: choice.contested }], truncated: false }
  }

  async function membersOf(
    announce: AnnounceRecord,
    query: FindQuery,
    limit: number | undefined,
    tally: Tally,
    options: RequestOptions
  ): Promise<MemberView[]> {
    const { ns, topic, ver, curator, shards } = announce.payload
    const space = { ns, topic, version: ver }
    const members: MemberView[] = []
    const seeds = seedTargets(announce, network)
    await eachOf(shardKeys(crypto, dsId(crypto, space), shards), SPACES_AT_ONCE, async (key) => {
      if (limit !== undefined && members.length >= limit) return
      const outcome = await registry.list(
        {
          set: 'members',
          key,
          curator,
          seeds,
          ...(query.tags === undefined ? {} : { tags: query.tags }),
          ...(limit === undefined || query.mode !== undefined ? {} : { limit })
        },
        options.signal === undefined ? {} : { signal: options.signal }
      )
      tally.add(outcome)
      for (const { entry, servedBy } of outcome.entries) {
        if (entry.set !== 'members' || entry.gone) continue
        if (query.mode === undefined || entry.record.payload.mode === query.mode) members.push(memberView(entry.record, space, servedBy))
      }
    })
    return members
  }

  return { announcements, choose, children, find }
}

/** Registrars of all the listings of one search, each peer once. */
class Tally {
  readonly #known = new Set<string>()
  readonly #asked = new Set<string>()
  readonly #answered = new Set<string>()
  #hops = 0
  complete = true

  add(outcome: ListOutcome): void {
    this.#hops = Math.max(this.#hops, outcome.hops)
    for (const peer of outcome.known) this.#known.add(peer)
    for (const peer of outcome.asked) this.#asked.add(peer)
    for (const peer of outcome.answered) this.#answered.add(peer)
    if (!outcome.complete) this.complete = false
  }

  counts(): FindResult['registrars'] {
    return { known: this.#known.size, asked: this.#asked.size, answered: this.#answered.size, hops: this.#hops }
  }
}

export function seedTargets(announce: AnnounceRecord, network: NetworkKind): PeerAddress[] {
  return announce.payload.seeds.map((seed) => seedTarget(seed, network)).filter((target) => target !== undefined)
}

export function spaceView(crypto: CryptoProvider, record: AnnounceRecord, contested: boolean): SpaceView {
  const { ns, topic, ver, curator, desc } = record.payload
  const name = { ns, topic, version: ver }
  return {
    name: nameText(name),
    dsid: toHex(dsId(crypto, name)),
    curator: eidToDid(curator),
    description: desc,
    contested,
    expiresAtMs: recordExpiresAtMs(record)
  }
}

export function memberView(record: JoinRecord, space: { ns: string; topic: string; version: number }, servedBy: string[]): MemberView {
  const { eid: member, curator, tags, mode, ts } = record.payload
  return {
    did: eidToDid(eid(member)),
    space: nameText(space),
    curator: eidToDid(curator),
    tags: [...tags],
    mode,
    joinedAtMs: ts * 1_000,
    expiresAtMs: recordExpiresAtMs(record),
    servedBy
  }
}

export function contestedError(name: SpaceName, candidates: readonly Candidate[]): RookeryError {
  const curators = candidates.map(({ record }) => eidToDid(record.payload.curator))
  return new RookeryError('SPACE_CONTESTED', `${nameText(name)} has ${curators.length} curators that equally many registrars hold`, {
    kind: 'conflict',
    field: 'name',
    value: nameText(name),
    remedy: `pin the curator that you trust: ${nameText(name)}#${curators[0]}`,
    data: { curators }
  })
}

function checkedLimit(limit: number | undefined): number | undefined {
  if (limit === undefined) return undefined
  if (Number.isInteger(limit) && limit >= 1 && limit <= FIND_LIMIT_MAX) return limit
  throw new RookeryError('LIMIT_INVALID', `limit ${limit} is not an integer from 1 to ${FIND_LIMIT_MAX}`, {
    kind: 'usage',
    field: 'limit',
    value: limit,
    remedy: 'leave it out for all members'
  })
}

import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { announceKey } from '../../protocol/discovery/dht-key.ts'
import {
  type DsId,
  dsId,
  isTopicWithin,
  parseSpaceQuery,
  prefixId,
  SHARDS_MAX,
  type SpaceName,
  type TopicName
} from '../../protocol/discovery/names.ts'
import { type Eid, eidToDid } from '../../protocol/identity/eid.ts'
import type { AnnounceRecord } from '../../protocol/records/announce.ts'
import { recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import {
  type Candidate,
  type CuratorChoice,
  type CuratorMemory,
  chooseCurator,
  isHandedOver,
  liveCandidates,
  predecessorsOf
} from './curators.ts'
import { eachOf } from './deadline.ts'
import { dhtRecords } from './dht-records.ts'
import { checkedInput, NAME_REMEDY } from './input.ts'
import type { MemberReader } from './member-reader.ts'
import { nameText } from './own-spaces.ts'
import type { ListOutcome, RegistryClient, RequestOptions } from './registry-client.ts'
import { SearchTally } from './search-tally.ts'
import { checkedLimit } from './space-refusals.ts'
import type { CuratorTrust, FindQuery, FindResult, MemberView, SpaceView } from './spaces.ts'

/** Spaces of one parent query whose members are listed; beyond them it ends as incomplete. */
const SPACES_MAX = 256
const SPACES_AT_ONCE = 4
/**
 * Keys of members that one search lists, over all its spaces, each the same number of them: so strangers who announce a space, or many below a topic, with as
 * many parts as there can be do not make a search of it ask the whole network. One space alone is always read whole.
 */
const KEYS_MAX = 2 * (SHARDS_MAX + 1)
/** Curators of one DS_ID whose members a search lists where it cannot tell whose space it is, those that most registrars hold first. */
const RIVALS_MAX = 64

/** One space that the search follows. */
export interface FoundSpace {
  candidate: Candidate
  trust: CuratorTrust
  /** whose followers are its members: the curator, then those it took the space over from */
  curators: Eid[]
}

export interface SpaceSearch {
  /** All verified announcements of one space, tombstones too, by how many registrars hold each. */
  announcements(dsid: DsId, options?: RequestOptions): Promise<{ candidates: Candidate[]; outcome: ListOutcome }>
  /** Whom to follow in this space, by the pin, by what is remembered, or by the replicas; along a hand-over the memory goes with it. */
  choose(name: SpaceName, candidates: readonly Candidate[]): Promise<CuratorChoice>
  /** A chosen announcement with why it is followed and whose joins count. */
  found(name: SpaceName, choice: Extract<CuratorChoice, { kind: 'chosen' }>, candidates: readonly Candidate[]): Promise<FoundSpace>
  /** The verified announcements at and below a topic, tombstones too. */
  children(
    ns: string,
    topic: string,
    options?: RequestOptions & { curator?: Eid }
  ): Promise<{ candidates: Candidate[]; outcome: ListOutcome }>
  find(query: Omit<FindQuery, 'page'>, options?: RequestOptions): Promise<FindResult>
}

export function createSpaceSearch({
  host,
  registry,
  clock,
  crypto,
  curators,
  reader,
  isOurs
}: {
  host: Host
  registry: RegistryClient
  clock: Clock
  crypto: CryptoProvider
  curators: CuratorMemory
  reader: MemberReader
  /** an agent of this node */
  isOurs: (eid: Eid) => boolean
}): SpaceSearch {
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
      if ((byCurator.get(curator)?.record.payload.seq ?? -1) < record.payload.seq) {
        byCurator.set(curator, { record, replicas: 1, source: 'dht' })
      }
    }
    return [...byCurator.values()]
  }

  async function choose(name: SpaceName, candidates: readonly Candidate[]): Promise<CuratorChoice> {
    const dsid = dsId(crypto, name)
    const remembered = name.pin === undefined ? await curators.get(dsid) : undefined
    const choice = chooseCurator(candidates, { pin: name.pin, remembered })
    if (remembered !== undefined && choice.kind === 'chosen') await curators.replace(dsid, choice.candidate.record.payload.curator)
    return choice
  }

  async function found(
    name: SpaceName,
    { candidate, contested }: Extract<CuratorChoice, { kind: 'chosen' }>,
    candidates: readonly Candidate[]
  ): Promise<FoundSpace> {
    const remembered = name.pin === undefined ? await curators.get(dsId(crypto, name)) : undefined
    const trust = name.pin !== undefined ? 'pinned' : remembered !== undefined ? 'remembered' : contested ? 'contested' : 'first-seen'
    return followed(candidate, trust, candidates)
  }

  function followed(candidate: Candidate, trust: CuratorTrust, candidates: readonly Candidate[]): FoundSpace {
    const { curator } = candidate.record.payload
    const before = predecessorsOf(candidate.record, candidates).map(({ payload }) => payload.curator)
    return { candidate, trust: isOurs(curator) && trust !== 'pinned' ? 'own' : trust, curators: distinct([curator, ...before]) }
  }

  async function children(
    ns: string,
    topic: string,
    { curator, ...options }: RequestOptions & { curator?: Eid } = {}
  ): Promise<{ candidates: Candidate[]; outcome: ListOutcome }> {
    const key = prefixId(crypto, ns, topic)
    const outcome = await registry.list({ set: 'children', key, ...(curator === undefined ? {} : { curator }) }, options)
    const candidates: Candidate[] = []
    for (const { entry, servedBy } of outcome.entries) {
      if (entry.set === 'children' && entry.record.payload.ns === ns && isTopicWithin(entry.record.payload.topic, topic))
        candidates.push({ record: entry.record, replicas: servedBy.length })
    }
    return { candidates, outcome }
  }

  /** The newest live version of each topic, for each curator; where one is pinned or remembered for it, only that one. */
  async function newestOfEach(query: TopicName, candidates: readonly Candidate[]): Promise<FoundSpace[]> {
    const byTopic = Map.groupBy(candidates, ({ record }) => record.payload.topic)
    const spaces: FoundSpace[] = []
    for (const topic of [...byTopic.keys()].sort()) {
      const all = byTopic.get(topic) as Candidate[]
      const newest = newestOfCurators(all.filter((one) => query.pin === undefined || speaksFor(one, query.pin, all)))
      const known = query.pin === undefined ? await rememberedAmong(newest, all) : undefined
      const chosen = known === undefined ? newest : [known]
      const trust = query.pin !== undefined ? 'pinned' : known !== undefined ? 'remembered' : chosen.length > 1 ? 'contested' : 'first-seen'
      for (const candidate of chosen) spaces.push(followed(candidate, trust, all))
    }
    return spaces
  }

  async function rememberedAmong(newest: readonly Candidate[], all: readonly Candidate[]): Promise<Candidate | undefined> {
    for (const candidate of newest) {
      const { ns, topic, ver } = candidate.record.payload
      const remembered = await curators.get(dsId(crypto, { ns, topic, version: ver }))
      if (remembered !== undefined && speaksFor(candidate, remembered, all)) return candidate
    }
    return undefined
  }

  async function find(query: Omit<FindQuery, 'page'>, options: RequestOptions = {}): Promise<FindResult> {
    const startedMs = clock.monotonicMs()
    const name = checkedInput('name', query.name, NAME_REMEDY, () => parseSpaceQuery(query.name))
    const limit = checkedLimit('limit', query.limit)
    const tally = new SearchTally()
    options.onProgress?.('looking up the space')
    const { spaces, truncated } = await followedBy(name, tally, options)
    const members: MemberView[] = []
    let [pruned, isCut] = [0, truncated]
    options.onProgress?.(`${spaces.length} ${spaces.length === 1 ? 'space' : 'spaces'}, looking up members`)
    await eachOf(spaces, SPACES_AT_ONCE, async ({ candidate, curators: followedCurators }) => {
      if (limit !== undefined && members.length >= limit) return
      const wanted = { ...query, announce: candidate.record, curators: followedCurators, keysMax: Math.floor(KEYS_MAX / spaces.length) }
      const read = await reader.read(wanted, tally, options)
      for (const member of read.members) members.push(member)
      pruned += read.pruned
      isCut ||= read.truncated
      options.onProgress?.(`${members.length} ${members.length === 1 ? 'member' : 'members'}`)
    })
    return {
      spaces: spaces.map((space) => spaceView(crypto, space)),
      members: limit === undefined ? members : members.slice(0, limit),
      pruned,
      registrars: tally.counts(),
      complete: tally.complete && !isCut,
      elapsedMs: Math.round(clock.monotonicMs() - startedMs)
    }
  }

  async function followedBy(
    name: SpaceName | TopicName,
    tally: SearchTally,
    options: RequestOptions
  ): Promise<{ spaces: FoundSpace[]; truncated: boolean }> {
    if (name.version === undefined) {
      const { candidates, outcome } = await children(name.ns, name.topic, options)
      tally.add(outcome)
      const spaces = await newestOfEach(name, candidates)
      return { spaces: spaces.slice(0, SPACES_MAX), truncated: spaces.length > SPACES_MAX }
    }
    const { candidates, outcome } = await announcements(dsId(crypto, name), options)
    tally.add(outcome)
    const choice = await choose(name, candidates)
    if (choice.kind === 'none') return { spaces: [], truncated: false }
    if (choice.kind === 'tie' || choice.contested) {
      // whoever has most replicas may be a squatter: a search shows each of them with its own members, and only a join has to choose
      const live = liveCandidates(candidates)
      const spaces = live.slice(0, RIVALS_MAX).map((candidate) => followed(candidate, 'contested', candidates))
      return { spaces, truncated: live.length > RIVALS_MAX }
    }
    return { spaces: [await found(name, choice, candidates)], truncated: false }
  }

  return { announcements, choose, found, children, find }
}

/** Of each curator the highest live version that it did not hand over. */
function newestOfCurators(candidates: readonly Candidate[]): Candidate[] {
  const newest = new Map<string, Candidate>()
  for (const one of candidates) {
    if (one.record.payload.gone === true || isHandedOver(one, candidates)) continue
    const curator = toHex(one.record.payload.curator)
    if ((newest.get(curator)?.record.payload.ver ?? 0) < one.record.payload.ver) newest.set(curator, one)
  }
  return [...newest.values()]
}

/** By this curator, or by one to whom it handed the space over. */
function speaksFor({ record }: Candidate, curator: Eid, all: readonly Candidate[]): boolean {
  return [record, ...predecessorsOf(record, all)].some(({ payload }) => equals(payload.curator, curator))
}

function distinct(eids: readonly Eid[]): Eid[] {
  return [...new Map(eids.map((one) => [toHex(one), one])).values()]
}

export function spaceView(crypto: CryptoProvider, { candidate, trust }: Pick<FoundSpace, 'candidate' | 'trust'>): SpaceView {
  const { ns, topic, ver, curator, desc, shards, ts } = candidate.record.payload
  const name = { ns, topic, version: ver }
  return {
    name: nameText(name),
    dsid: toHex(dsId(crypto, name)),
    curator: eidToDid(curator),
    description: desc,
    trust,
    contested: trust === 'contested',
    known: candidate.source ?? 'registry',
    heldBy: candidate.replicas,
    shards,
    announcedAtMs: ts * 1_000,
    expiresAtMs: recordExpiresAtMs(candidate.record)
  }
}

/** For callers that hold the announcement alone. */
export function ownSpaceView(
  crypto: CryptoProvider,
  record: AnnounceRecord,
  { heldBy, contested }: { heldBy: number; contested: boolean }
): SpaceView {
  return { ...spaceView(crypto, { candidate: { record, replicas: heldBy }, trust: 'own' }), contested }
}

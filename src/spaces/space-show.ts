import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { dsId } from '../../protocol/discovery/names.ts'
import { eidToDid } from '../../protocol/identity/eid.ts'
import { recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import type { Candidate, CuratorMemory } from './curators.ts'
import { isHandedOver } from './curators.ts'
import type { MemberReader } from './member-reader.ts'
import { nameText, type OwnSpaces } from './own-spaces.ts'
import { SearchTally } from './search-tally.ts'
import { checkedName } from './space-curation.ts'
import type { SpaceSearch } from './space-search.ts'
import type { AnnouncementView, PublishOptions, SpaceDetails } from './spaces.ts'

export interface SpaceShowComponents {
  crypto: CryptoProvider
  search: SpaceSearch
  reader: MemberReader
  curators: CuratorMemory
  own: OwnSpaces
}

/** Everything that the network says of one space, with why this node follows whom it follows. */
export async function showSpace(components: SpaceShowComponents, text: string, options: PublishOptions): Promise<SpaceDetails> {
  const { crypto, search, reader, curators, own } = components
  const name = checkedName(text)
  const dsid = dsId(crypto, name)
  const tally = new SearchTally()
  options.onProgress?.('looking up the space')
  const signal = options.signal === undefined ? {} : { signal: options.signal }
  const [{ candidates, outcome }, topic] = await Promise.all([
    search.announcements(dsid, signal),
    search.children(name.ns, name.topic, signal)
  ])
  tally.add(outcome)
  tally.add(topic.outcome)
  const before = await curators.get(dsid)
  const choice = await search.choose(name, candidates)
  const found = choice.kind === 'chosen' ? await search.found(name, choice, candidates) : undefined
  options.onProgress?.('counting its members')
  const read =
    found === undefined
      ? { members: [], pruned: 0, truncated: false }
      : await reader.read({ announce: found.candidate.record, curators: found.curators }, tally, signal)
  const versions = topic.candidates.filter(({ record }) => record.payload.topic === name.topic)
  const moved = choice.kind === 'none' ? choice.moved : undefined
  return {
    name: nameText(name),
    dsid: toHex(dsid),
    ...(found === undefined ? {} : { curator: eidToDid(found.candidate.record.payload.curator) }),
    trust: found?.trust ?? (choice.kind === 'tie' ? 'tie' : 'none'),
    contested: choice.kind === 'tie' || (choice.kind === 'chosen' && choice.contested),
    ...(before === undefined ? {} : { remembered: eidToDid(before) }),
    announcements: candidates.map((one) => announcementView(one, candidates)),
    versions: versions.map((one) => announcementView(one, versions)).sort((a, b) => b.version - a.version),
    ...(moved === undefined ? {} : { movedToVersion: moved.version }),
    shards: found?.candidate.record.payload.shards ?? 1,
    members: read.members.length,
    pruned: read.pruned,
    registrars: tally.counts(),
    complete: tally.complete && !read.truncated,
    ours: own
      .all()
      .filter((space) => equals(space.dsid, dsid) && space.record.payload.gone !== true)
      .map(({ role, eid }) => ({ role, agent: eidToDid(eid) }))
  }
}

function announcementView(candidate: Candidate, all: readonly Candidate[]): AnnouncementView {
  const { curator, ver, gone, next, prev, desc, shards, policy, seeds, ts } = candidate.record.payload
  return {
    curator: eidToDid(curator),
    version: ver,
    state: isHandedOver(candidate, all) ? 'handed-over' : gone === true ? 'withdrawn' : 'live',
    ...(next === undefined ? {} : { next: { curator: eidToDid(next.eid), version: next.ver } }),
    ...(prev === undefined ? {} : { prev: { curator: eidToDid(prev.eid), version: prev.ver } }),
    description: desc,
    shards,
    policy,
    seeds: [...seeds],
    heldBy: candidate.replicas,
    announcedAtMs: ts * 1_000,
    expiresAtMs: recordExpiresAtMs(candidate.record)
  }
}

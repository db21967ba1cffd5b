import { equals } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { dsId } from '../../protocol/discovery/names.ts'
import { POLICY_OPEN } from '../../protocol/records/announce.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { CuratorMemory } from './curators.ts'
import { memberView } from './member-reader.ts'
import type { OwnSpaceSigner } from './own-space-signer.ts'
import type { OwnSpaceUpkeep } from './own-space-upkeep.ts'
import { earlierShards, type OwnJoin, type OwnSpace, type OwnSpaces, ownId } from './own-spaces.ts'
import { checkedName } from './space-curation.ts'
import type { SpaceFollower } from './space-follower.ts'
import { contestedError, notJoined, unknownPolicy, unknownSpace } from './space-refusals.ts'
import type { SpaceSearch } from './space-search.ts'
import type { JoinInput, MemberView, PublishOptions, PutCounts } from './spaces.ts'

export interface SpaceMembershipComponents {
  crypto: CryptoProvider
  clock: Clock
  curators: CuratorMemory
  own: OwnSpaces
  signer: OwnSpaceSigner
  upkeep: OwnSpaceUpkeep
  search: SpaceSearch
  follower: SpaceFollower
}

/** What an agent does with spaces that others curate: join, leave, join again under another EID (protocol/README.md §4). */
export class SpaceMembership {
  readonly #c: SpaceMembershipComponents

  constructor(components: SpaceMembershipComponents) {
    this.#c = components
  }

  async join(input: JoinInput, options: PublishOptions): Promise<MemberView & PutCounts> {
    const { crypto, clock, own, search, curators, signer, upkeep } = this.#c
    const name = checkedName(input.name)
    const { agent } = input
    const dsid = dsId(crypto, name)
    const tags = [...new Set(input.tags ?? [])]
    const id = ownId('member', agent.eid, dsid)
    options.onProgress?.('looking up')
    const first = signer.seen(id) === undefined
    const [{ candidates }] = await Promise.all([
      search.announcements(dsid, options),
      signer.lookUpInDht(id, { role: 'member', eid: agent.eid, dsid }, options)
    ])
    const choice = await search.choose(name, candidates)
    if (choice.kind === 'tie') throw contestedError(name, choice.candidates)
    if (choice.kind === 'none') {
      const alive = candidates.filter(({ record }) => record.payload.gone !== true).map(({ record }) => record.payload.curator)
      throw unknownSpace(name, choice.moved?.version, alive)
    }
    const announce = choice.candidate.record.payload
    if (announce.policy !== POLICY_OPEN) throw unknownPolicy(name, announce.policy)
    if (first) await signer.lookUpAtRegistrars(id, { role: 'member', eid: agent.eid, name, dsid, shards: announce.shards }, options)
    const unlisted = input.listing === 'unlisted' ? { unlisted: true as const } : {}
    const payload = { dsid, eid: agent.eid, curator: announce.curator, tags, mode: agent.reachability.mode, ...unlisted }
    const space = await upkeep.renew(id, async () => {
      const record = await signer.join(id, agent, payload, options.signal)
      const held = own.get(id) as OwnJoin | undefined
      return own.joinOf(name, record, announce.shards, earlierShards(held, announce.shards, Math.floor(clock.nowMs() / 1_000)))
    })
    if (!choice.contested) await curators.remember(dsid, announce.curator)
    const { registrars, stored } = await upkeep.publish(space, agent, options)
    return { ...memberView(space.record, name, []), registrars, stored }
  }

  async leave(input: { name: string; agent: LocalAgent }, options: PublishOptions): Promise<void> {
    const { own, signer, upkeep } = this.#c
    const name = checkedName(input.name)
    const dsid = dsId(this.#c.crypto, name)
    const spaces = (['member', 'curator'] as const)
      .map((role) => own.get(ownId(role, input.agent.eid, dsid)))
      .filter((space) => space !== undefined && space.record.payload.gone !== true) as OwnSpace[]
    if (spaces.length === 0) throw notJoined(name, input.agent)
    for (const space of spaces) {
      const gone = await upkeep.renew(space.id, () => signer.gone(own.get(space.id) ?? space, input.agent, options.signal))
      this.#c.follower.forget(space.id)
      await upkeep.publish(gone, input.agent, options)
    }
  }

  /** The join under the new EID is published before the one under the old is withdrawn. */
  async handOver(space: OwnJoin, from: LocalAgent, to: LocalAgent, options: PublishOptions): Promise<void> {
    const { own, signer, upkeep } = this.#c
    const { dsid, curator, tags, gone, unlisted } = space.record.payload
    if (gone === true) return
    const id = ownId('member', to.eid, dsid)
    const what = {
      dsid,
      eid: to.eid,
      curator: equals(curator, from.eid) ? to.eid : curator,
      tags,
      mode: to.reachability.mode,
      ...(unlisted === true ? { unlisted } : {})
    }
    const again = await upkeep.renew(id, async () =>
      own.joinOf(space.name, await signer.join(id, to, what, options.signal), space.shards, space.earlier)
    )
    await upkeep.publish(again, to, options)
    const old = await upkeep.renew(space.id, () => signer.gone(own.get(space.id) ?? space, from, options.signal))
    await upkeep.publish(old, from, options)
  }
}

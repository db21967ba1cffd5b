import { equals } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { dsId, parseSpaceName, type SpaceName } from '../../protocol/discovery/names.ts'
import { type Eid, type EidHex, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { type Announce, type AnnounceRecord, POLICY_OPEN, type SpaceLink } from '../../protocol/records/announce.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Candidate, CuratorMemory } from './curators.ts'
import { checkedInput, NAME_REMEDY } from './input.ts'
import type { OwnSpaceSigner } from './own-space-signer.ts'
import type { OwnSpaceUpkeep } from './own-space-upkeep.ts'
import { isOffered, type OwnAnnounce, type OwnSpaces, ownId } from './own-spaces.ts'
import { checkedDescription, checkedSeeds, checkedShards, checkPin, handedOver, notCurated, versionPassed } from './space-refusals.ts'
import { ownSpaceView, type SpaceSearch } from './space-search.ts'
import type { HandOverView, PublishOptions, PutCounts, SpaceView } from './spaces.ts'

export interface SpaceCurationComponents {
  crypto: CryptoProvider
  agents: (eidHex: EidHex) => LocalAgent | undefined
  curators: CuratorMemory
  own: OwnSpaces
  signer: OwnSpaceSigner
  upkeep: OwnSpaceUpkeep
  search: SpaceSearch
}

export interface AnnounceInput {
  name: string
  curator: LocalAgent
  description?: string
  seeds?: string[]
  shards?: number
}

/** What a curator does with its spaces: announce, change, grow, hand over (protocol/README.md §3, §4). */
export class SpaceCuration {
  readonly #c: SpaceCurationComponents

  constructor(components: SpaceCurationComponents) {
    this.#c = components
  }

  async announce(input: AnnounceInput, options: PublishOptions): Promise<SpaceView & PutCounts> {
    const { crypto, own, search, signer, upkeep } = this.#c
    const name = checkedName(input.name)
    const { curator } = input
    checkPin(name, curator)
    const asked = {
      desc: input.description === undefined ? undefined : checkedDescription(input.description),
      seeds: checkedSeeds(input.seeds ?? []),
      shards: checkedShards(input.shards)
    }
    const dsid = dsId(crypto, name)
    const id = ownId('curator', curator.eid, dsid)
    options.onProgress?.('looking up')
    const [older, { candidates }] = await Promise.all([
      this.#olderVersion(name, curator, options),
      search.announcements(dsid, options),
      signer.lookUpInDht(id, { role: 'curator', eid: curator.eid, dsid }, options)
    ])
    const mine = candidates.find(({ record }) => equals(record.payload.curator, curator.eid))?.record
    if (mine !== undefined) signer.raise(id, mine.payload.seq)
    const offer = candidates.find(({ record }) => isOfferTo(record.payload, curator.eid, name.version))?.record
    const before = newer(this.#held(id)?.record, mine)
    if (offer === undefined && before !== undefined && wasHandedOver(before.payload)) {
      throw handedOver(name, curator, (before.payload.next as SpaceLink).eid)
    }
    const prev = offer === undefined ? (linkOf(older) ?? before?.payload.prev) : linkOf(offer)
    const known = [before, offer, asked.shards === undefined ? older : undefined]
    const what = {
      ns: name.ns,
      topic: name.topic,
      ver: name.version,
      desc: asked.desc ?? offer?.payload.desc ?? '',
      curator: curator.eid,
      ...(prev === undefined ? {} : { prev }),
      seeds: asked.seeds,
      policy: POLICY_OPEN,
      shards: Math.max(asked.shards ?? 1, ...known.map((record) => record?.payload.shards ?? 1))
    }
    const sign = async () => own.announceOf(name, await signer.announce(id, curator, what, options.signal))
    const space = older === undefined ? await upkeep.renew(id, sign) : await this.#supersede(older, curator, { id, name, sign }, options)
    await this.#c.curators.replace(dsid, curator.eid)
    return await this.#published(space, curator, { contested: isContested(candidates, curator.eid, offer) }, options)
  }

  /** The highest live lower version of our own. @throws RookeryError `SPACE_VERSION` when a higher one is known (DS-04) */
  async #olderVersion(name: SpaceName, curator: LocalAgent, options: PublishOptions): Promise<AnnounceRecord | undefined> {
    const { candidates } = await this.#c.search.children(name.ns, name.topic, { ...options, curator: curator.eid })
    const held = this.#c.own.all().filter((space) => space.role === 'curator')
    const ours = [...candidates, ...held]
      .map(({ record }) => record)
      .filter(({ payload }) => payload.ns === name.ns && payload.topic === name.topic && equals(payload.curator, curator.eid))
    const highest = Math.max(0, ...ours.map(({ payload }) => payload.ver))
    if (highest > name.version) throw versionPassed(name, highest, curator)
    return ours
      .filter(({ payload }) => payload.gone !== true && payload.ver < name.version)
      .sort((a, b) => b.payload.ver - a.payload.ver || b.payload.seq - a.payload.seq)[0]
  }

  /**
   * Marks the old version gone with a pointer to the new one: both are on disk before either is published, and the old record goes out first
   * (protocol/README.md §3, G-22).
   */
  async #supersede(
    older: AnnounceRecord,
    curator: LocalAgent,
    heir: { id: string; name: SpaceName; sign: () => Promise<OwnAnnounce> },
    options: PublishOptions
  ): Promise<OwnAnnounce> {
    const { own, crypto, signer, upkeep } = this.#c
    const { ns, topic, ver } = older.payload
    const name = { ns, topic, version: ver } as SpaceName
    const id = ownId('curator', curator.eid, dsId(crypto, name))
    signer.raise(id, older.payload.seq)
    const next = { eid: curator.eid, ver: heir.name.version }
    const [old, space] = await upkeep.renewBoth([id, heir.id], async () => [
      own.announceOf(name, await signer.announceGone(id, curator, older.payload, options.signal, next)),
      await heir.sign()
    ])
    await upkeep.publish(old, curator, options.signal === undefined ? {} : { signal: options.signal })
    return space
  }

  async update(
    input: { name: string; curator: LocalAgent; description?: string; seeds?: string[] },
    options: PublishOptions
  ): Promise<SpaceView & PutCounts> {
    const name = checkedName(input.name)
    const space = this.#curated(name, input.curator)
    const change = {
      ...(input.description === undefined ? {} : { desc: checkedDescription(input.description) }),
      ...(input.seeds === undefined ? {} : { seeds: checkedSeeds(input.seeds) })
    }
    const changed = await this.#change(space, input.curator, change, options)
    return await this.#published(changed, input.curator, { contested: false }, options)
  }

  /** More parts, as the space grew. */
  async grow(space: OwnAnnounce, curator: LocalAgent, shards: number, options: PublishOptions): Promise<void> {
    await this.#c.upkeep.publish(await this.#change(space, curator, { shards }, options), curator, options)
  }

  async handOverTo(input: { name: string; curator: LocalAgent; to: Eid | 'nobody' }, options: PublishOptions): Promise<HandOverView> {
    const { crypto, agents, own } = this.#c
    const name = checkedName(input.name)
    const { curator, to } = input
    const space = this.#curated(name, curator)
    if (to === 'nobody') {
      const kept = await this.#change(space, curator, { next: undefined }, options)
      return { ...(await this.#published(kept, curator, { contested: false }, options)), state: 'kept' }
    }
    if (equals(to, curator.eid)) {
      throw new RookeryError('HANDOVER_TO_SELF', `${curator.name} curates ${input.name} already`, {
        kind: 'usage',
        field: 'to',
        value: eidToDid(to),
        remedy: 'name the DID of another agent'
      })
    }
    const heir = agents(eidHex(to))
    if (heir === undefined) {
      const offered = await this.#change(space, curator, { next: { eid: to, ver: name.version } }, options)
      return { ...(await this.#published(offered, curator, { contested: false }, options)), state: 'offered', to: eidToDid(to) }
    }
    const { registrars, stored } = await this.handOver(space, curator, heir, options)
    const { record } = own.get(ownId('curator', to, space.dsid)) as OwnAnnounce
    return { ...ownSpaceView(crypto, record, { heldBy: stored, contested: false }), registrars, stored, state: 'done', to: heir.did }
  }

  /** To another agent of this node. Both records are on disk before either is published, so that a crash between them loses neither. */
  async handOver(space: OwnAnnounce, from: LocalAgent, to: LocalAgent, options: PublishOptions): Promise<PutCounts> {
    const { own, curators, signer, upkeep } = this.#c
    const { payload } = space.record
    const next = { eid: to.eid, ver: payload.ver }
    const id = ownId('curator', to.eid, space.dsid)
    const held = own.get(id) as OwnAnnounce | undefined
    if (payload.gone === true && (payload.next === undefined || !equals(payload.next.eid, to.eid))) return { registrars: 0, stored: 0 }
    const { ns, topic, ver, desc, policy, shards, seeds } = payload
    const what = { ns, topic, ver, desc, curator: to.eid, prev: { eid: from.eid, ver }, seeds, policy, shards }
    const [old, heir] =
      payload.gone === true && held !== undefined
        ? [space, held]
        : await upkeep.renewBoth([space.id, id], async () => [
            own.announceOf(space.name, await signer.announceGone(space.id, from, payload, options.signal, next)),
            own.announceOf(space.name, await signer.announce(id, to, what, options.signal))
          ])
    await curators.replace(space.dsid, to.eid)
    await upkeep.publish(old, from, options)
    return await upkeep.publish(heir, to, options)
  }

  async tombstone({ name: text, curator }: { name: string; curator: LocalAgent }, options: PublishOptions): Promise<void> {
    const { own, signer, upkeep } = this.#c
    const space = this.#curated(checkedName(text), curator)
    const gone = await upkeep.renew(space.id, () => signer.gone(own.get(space.id) ?? space, curator, options.signal))
    await upkeep.publish(gone, curator, options)
  }

  /** @throws RookeryError `SPACE_NOT_CURATED` */
  curated(text: string, curator: LocalAgent): OwnAnnounce {
    return this.#curated(checkedName(text), curator)
  }

  #curated(name: SpaceName, curator: LocalAgent): OwnAnnounce {
    const space = this.#held(ownId('curator', curator.eid, dsId(this.#c.crypto, name)))
    if (space === undefined || space.record.payload.gone === true) throw notCurated(name, curator)
    return space
  }

  #held(id: string): OwnAnnounce | undefined {
    return this.#c.own.get(id) as OwnAnnounce | undefined
  }

  async #change(
    space: OwnAnnounce,
    curator: LocalAgent,
    change: Partial<Omit<Announce, 'next'>> & { next?: SpaceLink | undefined },
    options: PublishOptions
  ): Promise<OwnAnnounce> {
    const { own, signer, upkeep } = this.#c
    await signer.lookUp(space.id, space, options.signal === undefined ? {} : { signal: options.signal })
    return await upkeep.renew(space.id, async () => {
      const { next: held, gone: _, ...rest } = ((own.get(space.id) as OwnAnnounce | undefined) ?? space).record.payload
      const { next: wanted, ...changed } = change
      const next = 'next' in change ? wanted : held
      const what = { ...rest, ...changed, ...(next === undefined ? {} : { next }) }
      return own.announceOf(space.name, await signer.announce(space.id, curator, what, options.signal))
    })
  }

  async #published(
    space: OwnAnnounce,
    curator: LocalAgent,
    { contested }: { contested: boolean },
    options: PublishOptions
  ): Promise<SpaceView & PutCounts> {
    const { registrars, stored } = await this.#c.upkeep.publish(space, curator, options)
    return { ...ownSpaceView(this.#c.crypto, space.record, { heldBy: stored, contested }), registrars, stored }
  }

  /** An agent of this node by its EID. */
  agentOf(eid: Eid | 'nobody'): LocalAgent | undefined {
    return eid === 'nobody' ? undefined : this.#c.agents(eidHex(eid))
  }

  /** To whom a space of ours is offered. */
  offeredTo(space: OwnAnnounce): Eid | undefined {
    return isOffered(space) ? space.record.payload.next?.eid : undefined
  }
}

export function checkedName(text: string): SpaceName {
  return checkedInput('name', text, NAME_REMEDY, () => parseSpaceName(text))
}

function linkOf(record: AnnounceRecord | undefined): SpaceLink | undefined {
  return record === undefined ? undefined : { eid: record.payload.curator, ver: record.payload.ver }
}

function isOfferTo({ curator, next, ver }: Announce, eid: Eid, version: number): boolean {
  return next !== undefined && !equals(curator, eid) && ver === version && next.ver === version && equals(next.eid, eid)
}

/** A tombstone that names another curator of the same version. */
function wasHandedOver({ gone, next, ver, curator }: Announce): boolean {
  return gone === true && next !== undefined && next.ver === ver && !equals(next.eid, curator)
}

function newer(a: AnnounceRecord | undefined, b: AnnounceRecord | undefined): AnnounceRecord | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return b.payload.seq > a.payload.seq ? b : a
}

function isContested(candidates: readonly Candidate[], ours: Eid, offer: AnnounceRecord | undefined): boolean {
  return candidates.some(
    ({ record }) =>
      record !== offer &&
      record.payload.gone !== true &&
      !equals(record.payload.curator, ours) &&
      !(record.payload.next !== undefined && equals(record.payload.next.eid, ours))
  )
}

import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { dsId } from '../../protocol/discovery/names.ts'
import { type Eid, type EidHex, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import type { JoinRecord } from '../../protocol/records/join.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Store } from '../store/store.ts'
import type { NetworkKind } from './address-scope.ts'
import { CuratorMemory } from './curators.ts'
import { eachOf, withDeadline } from './deadline.ts'
import { FindPages } from './find-pages.ts'
import { createMemberReader, type MemberReader } from './member-reader.ts'
import { OwnPrunes } from './own-prunes.ts'
import { OwnSpaceSigner } from './own-space-signer.ts'
import { OwnSpaceUpkeep } from './own-space-upkeep.ts'
import { nameText, type OwnAnnounce, type OwnSpace, OwnSpaces } from './own-spaces.ts'
import { Refresher, type UpkeepStats } from './refresher.ts'
import type { RegistryClient } from './registry-client.ts'
import { SequenceBook } from './sequence-book.ts'
import { ShardCensus } from './shard-census.ts'
import { type AnnounceInput, checkedName, SpaceCuration } from './space-curation.ts'
import { SpaceFollower } from './space-follower.ts'
import { SpaceMembership } from './space-membership.ts'
import { createSpacePublisher } from './space-publisher.ts'
import { createSpaceSearch, type SpaceSearch } from './space-search.ts'
import { showSpace } from './space-show.ts'
import type { FindQuery, JoinInput, OwnSpaceView, PublishOptions, Spaces } from './spaces.ts'

/** What a stop may spend on telling others, within what a node's stop has for it. */
const WITHDRAW_MS = 1_400
/** Withdrawals told at once: thousands together would all be late, and hold up the process past its stop. */
const WITHDRAW_AT_ONCE = 16

export interface SpacesComponents {
  host: Host
  registry: RegistryClient
  store: Store
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  /** the agents of this node, as they are at the moment of asking; what an agent that is gone published is not refreshed */
  agents: (eidHex: EidHex) => LocalAgent | undefined
}

export interface SpacesInit {
  network?: NetworkKind
  /** live joins under one key at which a curator's node doubles the parts; by default `SHARD_SPLIT_AT` */
  shardSplitAt?: number
}

/** Opens what our agents announced and joined before and keeps it alive from now on. Ask for nothing before the host serves. */
export async function createSpaces(components: SpacesComponents, init: SpacesInit = {}): Promise<Spaces & { idle(): Promise<void> }> {
  const logger = components.logger.child('spaces')
  const network = init.network ?? 'lan'
  const curators = await CuratorMemory.open(components.store)
  const own = await OwnSpaces.open(components.store, components.crypto)
  const publisher = createSpacePublisher({ ...components, logger })
  const sequences = new SequenceBook(components.store, components.clock)
  const signer = new OwnSpaceSigner({ ...components, own, sequences, publisher })
  const refresher = new Refresher({ ...components, logger })
  const reader = createMemberReader(components, { network })
  const isOurs = (eid: Eid) => components.agents(eidHex(eid)) !== undefined
  const search = createSpaceSearch({ ...components, curators, reader, isOurs })
  const follower = new SpaceFollower({ search, logger })
  const upkeep = new OwnSpaceUpkeep({ ...components, own, sequences, signer, publisher, refresher, follower })
  const parts = { ...components, logger, curators, own, signer, upkeep, search, follower, refresher, reader }
  const curation = new SpaceCuration(parts)
  const census = new ShardCensus(
    {
      ...parts,
      spaces: () => curatedBy(own, components),
      grow: async (space, shards, signal) => {
        const curator = components.agents(eidHex(space.eid))
        if (curator !== undefined) await curation.grow(space, curator, shards, { signal })
      }
    },
    { splitAt: init.shardSplitAt }
  )
  const prunes = await OwnPrunes.open(parts)
  await upkeep.resume()
  census.begin()
  return new NodeSpaces({ ...parts, curation, membership: new SpaceMembership(parts), prunes, census })
}

function curatedBy(own: OwnSpaces, { agents }: Pick<SpacesComponents, 'agents'>): OwnAnnounce[] {
  return own
    .all()
    .filter(
      (space) => space.role === 'curator' && space.record.payload.gone !== true && agents(eidHex(space.eid)) !== undefined
    ) as OwnAnnounce[]
}

interface Parts extends Pick<SpacesComponents, 'host' | 'crypto' | 'clock' | 'logger'> {
  curators: CuratorMemory
  own: OwnSpaces
  upkeep: OwnSpaceUpkeep
  search: SpaceSearch
  reader: MemberReader
  refresher: Refresher
  follower: SpaceFollower
  curation: SpaceCuration
  membership: SpaceMembership
  prunes: OwnPrunes
  census: ShardCensus
}

class NodeSpaces implements Spaces {
  readonly #c: Parts
  readonly #pages: FindPages
  readonly #unsubscribe: () => void

  constructor(parts: Parts) {
    this.#c = parts
    this.#pages = new FindPages({ clock: parts.clock, search: (query, options) => parts.search.find(query, options) })
    this.#unsubscribe = parts.host.onPeer(({ kind }) => {
      if (kind === 'connect') parts.refresher.peersArrived()
    })
  }

  announce(input: AnnounceInput, options: PublishOptions = {}): ReturnType<Spaces['announce']> {
    return this.#c.curation.announce(input, options)
  }

  update(input: Parameters<Spaces['update']>[0], options: PublishOptions = {}): ReturnType<Spaces['update']> {
    return this.#c.curation.update(input, options)
  }

  async handOverTo(input: Parameters<Spaces['handOverTo']>[0], options: PublishOptions = {}): ReturnType<Spaces['handOverTo']> {
    const space = this.#c.curation.curated(input.name, input.curator)
    const done = await this.#c.curation.handOverTo(input, options)
    const heir = done.state === 'done' ? this.#c.curation.agentOf(input.to) : undefined
    if (heir !== undefined) await this.#c.prunes.handOver(space, heir, options)
    return done
  }

  tombstone(input: { name: string; curator: LocalAgent }, options: PublishOptions = {}): Promise<void> {
    return this.#c.curation.tombstone(input, options)
  }

  join(input: JoinInput, options: PublishOptions = {}): ReturnType<Spaces['join']> {
    return this.#c.membership.join(input, options)
  }

  leave(input: { name: string; agent: LocalAgent }, options: PublishOptions = {}): Promise<void> {
    return this.#c.membership.leave(input, options)
  }

  async prune(input: Parameters<Spaces['prune']>[0], options: PublishOptions = {}): ReturnType<Spaces['prune']> {
    const { name, curator, member, untilMs } = input
    return await this.#c.prunes.prune(this.#c.curation.curated(name, curator), curator, member, untilMs, options)
  }

  async handOver(from: LocalAgent, to: LocalAgent, options: PublishOptions = {}): Promise<void> {
    const { own, curation, membership, prunes } = this.#c
    const mine = own.all().filter((space) => equals(space.eid, from.eid))
    for (const space of mine) {
      if (space.role !== 'curator') continue
      await curation.handOver(space, from, to, options)
      await prunes.handOver(space, to, options)
    }
    for (const space of mine) if (space.role === 'member') await membership.handOver(space, from, to, options)
  }

  find(query: FindQuery, options: PublishOptions = {}): ReturnType<Spaces['find']> {
    return this.#pages.find(query, options)
  }

  show(name: string, options: PublishOptions = {}): ReturnType<Spaces['show']> {
    return showSpace(this.#c, name, options)
  }

  async trust({ name, curator }: { name: string; curator: Eid | 'nobody' }): Promise<void> {
    const dsid = dsId(this.#c.crypto, checkedName(name))
    if (curator === 'nobody') await this.#c.curators.forget(dsid)
    else await this.#c.curators.replace(dsid, curator)
  }

  joins(): JoinRecord[] {
    const nowMs = this.#c.clock.nowMs()
    return this.#c.own
      .all()
      .flatMap((space) => (space.role === 'member' ? [space.record] : []))
      .filter((record) => record.payload.gone !== true && recordExpiresAtMs(record) > nowMs)
  }

  async list(): Promise<OwnSpaceView[]> {
    return this.#c.own
      .all()
      .filter((space) => space.record.payload.gone !== true)
      .map((space) => this.#view(space))
  }

  #view(space: OwnSpace): OwnSpaceView {
    const offeredTo = space.role === 'curator' ? this.#c.curation.offeredTo(space) : undefined
    const state =
      space.role === 'member' ? (this.#c.follower.state(space.id) ?? { space: 'unchecked' as const }) : { space: 'announced' as const }
    return {
      role: space.role,
      agent: eidToDid(space.eid),
      name: nameText(space.name),
      dsid: toHex(space.dsid),
      curator: eidToDid(space.record.payload.curator),
      shards: space.shards,
      refreshedAtMs: space.record.payload.ts * 1_000,
      expiresAtMs: recordExpiresAtMs(space.record),
      listing: space.role === 'member' && space.record.payload.unlisted === true ? 'unlisted' : 'listed',
      ...state,
      ...(offeredTo === undefined ? {} : { offeredTo: eidToDid(offeredTo) })
    }
  }

  counts(): { curator: number; member: number } {
    const counts = { curator: 0, member: 0 }
    for (const space of this.#c.own.all()) if (space.record.payload.gone !== true) counts[space.role]++
    return counts
  }

  upkeep(): UpkeepStats {
    return this.#c.refresher.stats()
  }

  async idle(): Promise<void> {
    await this.#c.refresher.idle()
    await this.#c.census.idle()
  }

  async stop({ withdraw }: { withdraw: 'yes' | 'no' } = { withdraw: 'no' }): Promise<void> {
    this.#unsubscribe()
    await Promise.all([this.#c.refresher.stop(), this.#c.census.stop()])
    if (withdraw === 'no') return
    const spaces = this.#c.own.all()
    let told = 0
    let failure: unknown
    await withDeadline(this.#c.clock, WITHDRAW_MS, undefined, async (signal) => {
      await eachOf(spaces, WITHDRAW_AT_ONCE, async (space) => {
        if (signal.aborted) return
        try {
          await this.#c.upkeep.withdraw(space, signal)
          told++
        } catch (error) {
          failure ??= error
        }
      })
    })
    if (told < spaces.length) {
      this.#c.logger.warn({ told, of: spaces.length, error: failure }, 'not every withdrawal was told; the rest expires by itself')
    }
  }
}

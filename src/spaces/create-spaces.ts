import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { dsId, parseSpaceName, type SpaceName } from '../../protocol/discovery/names.ts'
import { type EidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { type AnnounceRecord, POLICY_OPEN, type SpaceLink } from '../../protocol/records/announce.ts'
import { recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Store } from '../store/store.ts'
import type { NetworkKind } from './address-scope.ts'
import { CuratorMemory } from './curators.ts'
import { withDeadline } from './deadline.ts'
import { checkedInput, NAME_REMEDY } from './input.ts'
import { OwnSpaceSigner } from './own-space-signer.ts'
import { OwnSpaceUpkeep } from './own-space-upkeep.ts'
import { nameText, type OwnAnnounce, type OwnJoin, type OwnSpace, OwnSpaces, ownId } from './own-spaces.ts'
import { Refresher } from './refresher.ts'
import type { RegistryClient } from './registry-client.ts'
import { SequenceBook } from './sequence-book.ts'
import { createSpacePublisher } from './space-publisher.ts'
import { checkedDescription, checkedSeeds, checkPin, notJoined, unknownPolicy, unknownSpace, versionPassed } from './space-refusals.ts'
import { contestedError, createSpaceSearch, memberView, type SpaceSearch, spaceView } from './space-search.ts'
import type { FindQuery, FindResult, MemberView, PublishOptions, Spaces, SpaceView } from './spaces.ts'

/** What a stop may spend on telling others. */
const WITHDRAW_MS = 3_000

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
  const upkeep = new OwnSpaceUpkeep({ ...components, own, sequences, signer, publisher, refresher })
  const search = createSpaceSearch({ ...components, curators }, { network })
  const spaces = new NodeSpaces({ ...components, logger, curators, own, signer, upkeep, search, refresher })
  await upkeep.resume()
  return spaces
}

interface Parts extends Pick<SpacesComponents, 'host' | 'crypto' | 'clock' | 'logger'> {
  curators: CuratorMemory
  own: OwnSpaces
  signer: OwnSpaceSigner
  upkeep: OwnSpaceUpkeep
  search: SpaceSearch
  refresher: Refresher
}

class NodeSpaces implements Spaces {
  readonly #c: Parts
  readonly #unsubscribe: () => void

  constructor(parts: Parts) {
    this.#c = parts
    this.#unsubscribe = parts.host.onPeer(({ kind }) => {
      if (kind === 'connect') parts.refresher.peersArrived()
    })
  }

  async announce(
    input: { name: string; curator: LocalAgent; description?: string; seeds?: string[] },
    options: PublishOptions = {}
  ): Promise<SpaceView & { registrars: number; stored: number }> {
    const { crypto, own, search } = this.#c
    const name = checkedInput('name', input.name, NAME_REMEDY, () => parseSpaceName(input.name))
    const { curator } = input
    checkPin(name, curator)
    const description = checkedDescription(input.description ?? '')
    const seeds = checkedSeeds(input.seeds ?? [])
    const dsid = dsId(crypto, name)
    const id = ownId('curator', curator.eid, dsid)
    options.onProgress?.('looking up')
    const [older, { candidates }] = await Promise.all([
      this.#olderVersion(name, curator, options),
      search.announcements(dsid, options),
      this.#c.signer.lookUpInDht(id, { role: 'curator', eid: curator.eid, dsid }, options)
    ])
    for (const { record } of candidates) if (equals(record.payload.curator, curator.eid)) this.#c.signer.raise(id, record.payload.seq)
    const contested = candidates.some(({ record }) => record.payload.gone !== true && !equals(record.payload.curator, curator.eid))
    if (older !== undefined) await this.#supersede(older, curator, { eid: curator.eid, ver: name.version }, options)
    const what = {
      ns: name.ns,
      topic: name.topic,
      ver: name.version,
      desc: description,
      curator: curator.eid,
      ...(older === undefined ? {} : { prev: { eid: curator.eid, ver: older.payload.ver } }),
      seeds,
      policy: POLICY_OPEN,
      shards: 1
    }
    const space = await this.#c.upkeep.renew(id, async () =>
      own.announceOf(name, await this.#c.signer.announce(id, curator, what, options.signal))
    )
    await this.#c.curators.remember(dsid, curator.eid)
    const published = await this.#c.upkeep.publish(space, curator, options)
    return { ...spaceView(crypto, space.record, contested), registrars: published.registrars, stored: published.stored }
  }

  /** The highest live lower version of our own. @throws RookeryError `SPACE_VERSION` when a higher one is known (DS-04) */
  async #olderVersion(name: SpaceName, curator: LocalAgent, options: PublishOptions): Promise<AnnounceRecord | undefined> {
    const { records } = await this.#c.search.children(name.ns, name.topic, { ...options, curator: curator.eid })
    const held = this.#c.own.all().filter((space) => space.role === 'curator')
    const ours = [...records, ...held.map((space) => space.record)].filter(
      ({ payload }) => payload.ns === name.ns && payload.topic === name.topic && equals(payload.curator, curator.eid)
    )
    const highest = Math.max(0, ...ours.map(({ payload }) => payload.ver))
    if (highest > name.version) throw versionPassed(name, highest, curator)
    return ours
      .filter(({ payload }) => payload.gone !== true && payload.ver < name.version)
      .sort((a, b) => b.payload.ver - a.payload.ver || b.payload.seq - a.payload.seq)[0]
  }

  /** Marks the old version gone with a pointer to the new one; the old record goes out first (protocol/README.md §3, G-22). */
  async #supersede(older: AnnounceRecord, curator: LocalAgent, next: SpaceLink, options: PublishOptions): Promise<void> {
    const { own, crypto } = this.#c
    const { ns, topic, ver } = older.payload
    const name = { ns, topic, version: ver } as SpaceName
    const id = ownId('curator', curator.eid, dsId(crypto, name))
    this.#c.signer.raise(id, older.payload.seq)
    const space = await this.#c.upkeep.renew(id, async () =>
      own.announceOf(name, await this.#c.signer.announceGone(id, curator, older.payload, options.signal, next))
    )
    await this.#c.upkeep.publish(space, curator, options.signal === undefined ? {} : { signal: options.signal })
  }

  async join(
    input: { name: string; agent: LocalAgent; tags?: string[] },
    options: PublishOptions = {}
  ): Promise<MemberView & { registrars: number; stored: number }> {
    const { crypto, own, search, curators } = this.#c
    const name = checkedInput('name', input.name, NAME_REMEDY, () => parseSpaceName(input.name))
    const { agent } = input
    const dsid = dsId(crypto, name)
    const tags = [...new Set(input.tags ?? [])]
    const id = ownId('member', agent.eid, dsid)
    options.onProgress?.('looking up')
    const first = this.#c.signer.seen(id) === undefined
    const [{ candidates }] = await Promise.all([
      search.announcements(dsid, options),
      this.#c.signer.lookUpInDht(id, { role: 'member', eid: agent.eid, dsid }, options)
    ])
    const choice = await search.choose(name, candidates)
    if (choice.kind === 'tie') throw contestedError(name, choice.candidates)
    if (choice.kind === 'none') throw unknownSpace(name, choice.moved?.version)
    const announce = choice.candidate.record.payload
    if (announce.policy !== POLICY_OPEN) throw unknownPolicy(name, announce.policy)
    if (first) await this.#c.signer.lookUpAtRegistrars(id, { role: 'member', eid: agent.eid, name, dsid, shards: announce.shards }, options)
    const payload = { dsid, eid: agent.eid, curator: announce.curator, tags, mode: agent.reachability.mode }
    const space = await this.#c.upkeep.renew(id, async () =>
      own.joinOf(name, await this.#c.signer.join(id, agent, payload, options.signal), announce.shards)
    )
    if (!choice.contested) await curators.remember(dsid, announce.curator)
    const published = await this.#c.upkeep.publish(space, agent, options)
    return { ...memberView(space.record, name, []), registrars: published.registrars, stored: published.stored }
  }

  async leave(input: { name: string; agent: LocalAgent }, options: PublishOptions = {}): Promise<void> {
    const name = checkedInput('name', input.name, NAME_REMEDY, () => parseSpaceName(input.name))
    const dsid = dsId(this.#c.crypto, name)
    const spaces = (['member', 'curator'] as const)
      .map((role) => this.#c.own.get(ownId(role, input.agent.eid, dsid)))
      .filter((space) => space !== undefined && space.record.payload.gone !== true) as OwnSpace[]
    if (spaces.length === 0) throw notJoined(name, input.agent)
    for (const space of spaces) {
      const gone = await this.#c.upkeep.renew(space.id, () =>
        this.#c.signer.gone(this.#c.own.get(space.id) ?? space, input.agent, options.signal)
      )
      await this.#c.upkeep.publish(gone, input.agent, options)
    }
  }

  async handOver(from: LocalAgent, to: LocalAgent, options: PublishOptions = {}): Promise<void> {
    const mine = this.#c.own.all().filter((space) => equals(space.eid, from.eid))
    for (const space of mine) if (space.role === 'curator') await this.#handOverSpace(space, from, to, options)
    for (const space of mine) if (space.role === 'member') await this.#handOverJoin(space, from, to, options)
  }

  /** Both records are on disk before either is published, so that a crash between them loses neither. */
  async #handOverSpace(space: OwnAnnounce, from: LocalAgent, to: LocalAgent, options: PublishOptions): Promise<void> {
    const { own, curators } = this.#c
    const { payload } = space.record
    const next = { eid: to.eid, ver: payload.ver }
    if (payload.gone === true && !(payload.next !== undefined && equals(payload.next.eid, to.eid))) return
    const id = ownId('curator', to.eid, space.dsid)
    const old =
      payload.gone === true
        ? space
        : await this.#c.upkeep.renew(space.id, async () =>
            own.announceOf(space.name, await this.#c.signer.announceGone(space.id, from, payload, options.signal, next))
          )
    const { ns, topic, ver, desc, policy, shards, seeds } = payload
    const what = { ns, topic, ver, desc, curator: to.eid, prev: { eid: from.eid, ver }, seeds, policy, shards }
    const held = own.get(id)
    const heir =
      held ??
      (await this.#c.upkeep.renew(id, async () => own.announceOf(space.name, await this.#c.signer.announce(id, to, what, options.signal))))
    await curators.remember(space.dsid, to.eid)
    await this.#c.upkeep.publish(old, from, options)
    await this.#c.upkeep.publish(heir, to, options)
  }

  async #handOverJoin(space: OwnJoin, from: LocalAgent, to: LocalAgent, options: PublishOptions): Promise<void> {
    const { own } = this.#c
    const { dsid, curator, tags, gone } = space.record.payload
    if (gone === true) return
    const id = ownId('member', to.eid, dsid)
    const what = { dsid, eid: to.eid, curator: equals(curator, from.eid) ? to.eid : curator, tags, mode: to.reachability.mode }
    const again = await this.#c.upkeep.renew(id, async () =>
      own.joinOf(space.name, await this.#c.signer.join(id, to, what, options.signal), space.shards)
    )
    await this.#c.upkeep.publish(again, to, options)
    const old = await this.#c.upkeep.renew(space.id, () => this.#c.signer.gone(own.get(space.id) ?? space, from, options.signal))
    await this.#c.upkeep.publish(old, from, options)
  }

  find(query: FindQuery, options: PublishOptions = {}): Promise<FindResult> {
    return this.#c.search.find(query, options)
  }

  async list(): ReturnType<Spaces['list']> {
    return this.#c.own
      .all()
      .filter((space) => space.record.payload.gone !== true)
      .map((space) => ({
        role: space.role,
        agent: eidToDid(space.eid),
        name: nameText(space.name),
        dsid: toHex(space.dsid),
        refreshedAtMs: space.record.payload.ts * 1_000,
        expiresAtMs: recordExpiresAtMs(space.record)
      }))
  }

  idle(): Promise<void> {
    return this.#c.refresher.idle()
  }

  async stop({ withdraw }: { withdraw: 'yes' | 'no' } = { withdraw: 'no' }): Promise<void> {
    this.#unsubscribe()
    await this.#c.refresher.stop()
    if (withdraw === 'no') return
    try {
      await withDeadline(this.#c.clock, WITHDRAW_MS, undefined, async (signal) => {
        await Promise.all(this.#c.own.all().map((space) => this.#c.upkeep.withdraw(space, signal)))
      })
    } catch (error) {
      this.#c.logger.warn({ error }, 'not every withdrawal was told; the rest expires by itself')
    }
  }
}

import { equals, toHex, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { dsId, parseSpaceName, type SpaceName } from '../../protocol/discovery/names.ts'
import { type EidHex, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import {
  ANNOUNCE_TTL_SEC,
  type Announce,
  type AnnounceRecord,
  announceTombstone,
  announceType,
  DESC_BYTES_MAX,
  POLICY_OPEN,
  SEEDS_MAX,
  type SpaceLink
} from '../../protocol/records/announce.ts'
import { buildRecord, recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, type Join, joinTombstone, joinType } from '../../protocol/records/join.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Store } from '../store/store.ts'
import { type NetworkKind, seedTarget } from './address-scope.ts'
import { CuratorMemory } from './curators.ts'
import { withDeadline } from './deadline.ts'
import { checkedInput, NAME_REMEDY } from './input.ts'
import { KeyLock } from './key-lock.ts'
import { nameText, type OwnAnnounce, type OwnJoin, type OwnSpace, OwnSpaces, ownId } from './own-spaces.ts'
import { type Refreshed, Refresher } from './refresher.ts'
import type { RegistryClient } from './registry-client.ts'
import { SequenceBook } from './sequence-book.ts'
import { createSpacePublisher, type Published, type SpacePublisher } from './space-publisher.ts'
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
  const spaces = new NodeSpaces({
    ...components,
    logger,
    network,
    curators,
    own: await OwnSpaces.open(components.store, components.crypto),
    sequences: new SequenceBook(components.store, components.clock),
    publisher: createSpacePublisher({ ...components, logger }),
    search: createSpaceSearch({ ...components, curators }, { network }),
    refresher: new Refresher({ ...components, logger })
  })
  await spaces.resume()
  return spaces
}

interface Parts extends SpacesComponents {
  network: NetworkKind
  curators: CuratorMemory
  own: OwnSpaces
  sequences: SequenceBook
  publisher: SpacePublisher
  search: SpaceSearch
  refresher: Refresher
}

class NodeSpaces implements Spaces {
  readonly #c: Parts
  /** the highest number of ours found in the network, by own id; asked once in a run, one entry for each space of our own agents */
  readonly #seen = new Map<string, number>()
  readonly #locks = new KeyLock()
  readonly #unsubscribe: () => void

  constructor(parts: Parts) {
    this.#c = parts
    this.#unsubscribe = parts.host.onPeer(({ kind }) => {
      if (kind === 'connect') parts.refresher.peersArrived()
    })
  }

  async resume(): Promise<void> {
    for (const space of this.#c.own.all()) {
      const last = await this.#c.sequences.last(space.id)
      // a withdrawal at the last stop used a higher number than the record on disk
      const stale = last !== space.record.payload.seq && space.record.payload.gone !== true
      this.#keep(space, { signedAtMs: stale ? Number.NEGATIVE_INFINITY : space.record.payload.ts * 1_000, coverage: 'none' })
    }
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
      this.#lookUpInDht(id, { role: 'curator', eid: curator.eid, dsid }, options)
    ])
    for (const { record } of candidates) if (equals(record.payload.curator, curator.eid)) this.#raiseSeen(id, record.payload.seq)
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
    const space = await this.#renew(id, async () => own.announceOf(name, await this.#signAnnounce(id, curator, what, options.signal)))
    await this.#c.curators.remember(dsid, curator.eid)
    const published = await this.#publish(space, curator, options)
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
    if (highest > name.version) {
      throw new RookeryError(
        'SPACE_VERSION',
        `${curator.name} already announced version ${highest} of ${name.ns}/${name.topic}; versions only go up`,
        {
          kind: 'conflict',
          field: 'name',
          value: nameText(name),
          remedy: `announce ${name.ns}/${name.topic}@${highest} again or a higher version`
        }
      )
    }
    return ours
      .filter(({ payload }) => payload.gone !== true && payload.ver < name.version)
      .sort((a, b) => b.payload.ver - a.payload.ver || b.payload.seq - a.payload.seq)[0]
  }

  /** Marks the old version gone with a pointer to the new one; the old record goes out first (wire.md §3, G-22). */
  async #supersede(older: AnnounceRecord, curator: LocalAgent, next: SpaceLink, options: PublishOptions): Promise<void> {
    const { own, crypto } = this.#c
    const { ns, topic, ver } = older.payload
    const name = { ns, topic, version: ver } as SpaceName
    const id = ownId('curator', curator.eid, dsId(crypto, name))
    this.#raiseSeen(id, older.payload.seq)
    const space = await this.#renew(id, async () =>
      own.announceOf(name, await this.#announceGone(id, curator, older.payload, options.signal, next))
    )
    await this.#publish(space, curator, options.signal === undefined ? {} : { signal: options.signal })
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
    const first = this.#seen.get(id) === undefined
    const [{ candidates }] = await Promise.all([
      search.announcements(dsid, options),
      this.#lookUpInDht(id, { role: 'member', eid: agent.eid, dsid }, options)
    ])
    const choice = await search.choose(name, candidates)
    if (choice.kind === 'tie') throw contestedError(name, choice.candidates)
    if (choice.kind === 'none') throw unknownSpace(name, choice.moved?.version)
    const announce = choice.candidate.record.payload
    if (announce.policy !== POLICY_OPEN) {
      throw new RookeryError('SPACE_POLICY', `${nameText(name)} has the policy "${announce.policy}", which this version does not know`, {
        kind: 'refused',
        field: 'name',
        value: nameText(name)
      })
    }
    if (first) await this.#lookUpAtRegistrars(id, { role: 'member', eid: agent.eid, name, dsid, shards: announce.shards }, options)
    const payload = { dsid, eid: agent.eid, curator: announce.curator, tags, mode: agent.reachability.mode }
    const space = await this.#renew(id, async () =>
      own.joinOf(name, await this.#signJoin(id, agent, payload, options.signal), announce.shards)
    )
    if (!choice.contested) await curators.remember(dsid, announce.curator)
    const published = await this.#publish(space, agent, options)
    return { ...memberView(space.record, name, []), registrars: published.registrars, stored: published.stored }
  }

  async leave(input: { name: string; agent: LocalAgent }, options: PublishOptions = {}): Promise<void> {
    const name = checkedInput('name', input.name, NAME_REMEDY, () => parseSpaceName(input.name))
    const dsid = dsId(this.#c.crypto, name)
    const spaces = (['member', 'curator'] as const)
      .map((role) => this.#c.own.get(ownId(role, input.agent.eid, dsid)))
      .filter((space) => space !== undefined && space.record.payload.gone !== true) as OwnSpace[]
    if (spaces.length === 0) {
      throw new RookeryError('SPACE_NOT_JOINED', `${input.agent.name} has neither joined nor announced ${nameText(name)}`, {
        kind: 'notFound',
        field: 'name',
        value: nameText(name),
        remedy: '`rookery space list` shows what it has'
      })
    }
    for (const space of spaces) {
      const gone = await this.#renew(space.id, () => this.#goneOf(this.#c.own.get(space.id) ?? space, input.agent, options.signal))
      await this.#publish(gone, input.agent, options)
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
        : await this.#renew(space.id, async () =>
            own.announceOf(space.name, await this.#announceGone(space.id, from, payload, options.signal, next))
          )
    const { ns, topic, ver, desc, policy, shards, seeds } = payload
    const what = { ns, topic, ver, desc, curator: to.eid, prev: { eid: from.eid, ver }, seeds, policy, shards }
    const held = own.get(id)
    const heir =
      held ?? (await this.#renew(id, async () => own.announceOf(space.name, await this.#signAnnounce(id, to, what, options.signal))))
    await curators.remember(space.dsid, to.eid)
    await this.#publish(old, from, options)
    await this.#publish(heir, to, options)
  }

  async #handOverJoin(space: OwnJoin, from: LocalAgent, to: LocalAgent, options: PublishOptions): Promise<void> {
    const { own } = this.#c
    const { dsid, curator, tags, gone } = space.record.payload
    if (gone === true) return
    const id = ownId('member', to.eid, dsid)
    const what = { dsid, eid: to.eid, curator: equals(curator, from.eid) ? to.eid : curator, tags, mode: to.reachability.mode }
    const again = await this.#renew(id, async () =>
      own.joinOf(space.name, await this.#signJoin(id, to, what, options.signal), space.shards)
    )
    await this.#publish(again, to, options)
    const old = await this.#renew(space.id, () => this.#goneOf(own.get(space.id) ?? space, from, options.signal))
    await this.#publish(old, from, options)
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

  /** Puts and goes on refreshing; signs once more where a registrar holds a higher number of ours. */
  async #publish(space: OwnSpace, agent: LocalAgent, options: PublishOptions): Promise<Published> {
    this.#c.refresher.forget(space.id)
    let current = space
    let published: Published | undefined
    try {
      published = await this.#c.publisher.publish(current, options)
      if (published.seen > current.record.payload.seq) {
        this.#raiseSeen(space.id, published.seen)
        current = await this.#again(current, agent, options.signal)
        published = await this.#c.publisher.publish(current, options)
      }
      return published
    } finally {
      await this.#afterPut(current, published)
    }
  }

  /** A tombstone that lies everywhere, or that nobody needs any more, is done with. */
  async #afterPut(space: OwnSpace, published: Published | undefined): Promise<void> {
    const gone = space.record.payload.gone === true
    if (gone && published?.coverage === 'full') await this.#removeIfSame(space)
    else this.#keep(space, { signedAtMs: space.record.payload.ts * 1_000, coverage: published?.coverage ?? 'partial' })
  }

  #keep(space: OwnSpace, state: { signedAtMs: number; coverage: 'full' | 'partial' | 'none' }): void {
    const ttlMs = (space.role === 'curator' ? ANNOUNCE_TTL_SEC : JOIN_TTL_SEC) * 1_000
    this.#c.refresher.keep(space.id, {
      ttlMs,
      ...state,
      sign: (signal) => this.#refresh(space.id, 'sign', signal),
      put: (signal) => this.#refresh(space.id, 'put', signal)
    })
  }

  async #refresh(id: string, verb: 'sign' | 'put', signal: AbortSignal): Promise<Refreshed> {
    const { own, agents, publisher, clock } = this.#c
    const forget: Refreshed = { signedAtMs: 0, coverage: 'full', next: 'forget' }
    let space = own.get(id)
    if (space === undefined) return forget
    const agent = agents(eidHex(space.eid))
    const gone = space.record.payload.gone === true
    if (agent === undefined || (gone && recordExpiresAtMs(space.record) <= clock.nowMs())) {
      await own.remove(id)
      return forget
    }
    await this.#lookUpSeen(id, space, { signal })
    const behind = (this.#seen.get(id) ?? -1) > space.record.payload.seq
    const expired = recordExpiresAtMs(space.record) <= clock.nowMs()
    if ((verb === 'sign' && !gone) || behind || expired) space = await this.#again(space, agent, signal)
    const published = await publisher.publish(space, { signal })
    this.#raiseSeen(id, published.seen)
    if (gone && published.coverage === 'full') {
      await this.#removeIfSame(space)
      return forget
    }
    return { signedAtMs: space.record.payload.ts * 1_000, coverage: published.coverage }
  }

  /** The same again under a new number, in the agent's present mode; whatever it is by the time of signing. */
  async #again(space: OwnSpace, agent: LocalAgent, signal: AbortSignal | undefined): Promise<OwnSpace> {
    return await this.#renew(space.id, () => {
      const now = this.#c.own.get(space.id) ?? space
      return now.record.payload.gone === true ? this.#goneOf(now, agent, signal) : this.#aliveOf(now, agent, signal)
    })
  }

  /** Signs and saves, one at a time for each own id: a refresh never overtakes what its owner just changed. */
  async #renew<T extends OwnSpace>(id: string, sign: () => Promise<T>): Promise<T> {
    return await this.#locks.run(id, async () => {
      const space = await sign()
      await this.#c.own.save(space)
      return space
    })
  }

  async #removeIfSame(space: OwnSpace): Promise<void> {
    await this.#locks.run(space.id, async () => {
      if (this.#c.own.get(space.id) === space) await this.#c.own.remove(space.id)
    })
  }

  async #aliveOf(space: OwnSpace, agent: LocalAgent, signal: AbortSignal | undefined): Promise<OwnSpace> {
    const { own } = this.#c
    if (space.role === 'curator') return own.announceOf(space.name, await this.#signAnnounce(space.id, agent, space.record.payload, signal))
    const { dsid, eid, curator, tags } = space.record.payload
    const payload = { dsid, eid, curator, tags, mode: agent.reachability.mode }
    return own.joinOf(space.name, await this.#signJoin(space.id, agent, payload, signal), space.shards)
  }

  async #goneOf(space: OwnSpace, agent: LocalAgent, signal: AbortSignal | undefined): Promise<OwnSpace> {
    const { own, crypto } = this.#c
    if (space.role === 'curator') return own.announceOf(space.name, await this.#announceGone(space.id, agent, space.record.payload, signal))
    const seq = await this.#number(space.id, signal)
    const payload = joinTombstone(space.record.payload, { seq, nowSec: this.#nowSec() })
    return own.joinOf(space.name, buildRecord(crypto, joinType, payload, agent.signer), space.shards)
  }

  async #announceGone(
    id: string,
    agent: LocalAgent,
    last: Announce,
    signal: AbortSignal | undefined,
    next?: SpaceLink
  ): Promise<AnnounceRecord> {
    const seq = await this.#number(id, signal)
    const payload = announceTombstone(last, { seq, nowSec: this.#nowSec(), ...(next === undefined ? {} : { next }) })
    return buildRecord(this.#c.crypto, announceType, payload, agent.signer)
  }

  async #signAnnounce(
    id: string,
    curator: LocalAgent,
    what: Omit<Announce, 'seq' | 'ts' | 'exp' | 'gone'>,
    signal: AbortSignal | undefined
  ): Promise<OwnAnnounce['record']> {
    const seq = await this.#number(id, signal)
    const ts = this.#nowSec()
    return buildRecord(this.#c.crypto, announceType, { ...what, seq, ts, exp: ts + ANNOUNCE_TTL_SEC }, curator.signer)
  }

  async #signJoin(
    id: string,
    agent: LocalAgent,
    what: Omit<Join, 'seq' | 'ts' | 'exp' | 'gone'>,
    signal: AbortSignal | undefined
  ): Promise<OwnJoin['record']> {
    const seq = await this.#number(id, signal)
    const ts = this.#nowSec()
    const payload = { ...what, seq, ts, exp: ts + JOIN_TTL_SEC }
    return checkedInput('tags', what.tags, 'at most 16 tags of 1 to 64 printable ASCII characters, 768 bytes with the rest', () =>
      buildRecord(this.#c.crypto, joinType, payload, agent.signer)
    )
  }

  #number(id: string, signal: AbortSignal | undefined): Promise<number> {
    return this.#c.sequences.next(id, this.#seen.get(id) ?? -1, signal)
  }

  #nowSec(): number {
    return Math.floor(this.#c.clock.nowMs() / 1_000)
  }

  /** Once in a run, before the first signature: what the network holds of ours. */
  async #lookUpSeen(id: string, space: OwnSpace, options: PublishOptions): Promise<void> {
    if (this.#seen.has(id)) return
    await Promise.all([this.#lookUpInDht(id, space, options), this.#lookUpAtRegistrars(id, space, options)])
  }

  async #lookUpInDht(id: string, space: Pick<OwnSpace, 'role' | 'eid' | 'dsid'>, { signal }: PublishOptions): Promise<void> {
    if (this.#seen.has(id)) return
    this.#raiseSeen(id, await this.#c.publisher.seenInDht(space, signal === undefined ? {} : { signal }))
  }

  async #lookUpAtRegistrars(
    id: string,
    space: Pick<OwnSpace, 'role' | 'eid' | 'name' | 'dsid' | 'shards'>,
    { signal }: PublishOptions
  ): Promise<void> {
    this.#raiseSeen(id, await this.#c.publisher.seenAtRegistrars(space, signal === undefined ? {} : { signal }))
  }

  #raiseSeen(id: string, seen: number): void {
    this.#seen.set(id, Math.max(seen, this.#seen.get(id) ?? -1))
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
        await Promise.all(this.#c.own.all().map((space) => this.#withdraw(space, signal)))
      })
    } catch (error) {
      this.#c.logger.warn({ error }, 'not every withdrawal was told; the rest expires by itself')
    }
  }

  /** Tells others, but keeps the row as it is: the next start joins and announces again under a higher number. */
  async #withdraw(space: OwnSpace, signal: AbortSignal): Promise<void> {
    const agent = this.#c.agents(eidHex(space.eid))
    if (agent === undefined) return
    const gone = space.record.payload.gone === true ? space : await this.#goneOf(space, agent, signal)
    await this.#c.publisher.publish(gone, { signal })
  }
}

function checkPin(name: SpaceName, curator: LocalAgent): void {
  if (name.pin === undefined || equals(name.pin, curator.eid)) return
  throw new RookeryError('SPACE_PIN', `the name pins another curator than ${curator.name}`, {
    kind: 'usage',
    field: 'name',
    value: eidToDid(name.pin),
    remedy: `leave the pin out, or write #${curator.did}`
  })
}

function checkedDescription(text: string): string {
  const length = utf8(text).length
  if (length <= DESC_BYTES_MAX) return text
  throw new RookeryError('DESCRIPTION_TOO_LONG', `the description has ${length} bytes, at most ${DESC_BYTES_MAX} fit into the record`, {
    kind: 'usage',
    field: 'description',
    value: `${text.slice(0, 40)}…`,
    remedy: 'shorten it; the record only has to tell people what the space is'
  })
}

function checkedSeeds(seeds: readonly string[]): string[] {
  if (seeds.length > SEEDS_MAX) {
    throw new RookeryError('SEEDS_TOO_MANY', `${seeds.length} seeds, at most ${SEEDS_MAX} fit into the record`, {
      kind: 'usage',
      field: 'seeds',
      value: seeds.length
    })
  }
  for (const [i, seed] of seeds.entries()) {
    if (seed.length <= 128 && seedTarget(seed, 'lan') !== undefined) continue
    throw new RookeryError('SEED_INVALID', `seeds[${i}] is no multiaddr that ends with a PeerId`, {
      kind: 'usage',
      field: `seeds[${i}]`,
      value: seed.slice(0, 200),
      remedy: 'write it like /ip4/203.0.113.7/udp/4001/quic-v1/p2p/12D3Koo…'
    })
  }
  return [...seeds]
}

function unknownSpace(name: SpaceName, movedTo: number | undefined): RookeryError {
  const pinned = name.pin === undefined ? '' : ' by the pinned curator'
  return new RookeryError('SPACE_UNKNOWN', `nobody has announced ${nameText(name)}${pinned}, or it has expired or was withdrawn`, {
    kind: 'notFound',
    field: 'name',
    value: nameText(name),
    remedy:
      movedTo === undefined
        ? `announce it first: rookery space announce ${nameText(name)}`
        : `its curator went on to version ${movedTo}: join ${name.ns}/${name.topic}@${movedTo}`,
    ...(movedTo === undefined ? {} : { data: { movedToVersion: movedTo } })
  })
}

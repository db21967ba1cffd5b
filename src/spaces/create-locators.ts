import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { locatorKey } from '../../protocol/discovery/dht-key.ts'
import { type Eid, type EidHex, eidHex, eid as eidOf, eidToDid } from '../../protocol/identity/eid.ts'
import { buildRecord, decodeRecord, recordExpiresAtMs, recordIsAhead } from '../../protocol/records/envelope.ts'
import {
  ADDR,
  ADDR_BYTES_MAX,
  LOCATOR_ADDRS_MAX,
  LOCATOR_KEEPERS_MAX,
  LOCATOR_TTL_SEC,
  type Locator,
  type LocatorRecord,
  locatorTombstone,
  locatorType
} from '../../protocol/records/locator.ts'
import { RookeryError } from '../errors.ts'
import type { RecordEvidence } from '../evidence/evidence.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host } from '../net/host.ts'
import { transportOf } from '../net/multiaddrs.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { bytesCodec, type Store, type Table } from '../store/store.ts'
import { type NetworkKind, reachableAddrs } from './address-scope.ts'
import { dhtRecords } from './dht-records.ts'
import { type Refreshed, Refresher } from './refresher.ts'
import { SeenRecords } from './seen-records.ts'
import { SequenceBook } from './sequence-book.ts'
import type { Locators, LocatorView, PublishOptions } from './spaces.ts'

/** Addresses change in bursts: the new ones are published this long after the first of them, */
const ADDRESSES_SETTLE_MS = 1_000
/** and not more often than this. */
const ADDRESSES_AGAIN_MS = 10_000

export interface LocatorsComponents {
  host: Host
  store: Store
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  /** the agents of this node, as they are at the moment of asking */
  agents: (eidHex: EidHex) => LocalAgent | undefined
  /** who holds mail for an agent of ours while this host is away; default: nobody */
  keepers?: (agent: LocalAgent) => readonly Eid[]
  /** who an EID of ours, or one that a session showed us, gave way to */
  successor?: (eid: Eid) => Eid | undefined
  /** hears of the locators that look-ups bring, and of two that contradict each other */
  evidence?: RecordEvidence
}

/** Opens the locators that our agents published before and keeps them alive from now on. */
export async function createLocators(
  components: LocatorsComponents,
  init: { network?: NetworkKind } = {}
): Promise<Locators & { idle(): Promise<void> }> {
  const logger = components.logger.child('locators')
  const cache = await SeenRecords.locators(components.store, logger)
  const refresher = new Refresher({ ...components, logger })
  const locators = new NodeLocators({ ...components, logger, refresher, cache }, init.network ?? 'lan')
  await locators.resume()
  return locators
}

class NodeLocators implements Locators {
  readonly #c: LocatorsComponents & { refresher: Refresher; cache: SeenRecords<'locator', Locator> }
  readonly #network: NetworkKind
  readonly #sequences: SequenceBook
  readonly #table: Table<Uint8Array>
  /** what our own agents published last; as many as there are agents */
  readonly #own = new Map<EidHex, LocatorRecord>()
  readonly #cache: SeenRecords<'locator', Locator>
  /** the highest generation of ours found in the network; asked once in a run */
  readonly #seen = new Map<EidHex, number>()
  readonly #locks = new KeyedLock()
  readonly #newerListeners = new Set<(eid: Eid, view: LocatorView) => void>()
  readonly #unsubscribe: (() => void)[]
  #cancelSettle: (() => void) | undefined
  #publishedAddrsAtMs = Number.NEGATIVE_INFINITY

  constructor(components: LocatorsComponents & { refresher: Refresher; cache: SeenRecords<'locator', Locator> }, network: NetworkKind) {
    this.#c = components
    this.#cache = components.cache
    this.#network = network
    this.#sequences = new SequenceBook(components.store, components.clock)
    this.#table = components.store.table('own-locators', bytesCodec)
    this.#unsubscribe = [
      components.host.onAddressesChanged(() => this.#addressesChanged()),
      components.host.onPeer(({ kind }) => {
        if (kind === 'connect') components.refresher.peersArrived()
      })
    ]
  }

  async resume(): Promise<void> {
    for await (const [name, bytes] of this.#table.entries()) {
      const record = decodeRecord(locatorType, bytes)
      this.#own.set(name as EidHex, record)
      this.#keep(record, 'none', this.#isCurrent(record) ? record.payload.ts * 1_000 : Number.NEGATIVE_INFINITY)
    }
  }

  async publish(agent: LocalAgent, options: PublishOptions = {}): Promise<LocatorView> {
    options.onProgress?.('looking up')
    const record = await this.#sign(agent, options.signal)
    this.#c.refresher.forget(agent.eidHex)
    let coverage: 'full' | 'partial' = 'partial'
    try {
      coverage = await this.#put(record, options)
    } finally {
      this.#keep(record, coverage, record.payload.ts * 1_000)
    }
    return this.#view(record)
  }

  async withdraw(agent: LocalAgent, options: PublishOptions = {}): Promise<void> {
    const held = this.#own.get(agent.eidHex) ?? (await this.#sign(agent, options.signal))
    const record = await this.#signGone(agent, held, options.signal)
    this.#c.refresher.forget(agent.eidHex)
    let coverage: 'full' | 'partial' = 'partial'
    try {
      coverage = await this.#put(record, options)
    } finally {
      this.#keep(record, coverage, record.payload.ts * 1_000)
    }
  }

  async resolve(eid: Eid, options: PublishOptions & { fresh?: boolean } = {}): Promise<LocatorView> {
    const { clock } = this.#c
    const successor = this.#c.successor?.(eid)
    if (successor !== undefined) throw rotatedAway(eid, successor)
    const local = this.#c.agents(eidHex(eid))
    if (local !== undefined) return this.#localView(local)
    if (options.fresh !== true) {
      const cached = this.#cache.live(eid, clock.nowMs())
      if (cached !== undefined && cached.payload.gone !== true) return this.#view(cached)
    }
    options.onProgress?.('looking up the agent')
    const before = this.#cache.get(eid)
    let served = await this.#lookUp(eid, options.signal)
    // whoever hides a record that is known to exist may do so on one path only
    if (served === 'nothing' && before !== undefined) served = await this.#lookUp(eid, options.signal)
    const known = this.#cache.get(eid)
    if (known === undefined) throw unknownAgent(eid)
    if (known.record.payload.gone === true) throw withdrawn(eid)
    if (served === 'nothing') throw notServed(eid, known)
    return this.#view(known.record)
  }

  published(eid: Eid): LocatorRecord | undefined {
    const record = this.#own.get(eidHex(eid))
    return record !== undefined && record.payload.gone !== true && recordExpiresAtMs(record) > this.#c.clock.nowMs() ? record : undefined
  }

  learn(record: LocatorRecord): void {
    this.#c.evidence?.onLocator(record)
    this.#cache.offer(record, this.#c.clock.nowMs())
  }

  /** Offers what the network serves to the cache; `nothing` when none of it is as new as what is known. */
  async #lookUp(eid: Eid, signal: AbortSignal | undefined): Promise<'served' | 'nothing'> {
    const { crypto, clock, host, logger } = this.#c
    let served: 'served' | 'nothing' = 'nothing'
    for await (const record of dhtRecords({ dht: host.dht, crypto, clock }, locatorKey(eid), signal)) {
      if (record.kind !== 'locator') continue
      this.#c.evidence?.onLocator(record)
      const verdict = await this.#cache.offer(record, clock.nowMs())
      if (verdict === 'equivocation') {
        const held = this.#cache.get(eid)?.record.bytes
        if (held !== undefined) this.#c.evidence?.onEquivocation({ target: eid, kind: 'locator', a: held, b: record.bytes })
        logger.warn({ agent: eidToDid(eid), gen: record.payload.gen }, 'an agent signed two locators of one generation')
      } else if (verdict !== 'older') served = 'served'
      if (verdict === 'newer' && record.payload.gone !== true)
        for (const listener of this.#newerListeners) listener(eid, this.#view(record))
    }
    return served
  }

  onNewer(listener: (eid: Eid, view: LocatorView) => void): () => void {
    this.#newerListeners.add(listener)
    return () => this.#newerListeners.delete(listener)
  }

  #localView(agent: LocalAgent): LocatorView {
    const own = this.#own.get(agent.eidHex)
    const { window, mode } = agent.reachability
    const keepers = this.#keepers(agent)
    return {
      did: agent.did,
      address: { peer: this.#c.host.peer, addrs: this.#addrs() },
      mailboxKey: agent.mailboxKey,
      mode,
      ...(window === undefined ? {} : { window }),
      ...(keepers.length === 0 ? {} : { keepers: keepers.map(eidToDid) }),
      gen: own?.payload.gen ?? 0,
      expiresAtMs: own === undefined ? this.#c.clock.nowMs() + LOCATOR_TTL_SEC * 1_000 : recordExpiresAtMs(own)
    }
  }

  #view(record: LocatorRecord): LocatorView {
    const { eid, peer, addrs, mbox, mode, window, keepers, gen } = record.payload
    return {
      did: eidToDid(eid),
      address: { peer, addrs: reachableAddrs(addrs, this.#network) },
      mailboxKey: mbox,
      mode,
      ...(window === undefined ? {} : { window }),
      ...(keepers.length === 0 ? {} : { keepers: keepers.map(eidToDid) }),
      gen,
      expiresAtMs: recordExpiresAtMs(record)
    }
  }

  /** Those of its owner's wish, as many as a record takes; never itself. */
  #keepers(agent: LocalAgent): Eid[] {
    const wished = this.#c.keepers?.(agent) ?? []
    return wished.filter((one) => eidHex(one) !== agent.eidHex).slice(0, LOCATOR_KEEPERS_MAX)
  }

  /** At most eight that fit into the record and that this network dials; where there are more, half of them over relays, which work when no other does. */
  #addrs(): string[] {
    const able = reachableAddrs(this.#c.host.addresses(), this.#network).filter((addr) => addr.length <= ADDR_BYTES_MAX && ADDR.test(addr))
    const relayed = able.filter((addr) => transportOf(addr) === 'relay').slice(0, LOCATOR_ADDRS_MAX / 2)
    const direct = able.filter((addr) => transportOf(addr) !== 'relay').slice(0, LOCATOR_ADDRS_MAX - relayed.length)
    return [...direct, ...relayed]
  }

  /** A new generation of the agent as it is now, on disk before anyone sees it. @throws RookeryError `AGENT_WITHDRAWN` */
  #sign(agent: LocalAgent, signal: AbortSignal | undefined): Promise<LocatorRecord> {
    return this.#locks.run(agent.eidHex, async () => {
      if (this.#own.get(agent.eidHex)?.payload.gone === true) throw withdrawn(agent.eid)
      const gen = await this.#number(agent.eid, signal)
      const ts = this.#nowSec()
      const { mode, window } = agent.reachability
      const payload: Locator = {
        eid: agent.eid,
        peer: this.#c.host.peer,
        addrs: this.#addrs(),
        mbox: agent.mailboxKey,
        mode,
        ...(window === undefined ? {} : { window }),
        keepers: this.#keepers(agent),
        gen,
        ts,
        exp: ts + LOCATOR_TTL_SEC
      }
      return await this.#save(buildRecord(this.#c.crypto, locatorType, payload, agent.signer))
    })
  }

  #signGone(agent: LocalAgent, held: LocatorRecord, signal: AbortSignal | undefined): Promise<LocatorRecord> {
    return this.#locks.run(agent.eidHex, async () => {
      const gen = await this.#number(agent.eid, signal)
      const payload = locatorTombstone(held.payload, { gen, nowSec: this.#nowSec() })
      return await this.#save(buildRecord(this.#c.crypto, locatorType, payload, agent.signer))
    })
  }

  async #save(record: LocatorRecord): Promise<LocatorRecord> {
    const name = eidHex(record.payload.eid)
    await this.#c.store.commit([this.#table.put(name, record.bytes)])
    this.#own.set(name, record)
    return record
  }

  async #number(eid: Eid, signal: AbortSignal | undefined): Promise<number> {
    const name = eidHex(eid)
    let seen = this.#seen.get(name)
    if (seen === undefined) {
      seen = -1
      const { crypto, clock, host } = this.#c
      for await (const record of dhtRecords({ dht: host.dht, crypto, clock }, locatorKey(eid), signal)) {
        if (record.kind !== 'locator') continue
        if (record.payload.gone === true) throw withdrawn(eid)
        seen = Math.max(seen, record.payload.gen)
      }
      this.#seen.set(name, seen)
    }
    return await this.#sequences.next(`locator:${name}`, seen, signal)
  }

  async #put(record: LocatorRecord, options: PublishOptions): Promise<'full' | 'partial'> {
    const { host } = this.#c
    try {
      const { stored, asked } = await host.dht.put(
        locatorKey(record.payload.eid),
        record.bytes,
        options.signal === undefined ? {} : { signal: options.signal }
      )
      options.onProgress?.(`stored ${stored} of ${asked}`)
      return asked > 1 && stored === asked ? 'full' : 'partial'
    } catch (error) {
      options.signal?.throwIfAborted()
      this.#c.logger.warn({ error }, 'the DHT did not take a locator of ours; it is put again')
      return 'partial'
    }
  }

  #keep(record: LocatorRecord, coverage: 'full' | 'partial' | 'none', signedAtMs: number): void {
    const name = eidHex(record.payload.eid)
    this.#c.refresher.keep(name, {
      ttlMs: LOCATOR_TTL_SEC * 1_000,
      signedAtMs,
      coverage,
      sign: (signal) => this.#refresh(name, 'sign', signal),
      put: (signal) => this.#refresh(name, 'put', signal)
    })
  }

  async #refresh(name: EidHex, verb: 'sign' | 'put', signal: AbortSignal): Promise<Refreshed> {
    let record = this.#own.get(name)
    const agent = this.#c.agents(name)
    const gone = record?.payload.gone === true
    if (record === undefined || (agent === undefined && !gone)) return await this.#forget(name)
    // the row stays: it is how this node knows that the EID is done with for good
    if (gone && recordExpiresAtMs(record) <= this.#c.clock.nowMs()) return { signedAtMs: 0, coverage: 'full', next: 'forget' }
    const due = verb === 'sign' || !this.#isCurrent(record)
    if (gone && agent !== undefined && recordIsAhead(record, this.#c.clock.nowMs())) record = await this.#signGone(agent, record, signal)
    if (due && agent !== undefined && !gone) record = await this.#sign(agent, signal)
    const coverage = await this.#put(record, { signal })
    return { signedAtMs: record.payload.ts * 1_000, coverage }
  }

  async #forget(name: EidHex): Promise<Refreshed> {
    await this.#c.store.commit([this.#table.del(name)])
    this.#own.delete(name)
    return { signedAtMs: 0, coverage: 'full', next: 'forget' }
  }

  /** Whether it still says where and how its agent can be reached. */
  #isCurrent(record: LocatorRecord): boolean {
    const agent = this.#c.agents(eidHex(eidOf(record.payload.eid)))
    if (agent === undefined || record.payload.gone === true) return true
    const { peer, addrs, mode, window, mbox, exp } = record.payload
    return (
      exp * 1_000 > this.#c.clock.nowMs() &&
      peer === this.#c.host.peer &&
      mode === agent.reachability.mode &&
      JSON.stringify(window) === JSON.stringify(agent.reachability.window) &&
      addrs.join() === this.#addrs().join() &&
      record.payload.keepers.map(eidHex).join() === this.#keepers(agent).map(eidHex).join() &&
      mbox.every((byte, i) => byte === agent.mailboxKey[i])
    )
  }

  #addressesChanged(): void {
    if (this.#cancelSettle !== undefined) return
    const { clock } = this.#c
    const waitMs = Math.max(ADDRESSES_SETTLE_MS, this.#publishedAddrsAtMs + ADDRESSES_AGAIN_MS - clock.monotonicMs())
    this.#cancelSettle = clock.after(waitMs, () => {
      this.#cancelSettle = undefined
      this.#publishedAddrsAtMs = clock.monotonicMs()
      if ([...this.#own.values()].some((record) => !this.#isCurrent(record))) this.#c.refresher.signSoon()
    })
  }

  #nowSec(): number {
    return Math.floor(this.#c.clock.nowMs() / 1_000)
  }

  idle(): Promise<void> {
    return this.#c.refresher.idle()
  }

  /**
   * Publishes nothing: a tombstone is for good for its EID (protocol/README.md §3), and the record as it stands still tells senders the mailbox key
   * and mode with which they can leave something until it expires.
   */
  async stop(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#cancelSettle?.()
    await this.#c.refresher.stop()
  }
}

function rotatedAway(eid: Eid, successor: Eid): RookeryError {
  return new RookeryError('AGENT_ROTATED', `${eidToDid(eid)} goes by another identity now: ${eidToDid(successor)}`, {
    kind: 'notFound',
    field: 'did',
    value: eidToDid(eid),
    remedy: `use ${eidToDid(successor)}`,
    data: { did: eidToDid(successor) }
  })
}

function unknownAgent(eid: Eid): RookeryError {
  return new RookeryError('AGENT_UNKNOWN', `nobody in the network knows a locator of ${eidToDid(eid)}`, {
    kind: 'notFound',
    field: 'did',
    value: eidToDid(eid),
    remedy: 'check the identifier, and that the agent’s node has been online within the last day'
  })
}

function withdrawn(eid: Eid): RookeryError {
  return new RookeryError('AGENT_WITHDRAWN', `${eidToDid(eid)} was withdrawn for good by its owner`, {
    kind: 'notFound',
    field: 'did',
    value: eidToDid(eid),
    remedy: 'ask its owner for the new identifier'
  })
}

function notServed(eid: Eid, known: { record: LocatorRecord; seenAtMs: number }): RookeryError {
  const { gen } = known.record.payload
  const seenAt = new Date(known.seenAtMs).toISOString()
  return new RookeryError('AGENT_NOT_SERVED', `${eidToDid(eid)} is not served; last seen gen ${gen} at ${seenAt}`, {
    kind: 'unavailable',
    field: 'did',
    value: eidToDid(eid),
    remedy: 'the network hides or has lost a record that was there before; try again later',
    data: { gen, seenAtMs: known.seenAtMs, expiresAtMs: recordExpiresAtMs(known.record) }
  })
}

import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { verifyRegistryEntry } from '../../protocol/discovery/registry-entry.ts'
import {
  cursorBefore,
  decodeListResponse,
  decodePutResponse,
  encodeRegistryRequest,
  LIST_LIMIT_MAX,
  type ListRequest,
  type ListResponse,
  type PutResponse,
  REGISTRY_PROTOCOL,
  REGISTRY_REQUEST_BYTES_MAX,
  REGISTRY_RESPONSE_BYTES_MAX,
  type RegistryRequest,
  type RegistrySet,
  type RegistryStatus
} from '../../protocol/discovery/registry-messages.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { RegistryEvidence } from '../evidence/evidence.ts'
import { readFrame, writeFrame } from '../net/frame.ts'
import type { FoundPeer, Host, PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { networkOf } from './address-scope.ts'
import { eachOf, withDeadline } from './deadline.ts'
import { ENTRIES_MAX, EntryUnion, type ListedEntry, type ListQuery } from './entry-union.ts'
import { RecentRegistrars } from './recent-registrars.ts'
import { REGISTRY_DEADLINE_MS } from './registry-service.ts'
import type { RegistryStore } from './registry-store.ts'

export interface RegistryClientInit {
  /** registrars of a key (protocol/README.md §4); the simulator's profile has fewer */
  registrarsMax?: number
  /** answers that make a listing complete */
  readersMin?: number
  deadlineMs?: number
  /** registrars asked beyond `readersMin` when the answers are not there after this */
  hedgeMs?: number
  /** entries that one listing puts to registrars that lack them */
  repairsMax?: number
  /** hears of contradictions that listings show */
  evidence?: RegistryEvidence
}

export interface PutOutcome {
  /** registrars that the DHT named, ourselves included */
  registrars: number
  /** how many of them hold the record now */
  stored: number
  answers: Partial<Record<RegistryStatus | 'unreachable', number>>
  /** the highest number among verified records that registrars hold instead */
  seen: number
}

export type { ListedEntry, ListQuery } from './entry-union.ts'

export interface ListOutcome {
  /** verified, one a name, the highest number; tombstones too */
  entries: ListedEntry[]
  known: string[]
  asked: string[]
  answered: string[]
  /** RPCs in a row that the look-up took to the registrar it found last; 0 where only ourselves are known */
  hops: number
  complete: boolean
}

export interface RequestOptions {
  signal?: AbortSignal
  onProgress?: (text: string) => void
}

/** Puts to and lists from the registrars of a key. Every entry that comes back has been verified here. */
export interface RegistryClient {
  registrars(key: Uint8Array, options?: RequestOptions): Promise<FoundPeer[]>
  put(entry: { set: RegistrySet; key: Uint8Array; record: Uint8Array }, options?: RequestOptions): Promise<PutOutcome>
  list(query: ListQuery, options?: RequestOptions): Promise<ListOutcome>
  /** Resolves when no repair is under way. */
  idle(): Promise<void>
  stop(): Promise<void>
}

const PUTS_AT_ONCE = 8
const READERS_MIN = 10
/** An entry about to expire is not worth a repair. */
const REPAIR_LIFE_MIN_SEC = 60
const NETWORK_REGISTRARS_MAX = 2
/** Records that do not verify; one that serves more is not listened to any longer. */
const REFUSED_MAX = 64

interface ClientComponents {
  host: Host
  clock: Clock
  crypto: CryptoProvider
  logger: Logger
  /** our own sets: this node is a registrar too, asked without a stream */
  local: RegistryStore
}

export function createRegistryClient(components: ClientComponents, init: RegistryClientInit = {}): RegistryClient {
  const { host, clock, crypto, local } = components
  const logger = components.logger.child('registry')
  const registrarsMax = init.registrarsMax ?? 20
  const readersMin = Math.min(init.readersMin ?? READERS_MIN, registrarsMax)
  const deadlineMs = init.deadlineMs ?? REGISTRY_DEADLINE_MS
  const hedgeMs = init.hedgeMs ?? 1_000
  const repairsMax = init.repairsMax ?? 32
  const repairs = new Set<Promise<void>>()
  const stopping = new AbortController()

  const lately = new RecentRegistrars(clock, registrarsMax)
  const unsubscribe = host.onPeer(({ kind }) => {
    if (kind === 'connect') lately.peerArrived()
  })

  async function registrars(key: Uint8Array, { signal }: RequestOptions = {}): Promise<FoundPeer[]> {
    const recent = lately.get(key)
    if (recent !== undefined) return recent
    const closest = await host.dht.closestPeers(key, { countMax: registrarsMax * 2, ...(signal === undefined ? {} : { signal }) })
    const chosen = spread(closest).slice(0, registrarsMax)
    if (chosen.length === 0) chosen.push({ peer: host.peer, addrs: [] })
    lately.set(key, chosen)
    return chosen
  }

  async function request<T>(
    target: PeerAddress,
    message: RegistryRequest,
    decode: (bytes: Uint8Array) => T,
    parent?: AbortSignal
  ): Promise<T> {
    return await withDeadline(clock, deadlineMs, parent, async (signal) => {
      const stream = await host.openStream(target, REGISTRY_PROTOCOL, { signal })
      try {
        await writeFrame(stream, encodeRegistryRequest(message), REGISTRY_REQUEST_BYTES_MAX, { signal })
        await stream.closeWrite()
        const response = decode(await readFrame(stream, REGISTRY_RESPONSE_BYTES_MAX, { signal }))
        await stream.close()
        return response
      } catch (error) {
        stream.reset(error instanceof Error ? error : new Error(String(error)))
        throw error
      }
    })
  }

  const putTo = (
    target: PeerAddress,
    entry: { set: RegistrySet; key: Uint8Array; record: Uint8Array },
    signal?: AbortSignal
  ): Promise<PutResponse> =>
    target.peer === host.peer
      ? local.put({ verb: 'put', ...entry }, { kind: 'self' })
      : request(target, { verb: 'put', ...entry }, decodePutResponse, signal)

  const listFrom = (target: PeerAddress, message: ListRequest, signal: AbortSignal): Promise<ListResponse> =>
    target.peer === host.peer ? local.list(message) : request(target, message, decodeListResponse, signal)

  async function put(entry: { set: RegistrySet; key: Uint8Array; record: Uint8Array }, options: RequestOptions = {}): Promise<PutOutcome> {
    const targets = await registrars(entry.key, options)
    const outcome: PutOutcome = { registrars: targets.length, stored: 0, answers: {}, seen: -1 }
    const count = (status: RegistryStatus | 'unreachable') => {
      outcome.answers[status] = (outcome.answers[status] ?? 0) + 1
    }
    await eachOf(targets, PUTS_AT_ONCE, async (target) => {
      options.signal?.throwIfAborted()
      try {
        const response = await putTo(target, entry, options.signal)
        count(response.status)
        if (response.status === 'ok') outcome.stored++
        if (response.held !== undefined) outcome.seen = Math.max(outcome.seen, numberOf(entry, response.held))
      } catch (error) {
        options.signal?.throwIfAborted()
        count('unreachable')
        logger.debug({ error, registrar: target.peer }, 'a registrar did not take an entry')
      }
      options.onProgress?.(`stored ${outcome.stored} of ${targets.length}`)
    })
    return outcome
  }

  function numberOf(entry: { set: RegistrySet; key: Uint8Array }, record: Uint8Array): number {
    try {
      return verifyRegistryEntry(crypto, { ...entry, record }, clock.nowMs()).number
    } catch (error) {
      if (error instanceof ProtocolError) return -1
      throw error
    }
  }

  async function list(query: ListQuery, options: RequestOptions = {}): Promise<ListOutcome> {
    const named = await registrars(query.key, options)
    const targets = withSeeds(named, query.seeds ?? [])
    const union = new EntryUnion(crypto, query, clock.nowMs(), init.evidence)
    const reading = new AbortController()
    const follow = () => reading.abort(options.signal?.reason)
    options.signal?.addEventListener('abort', follow, { once: true })
    const asked: string[] = []
    const answered: PeerAddress[] = []
    const done = Promise.withResolvers<void>()
    const enough = () => answered.length >= readersMin || union.isFull()
    let next = 0
    let running = 0
    /** Asks on until `wanted` have answered or may still. */
    const more = (wanted: number) => {
      while (!enough() && running + answered.length < wanted && next < targets.length) {
        const target = targets[next++] as PeerAddress
        asked.push(target.peer)
        running++
        void readAll(target, query, union, reading.signal)
          .then(() => answered.push(target))
          .catch((error: unknown) => logger.debug({ error, registrar: target.peer }, 'a registrar did not answer a listing'))
          .then(() => {
            running--
            more(readersMin)
            if (enough() || running === 0 || reading.signal.aborted) done.resolve()
          })
      }
    }
    more(readersMin)
    const cancelHedge = clock.after(hedgeMs, () => more(targets.length))
    reading.signal.addEventListener('abort', () => done.resolve(), { once: true })
    try {
      await done.promise
      options.signal?.throwIfAborted()
    } finally {
      cancelHedge()
      options.signal?.removeEventListener('abort', follow)
      reading.abort(new Error('the listing has what it needs'))
    }
    const complete = answered.length >= Math.min(READERS_MIN, targets.length) || union.isFull()
    if (!union.isFull()) repair(query, union, [...answered])
    return {
      entries: union.winners(),
      known: targets.map((target) => target.peer),
      asked,
      answered: answered.map((target) => target.peer),
      hops: Math.max(0, ...named.map((target) => target.hops ?? 0)),
      complete
    }
  }

  /** All pages of one registrar; its cursor must move on, and it ends at the bound of a set. */
  async function readAll(target: PeerAddress, query: ListQuery, union: EntryUnion, signal: AbortSignal): Promise<void> {
    let cursor = query.id === undefined ? new Uint8Array(0) : cursorBefore(query.id)
    let refused = 0
    for (let read = 0; read < ENTRIES_MAX; ) {
      const limit = query.id === undefined ? LIST_LIMIT_MAX : 1
      const page = await listFrom(target, pageRequest(query, cursor, limit), signal)
      if (page.status !== 'ok') throw new ProtocolError('FIELD_INVALID', `a LIST was answered ${page.status}`, { field: 'status' })
      for (const record of page.records) if (union.add(record, target.peer) === 'refused') refused++
      if (refused > REFUSED_MAX) {
        throw new ProtocolError('FIELD_INVALID', `${refused} entries of a registrar do not verify`, { field: 'records' })
      }
      read += limit
      if (page.next === undefined || query.id !== undefined || union.isFull()) return
      if (toHex(page.next) <= toHex(cursor))
        throw new ProtocolError('FIELD_INVALID', 'the cursor of a listing does not move on', { field: 'next' })
      cursor = new Uint8Array(page.next)
    }
  }

  /** Puts what a registrar lacks to it, behind the caller's back and within `repairsMax`. */
  function repair(query: ListQuery, union: EntryUnion, answered: readonly PeerAddress[]): void {
    const nowSec = clock.nowMs() / 1_000
    const lacking: { target: PeerAddress; record: Uint8Array }[] = []
    for (const { entry, servedBy } of union.winners()) {
      if (entry.exp - nowSec < REPAIR_LIFE_MIN_SEC) continue
      for (const target of answered) {
        if (lacking.length < repairsMax && !servedBy.includes(target.peer)) lacking.push({ target, record: entry.record.bytes })
      }
    }
    if (lacking.length === 0 || stopping.signal.aborted) return
    const work = eachOf(lacking, PUTS_AT_ONCE, async ({ target, record }) => {
      try {
        await putTo(target, { set: query.set, key: query.key, record }, stopping.signal)
      } catch (error) {
        logger.debug({ error, registrar: target.peer }, 'a registrar could not be repaired')
      }
    }).finally(() => repairs.delete(work))
    repairs.add(work)
  }

  return {
    registrars,
    put,
    list,
    async idle() {
      while (repairs.size > 0) await Promise.all(repairs)
    },
    async stop() {
      unsubscribe()
      stopping.abort(new Error('the registry client stops'))
      await Promise.all(repairs)
    }
  }
}

function pageRequest(query: ListQuery, cursor: Uint8Array, limit: number): ListRequest {
  return {
    verb: 'list',
    set: query.set,
    key: query.key,
    ...(query.curator === undefined ? {} : { curator: query.curator }),
    ...(query.tags === undefined || query.tags.length === 0 ? {} : { tags: [...query.tags] }),
    cursor,
    limit
  }
}

/** At most two of one /24 or /48; nearer ones first. */
function spread(closest: readonly FoundPeer[]): FoundPeer[] {
  const taken = new Map<string, number>()
  return closest.filter((candidate) => {
    const networks = new Set(candidate.addrs.map(networkOf).filter((network) => network !== undefined))
    if ([...networks].some((network) => (taken.get(network) ?? 0) >= NETWORK_REGISTRARS_MAX)) return false
    for (const network of networks) taken.set(network, (taken.get(network) ?? 0) + 1)
    return true
  })
}

function withSeeds(targets: PeerAddress[], seeds: readonly PeerAddress[]): PeerAddress[] {
  return [...targets, ...seeds.filter((seed) => !targets.some((target) => target.peer === seed.peer))]
}

import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type RegistryEntry, verifyRegistryEntry } from '../../protocol/discovery/registry-entry.ts'
import {
  decodeKeysResponse,
  decodeListResponse,
  decodePutResponse,
  encodeRegistryRequest,
  type KeysResponse,
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
import { beyondTheCrowd, inTurn } from '../net/key-region.ts'
import { networkOf } from '../net/multiaddrs.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { shuffled } from '../platform/shuffled.ts'
import type { WorkSolver } from '../work/work-solver.ts'
import { eachOf, withDeadline } from './deadline.ts'
import { EntryUnion, type ListedEntry, type ListQuery } from './entry-union.ts'
import { bitsWorthSolving, PutWork } from './put-work.ts'
import { RecentRegistrars } from './recent-registrars.ts'
import type { RegistrarBook, RegistrarReport } from './registrar-book.ts'
import { RegistryReader } from './registry-reader.ts'
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
  /** leading zero bits that the registrars asked for and that were solved; absent where no work was done */
  workBits?: number
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
  /** All pages of one registrar alone, each entry verified; what it has beyond the bound of a set is left. */
  listAt(target: PeerAddress, query: ListQuery, options: { signal: AbortSignal }): Promise<ListedEntry[]>
  /** One page of the keys that a registrar holds. */
  keysAt(target: PeerAddress, cursor: Uint8Array, options: { signal: AbortSignal }): Promise<KeysResponse>
  /** Registrars that hid or invented entries, the latest first. */
  faulty(): RegistrarReport[]
  /** Resolves when no repair is under way. */
  idle(): Promise<void>
  stop(): Promise<void>
}

const PUTS_AT_ONCE = 8
const READERS_MIN = 10
/** An entry about to expire is not worth a repair. */
const REPAIR_LIFE_MIN_SEC = 60
const NETWORK_REGISTRARS_MAX = 2
/** A set may fill while its work is being done: then once more. */
const WORK_ROUNDS_MAX = 2

interface Entry {
  set: RegistrySet
  key: Uint8Array
  record: Uint8Array
}

interface ClientComponents {
  host: Host
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  /** who took what, and who lied */
  book: RegistrarBook
  /** our own sets: this node is a registrar too, asked without a stream */
  local: RegistryStore
  /** finds the work that crowded sets ask for */
  solver: Pick<WorkSolver, 'solve'>
}

export function createRegistryClient(components: ClientComponents, init: RegistryClientInit = {}): RegistryClient {
  const { host, clock, random, crypto, local, book } = components
  const logger = components.logger.child('registry')
  const registrarsMax = init.registrarsMax ?? 20
  const readersMin = Math.min(init.readersMin ?? READERS_MIN, registrarsMax)
  const deadlineMs = init.deadlineMs ?? REGISTRY_DEADLINE_MS
  const hedgeMs = init.hedgeMs ?? 1_000
  const repairsMax = init.repairsMax ?? 32
  const work = new PutWork(components)
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
    const near = spread(closest).slice(0, registrarsMax)
    const crowd = {
      count: registrarsMax,
      isThinned: near.length < Math.min(registrarsMax, closest.length),
      ...(signal === undefined ? {} : { signal })
    }
    const others = await beyondTheCrowd({ dht: host.dht, crypto }, key, closest, crowd)
    const around = spread([...near, ...others]).slice(near.length, near.length + registrarsMax)
    // drawn: who grinds itself the nearest places is asked no sooner than others
    const chosen = around.length === 0 ? shuffled(random, near) : inTurn([shuffled(random, around), shuffled(random, near)])
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

  const putTo = (target: PeerAddress, entry: Entry, pow: Uint8Array | undefined, signal?: AbortSignal): Promise<PutResponse> => {
    const message = { verb: 'put' as const, ...entry, ...(pow === undefined ? {} : { pow }) }
    return target.peer === host.peer ? local.put(message, { kind: 'self' }) : request(target, message, decodePutResponse, signal)
  }

  const listFrom = (target: PeerAddress, message: ListRequest, signal: AbortSignal): Promise<ListResponse> =>
    target.peer === host.peer ? local.list(message) : request(target, message, decodeListResponse, signal)

  const reader = new RegistryReader({ clock, logger, book, list: listFrom }, { hedgeMs })

  async function put(entry: Entry, options: RequestOptions = {}): Promise<PutOutcome> {
    const targets = await registrars(entry.key, options)
    const outcome: PutOutcome = { registrars: targets.length, stored: 0, answers: {}, seen: -1 }
    const verified = verifiedOf(entry, entry.record)
    const known = work.known(entry)
    const waiting = await putToAll(targets, entry, known?.nonce, verified, outcome, options)
    for (let round = 0; round < WORK_ROUNDS_MAX; round++) {
      const bits = bitsWorthSolving([...waiting.values()], targets.length)
      if (bits === 0) break
      options.onProgress?.(`working ${bits} bits for a place`)
      const solved = await solve(entry, bits, options.signal)
      if (solved === undefined) break
      outcome.workBits = solved.bits
      const able = [...waiting].filter(([, asked]) => asked <= solved.bits).map(([target]) => target)
      for (const target of able) waiting.delete(target)
      for (const [target, asked] of await putToAll(able, entry, solved.nonce, verified, outcome, options)) waiting.set(target, asked)
    }
    if (waiting.size > 0) outcome.answers['need-work'] = waiting.size
    return outcome
  }

  async function solve(
    entry: Entry,
    bits: number,
    signal: AbortSignal | undefined
  ): Promise<{ bits: number; nonce: Uint8Array } | undefined> {
    try {
      const both = signal === undefined ? stopping.signal : AbortSignal.any([signal, stopping.signal])
      return await work.solve(entry, bits, both)
    } catch (error) {
      signal?.throwIfAborted()
      stopping.signal.throwIfAborted()
      logger.warn({ error, set: entry.set, bits }, 'the work that registrars ask for was not found; they are left out')
      return undefined
    }
  }

  /** @returns those that asked for work, with the bits */
  async function putToAll(
    targets: readonly PeerAddress[],
    entry: Entry,
    pow: Uint8Array | undefined,
    verified: RegistryEntry | undefined,
    outcome: PutOutcome,
    { signal, onProgress }: RequestOptions
  ): Promise<Map<PeerAddress, number>> {
    const waiting = new Map<PeerAddress, number>()
    const count = (status: RegistryStatus | 'unreachable') => {
      outcome.answers[status] = (outcome.answers[status] ?? 0) + 1
    }
    await eachOf(targets, PUTS_AT_ONCE, async (target) => {
      signal?.throwIfAborted()
      try {
        const response = await putTo(target, entry, pow, signal)
        if (response.status === 'need-work') return void waiting.set(target, response.bits ?? Number.POSITIVE_INFINITY)
        count(response.status)
        if (response.status === 'ok') {
          outcome.stored++
          if (verified !== undefined) book.took(target.peer, entry.key, verified)
        }
        if (response.held !== undefined) outcome.seen = Math.max(outcome.seen, verifiedOf(entry, response.held)?.number ?? -1)
      } catch (error) {
        signal?.throwIfAborted()
        count('unreachable')
        logger.debug({ error, registrar: target.peer }, 'a registrar did not take an entry')
      }
      onProgress?.(`stored ${outcome.stored} of ${outcome.registrars}`)
    })
    return waiting
  }

  function verifiedOf({ set, key }: { set: RegistrySet; key: Uint8Array }, record: Uint8Array): RegistryEntry | undefined {
    try {
      return verifyRegistryEntry(crypto, { set, key, record }, clock.nowMs())
    } catch (error) {
      if (error instanceof ProtocolError) return undefined
      throw error
    }
  }

  async function list(query: ListQuery, options: RequestOptions = {}): Promise<ListOutcome> {
    const named = await registrars(query.key, options)
    const targets = faultyLast(withSeeds(named, query.seeds ?? []))
    const union = new EntryUnion(crypto, query, clock.nowMs(), init.evidence)
    const hiding = new Map<string, string[]>()
    // of a crowded key every second one may be of the crowd: its answers count, but not in place of the region's
    const wanted = named.length > registrarsMax ? 2 * readersMin : readersMin
    const { asked, answered } = await reader.read(targets, query, union, {
      readersMin: wanted,
      signal: options.signal,
      hidden: (target, ids) => {
        hiding.set(target.peer, ids)
        logger.warn({ registrar: target.peer, entries: ids.length }, 'a registrar hides entries that it took')
      }
    })
    const complete = answered.length >= Math.min(wanted, targets.length) || union.isFull()
    if (!union.isFull()) repair(query, union, answered, hiding)
    return {
      entries: union.winners(),
      known: targets.map((target) => target.peer),
      asked,
      answered: answered.map((target) => target.peer),
      hops: Math.max(0, ...named.map((target) => target.hops ?? 0)),
      complete
    }
  }

  /** Who hid or invented entries lately is asked after the others. */
  function faultyLast(targets: readonly PeerAddress[]): PeerAddress[] {
    const isFaulty = new Map(targets.map((target) => [target, book.isFaulty(target.peer)]))
    return [...targets].sort((a, b) => Number(isFaulty.get(a)) - Number(isFaulty.get(b)))
  }

  async function listAt(target: PeerAddress, query: ListQuery, { signal }: { signal: AbortSignal }): Promise<ListedEntry[]> {
    const union = new EntryUnion(crypto, query, clock.nowMs(), init.evidence)
    await reader.read([target], query, union, { readersMin: 1, signal, hidden: () => {} })
    return union.winners()
  }

  /** Puts what a registrar lacks to it, behind the caller's back and within `repairsMax`. */
  function repair(query: ListQuery, union: EntryUnion, answered: readonly PeerAddress[], hiding: ReadonlyMap<string, string[]>): void {
    const nowSec = clock.nowMs() / 1_000
    const lacking: { target: PeerAddress; entry: RegistryEntry; pow: Uint8Array | undefined }[] = []
    for (const { entry, servedBy, pow } of union.winners()) {
      if (entry.exp - nowSec < REPAIR_LIFE_MIN_SEC) continue
      for (const target of answered) {
        if (lacking.length < repairsMax && !servedBy.includes(target.peer)) lacking.push({ target, entry, pow })
      }
    }
    if (lacking.length === 0 || stopping.signal.aborted) return
    const repairing = eachOf(lacking, PUTS_AT_ONCE, async ({ target, entry, pow }) => {
      try {
        const { status } = await putTo(target, { set: query.set, key: query.key, record: entry.record.bytes }, pow, stopping.signal)
        if (status === 'ok') book.took(target.peer, query.key, entry)
        else if (hiding.get(target.peer)?.includes(toHex(entry.id)) === true) book.excused(target.peer)
      } catch (error) {
        logger.debug({ error, registrar: target.peer }, 'a registrar could not be repaired')
      }
    }).finally(() => repairs.delete(repairing))
    repairs.add(repairing)
  }

  return {
    registrars,
    put,
    list,
    listAt,
    keysAt: (target, cursor, { signal }) => request(target, { verb: 'keys', cursor }, decodeKeysResponse, signal),
    faulty: () => book.report(),
    async idle() {
      while (repairs.size > 0) await Promise.all(repairs)
    },
    async stop() {
      unsubscribe()
      stopping.abort(new Error('the registry client stops'))
      await Promise.all(repairs)
      await book.close()
    }
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

import { equals, fromHex, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { PUT_BITS_FIRST, PUT_BITS_FULL, PUT_BITS_MAX, putBitsAsked } from '../../protocol/discovery/put-work.ts'
import { matchesQuery, type RegistryEntry, verifyRegistryEntry } from '../../protocol/discovery/registry-entry.ts'
import {
  KEYS_LIMIT_MAX,
  type KeysRequest,
  type KeysResponse,
  type ListRequest,
  type ListResponse,
  type PutRequest,
  type PutResponse,
  REGISTRY_SETS,
  type RegistrySet,
  registryKeyName
} from '../../protocol/discovery/registry-messages.ts'
import { putSeed, workBits } from '../../protocol/discovery/work.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { eid as eidOf } from '../../protocol/identity/eid.ts'
import { claimedPlace } from '../../protocol/records/set-entry.ts'
import type { RegistryEvidence } from '../evidence/evidence.ts'
import { networkOf } from '../net/multiaddrs.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import { cborCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { LeastWork } from './least-work.ts'
import { PublishBudget } from './publish-budget.ts'
import { REGISTRY_BYTES_MAX, REGISTRY_PUTS_PER_MINUTE_MAX } from './registry-bounds.ts'

/** Rows that one LIST looks at before it answers with what it has and a cursor. */
const LIST_SCAN_MAX = 1_000
/** A start that takes longer says so often how far it is. */
const LOAD_TOLD_MS = 3_000
const SWEEP_MS = 60_000
/** no set key, as those are hex */
const SWEEP_LOCK = 'sweep'
const SWEEP_AGAIN_MS = 10_000
const SWEEP_ROWS_MAX = 500
/** What a row costs beside its record, for the bound in bytes. */
const ROW_BYTES = 200

export interface RegistryStoreInit {
  /** entries of one `members` set; from half of it on a PUT needs work, at the bound more than the least held has */
  membersMax?: number
  /** entries of any other set, with the same rule */
  othersMax?: number
  /** leading zero bits asked from half of a set's bound on, and at it; simulations ask for less than the protocol's 12 and 24 */
  workBits?: { first: number; full: number }
  /** all sets together; a further entry is answered `full` */
  bytesMax?: number
  /** new or changed entries a minute from one PeerId and from one /24 or /48; more are answered `full` */
  putsPerMinuteMax?: number
  /** how many peers nearer to the key the routing table holds; from `closerMax` on a PUT is answered `invalid` */
  closerKnown?: (key: Uint8Array, max: number) => number
  closerMax?: number
  /** whose joins are dropped, and who hears of tickets and contradictions that come in (protocol/README.md §8) */
  evidence?: RegistryEvidence
}

/** Who sent a PUT; our own node's, and what it pulls from neighbours, are not counted against the budget. */
export type Publisher = { kind: 'self' } | { kind: 'peer'; peer: string; remoteAddr: string }

export interface RegistryStore {
  put(request: PutRequest, publisher: Publisher): Promise<PutResponse>
  /** @param options.unlisted - `too`: for passing requests on to them, never for an answer */
  list(request: ListRequest, options?: { unlisted: 'left-out' | 'too' }): Promise<ListResponse>
  keys(request: KeysRequest): Promise<KeysResponse>
  /** Deletes what has expired; runs by itself once a minute. */
  sweep(): Promise<number>
  stats(): { keys: number; entries: number; bytes: number; refused: Record<string, number> }
  stop(): Promise<void>
}

/** r: record, e: exp, n: number, g: gone, c: curator, t: tags; u: unlisted; w: bits of its work, p: the nonce, both absent where it brought none */
type Row = { r: Uint8Array; e: number; n: number; g: boolean; c: Uint8Array; t: string[]; u?: boolean; w?: number; p?: Uint8Array }

/** A nonce and what it is worth. */
interface Work {
  bits: number
  nonce?: Uint8Array
}

/** The sets that this node keeps as a registrar, in the store, within the bounds of protocol/README.md §4. */
export async function openRegistryStore(
  components: { store: Store; clock: Clock; crypto: CryptoProvider; logger: Logger },
  init: RegistryStoreInit = {}
): Promise<RegistryStore> {
  const registry = new LevelRegistryStore(components, init)
  await registry.load()
  registry.scheduleSweep()
  return registry
}

class LevelRegistryStore implements RegistryStore {
  readonly #store: Store
  readonly #clock: Clock
  readonly #crypto: CryptoProvider
  readonly #logger: Logger
  readonly #rows: Table<Row>
  /** `exp, 12 digits:row key`, so that what expires first comes first */
  readonly #expiries: Table<Uint8Array>
  readonly #budget: PublishBudget
  readonly #locks = new KeyedLock()
  readonly #least: LeastWork
  readonly #membersMax: number
  readonly #othersMax: number
  readonly #workBits: { first: number; full: number }
  readonly #bytesMax: number
  readonly #closerKnown: (key: Uint8Array, max: number) => number
  readonly #closerMax: number
  readonly #evidence: RegistryEvidence | undefined
  /** entries by set and key; bounded by the bytes of all */
  readonly #counts = new Map<string, number>()
  readonly #refused: Record<string, number> = {}
  #entries = 0
  #bytes = 0
  #sweptAtMs = Number.NEGATIVE_INFINITY
  #cancelSweep: () => void = () => {}
  #stopped = false

  constructor(components: { store: Store; clock: Clock; crypto: CryptoProvider; logger: Logger }, init: RegistryStoreInit) {
    this.#store = components.store
    this.#clock = components.clock
    this.#crypto = components.crypto
    this.#logger = components.logger.child('registry')
    this.#rows = this.#store.table('registry-entries', cborCodec<Row>())
    this.#least = new LeastWork(this.#rows)
    this.#expiries = this.#store.table('registry-expiries', { encode: (value: Uint8Array) => value, decode: (bytes) => bytes })
    this.#membersMax = init.membersMax ?? 10_000
    this.#othersMax = init.othersMax ?? 1_000
    this.#workBits = init.workBits ?? { first: PUT_BITS_FIRST, full: PUT_BITS_FULL }
    this.#bytesMax = init.bytesMax ?? REGISTRY_BYTES_MAX
    this.#closerKnown = init.closerKnown ?? (() => 0)
    this.#closerMax = init.closerMax ?? 40
    this.#evidence = init.evidence
    this.#budget = new PublishBudget(this.#clock, init.putsPerMinuteMax ?? REGISTRY_PUTS_PER_MINUTE_MAX)
  }

  async load(): Promise<void> {
    const startedMs = this.#clock.monotonicMs()
    let toldMs = startedMs
    for await (const [rowKey, row] of this.#rows.entries()) {
      this.#count(setKeyOf(rowKey), 1, cost(row.r))
      const nowMs = this.#clock.monotonicMs()
      if (nowMs - toldMs < LOAD_TOLD_MS) continue
      toldMs = nowMs
      this.#logger.info({ entries: this.#entries }, 'the registry is being counted')
    }
    const tookMs = this.#clock.monotonicMs() - startedMs
    if (tookMs >= LOAD_TOLD_MS) this.#logger.info({ entries: this.#entries, tookMs: Math.round(tookMs) }, 'the registry is counted')
  }

  scheduleSweep(): void {
    if (this.#stopped) return
    this.#cancelSweep = this.#clock.after(SWEEP_MS, () => {
      this.sweep()
        .catch((error: unknown) => this.#logger.warn({ error }, 'expired registry entries could not be removed'))
        .finally(() => this.scheduleSweep())
    })
  }

  async put(request: PutRequest, publisher: Publisher): Promise<PutResponse> {
    const response = await this.#put(request, publisher)
    if (response.status !== 'ok') this.#refused[response.status] = (this.#refused[response.status] ?? 0) + 1
    return response
  }

  async #put(request: PutRequest, publisher: Publisher): Promise<PutResponse> {
    const sources = publisher.kind === 'self' ? [] : sourcesOf(publisher)
    if (this.#budget.take(sources) === 'refused') return { status: 'full' }
    if (this.#closerKnown(request.key, this.#closerMax) >= this.#closerMax) return { status: 'invalid' }
    try {
      return await this.#admit(request, sources)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#logger.debug({ code: error.code, set: request.set, publisher }, 'refused a registry entry')
      return { status: 'invalid' }
    }
  }

  /** What is held already, then the work, then the signature: the cheapest first. @throws ProtocolError: the record is no entry of this set */
  async #admit(request: PutRequest, sources: readonly string[]): Promise<PutResponse> {
    const { set, key } = request
    const claimed = claimedPlace(this.#crypto, set, request.record)
    const setKey = setKeyName(set, key)
    const rowKey = `${setKey}:${claimed.id}`
    const before = await this.#live(rowKey)
    if (before !== undefined && equals(before.r, request.record)) {
      this.#budget.giveBack(sources)
      return { status: 'ok' }
    }
    const work = this.#workOf(request)
    const places = { set, setKey, rowKey, isFree: claimed.gone && before !== undefined }
    const lacks = await this.#lacksWork(places, before !== undefined, work)
    if (lacks !== undefined) {
      this.#budget.giveBack(sources)
      return lacks
    }
    const entry = verifyRegistryEntry(this.#crypto, request, this.#clock.nowMs())
    if (entry.set === 'members') {
      if (this.#evidence?.refusesJoins(entry.record.payload.eid) === true) return { status: 'invalid' }
      this.#evidence?.onMember(entry.record.payload.eid)
    }
    return await this.#locks.run(setKey, async () => {
      const held = await this.#rows.get(rowKey)
      const live = held !== undefined && held.e * 1_000 > this.#clock.nowMs()
      if (live && equals(held.r, request.record)) return { status: 'ok' }
      if (live && held.n >= entry.number && this.#stillPasses(request, held)) {
        if (held.n === entry.number) this.#contradicts(entry, held.r)
        return held.u === true ? { status: 'stale' } : { status: 'stale', held: held.r }
      }
      const response = (await this.#lacksWork(places, held !== undefined, work)) ?? (await this.#write(places, held, entry, request, work))
      if (response.status === 'ok' && entry.set === 'poms') this.#evidence?.onTicket(request.record)
      return response
    })
  }

  /** What a clock that ran ahead let in is no reason to refuse what is right now. */
  #stillPasses(request: PutRequest, { r }: Row): boolean {
    try {
      verifyRegistryEntry(this.#crypto, { ...request, record: r }, this.#clock.nowMs())
      return true
    } catch {
      return false
    }
  }

  async #live(rowKey: string): Promise<Row | undefined> {
    const row = await this.#rows.get(rowKey)
    return row !== undefined && row.e * 1_000 > this.#clock.nowMs() ? row : undefined
  }

  #workOf({ key, record, pow }: PutRequest): Work {
    return pow === undefined ? { bits: 0 } : { bits: workBits(putSeed(this.#crypto, key, record), pow), nonce: pow }
  }

  /** A tombstone of what is held frees a place, so it needs none; a renewal needs what its set asks of a new entry. */
  async #lacksWork(
    { set, setKey, isFree }: { set: RegistrySet; setKey: string; isFree: boolean },
    held: boolean,
    { bits }: Work
  ): Promise<PutResponse | undefined> {
    const max = this.#entriesMax(set)
    const entries = this.#counts.get(setKey) ?? 0
    if (isFree || entries * 2 < max) return undefined
    const others = held ? entries - 1 : entries
    const least = others >= max ? ((await this.#least.of(setKey, this.#clock.nowMs() / 1_000))?.bits ?? 0) : 0
    const asked = putBitsAsked(others, max, least, this.#workBits)
    if (bits >= asked) return undefined
    if (others >= max) this.#sweepSoon()
    return asked > PUT_BITS_MAX ? { status: 'full' } : { status: 'need-work', bits: asked }
  }

  #entriesMax(set: RegistrySet): number {
    return set === 'members' ? this.#membersMax : this.#othersMax
  }

  /** Two announcements of one curator, space and number are evidence; two joins are not (protocol/README.md §8). */
  #contradicts(entry: RegistryEntry, held: Uint8Array): void {
    if (entry.set !== 'announcements' && entry.set !== 'children') return
    const { record } = entry
    this.#evidence?.onEquivocation({ target: record.payload.curator, kind: 'announce', a: held, b: record.bytes })
  }

  /** In a full set the one with the least work makes room for a new one. */
  async #write(
    { set, setKey, rowKey }: { set: RegistrySet; setKey: string; rowKey: string },
    held: Row | undefined,
    entry: RegistryEntry,
    request: PutRequest,
    work: Work
  ): Promise<PutResponse> {
    const displaced = held === undefined ? await this.#displaced(set, setKey) : undefined
    const entries = held === undefined && displaced === undefined ? 1 : 0
    const grown = cost(request.record) - [held, displaced?.row].reduce((bytes, row) => bytes + (row === undefined ? 0 : cost(row.r)), 0)
    if (this.#bytes + grown > this.#bytesMax) {
      this.#sweepSoon()
      return { status: 'full' }
    }
    const row: Row = {
      r: request.record,
      e: entry.exp,
      n: entry.number,
      g: entry.gone,
      c: entry.curator,
      t: [...entry.tags],
      ...(entry.unlisted ? { u: true } : {}),
      ...(work.nonce === undefined ? {} : { w: work.bits, p: work.nonce })
    }
    const ops: WriteOp[] = [this.#rows.put(rowKey, row), this.#expiries.put(expiryKey(entry.exp, rowKey), new Uint8Array(0))]
    if (held !== undefined && held.e !== entry.exp) ops.push(this.#expiries.del(expiryKey(held.e, rowKey)))
    if (displaced !== undefined)
      ops.push(this.#rows.del(displaced.rowKey), this.#expiries.del(expiryKey(displaced.row.e, displaced.rowKey)))
    this.#count(setKey, entries, grown)
    try {
      await this.#store.commit(ops)
    } catch (error) {
      this.#count(setKey, -entries, -grown)
      throw error
    }
    if (displaced !== undefined) this.#least.removed(setKey)
    else this.#least.wrote(setKey, rowKey, work.bits)
    return { status: 'ok' }
  }

  async #displaced(set: RegistrySet, setKey: string): Promise<{ rowKey: string; row: Row } | undefined> {
    if ((this.#counts.get(setKey) ?? 0) < this.#entriesMax(set)) return undefined
    const least = await this.#least.of(setKey, this.#clock.nowMs() / 1_000)
    const row = least === undefined ? undefined : await this.#rows.get(least.rowKey)
    return least === undefined || row === undefined ? undefined : { rowKey: least.rowKey, row }
  }

  /** At most every ten seconds; it waits for the lock that a PUT holds, so the next PUT finds what it freed. */
  #sweepSoon(): void {
    if (this.#clock.monotonicMs() - this.#sweptAtMs < SWEEP_AGAIN_MS) return
    this.sweep().catch((error: unknown) => this.#logger.warn({ error }, 'expired registry entries could not be removed'))
  }

  async list(request: ListRequest, { unlisted }: { unlisted: 'left-out' | 'too' } = { unlisted: 'left-out' }): Promise<ListResponse> {
    const prefix = setKeyName(request.set, request.key)
    const nowSec = this.#clock.nowMs() / 1_000
    const records: Uint8Array[] = []
    const pows: Uint8Array[] = []
    const page = (next?: Uint8Array): ListResponse => ({
      status: 'ok',
      records,
      ...(pows.some((pow) => pow.length > 0) ? { pows } : {}),
      ...(next === undefined ? {} : { next })
    })
    let scanned = 0
    for await (const [rowKey, row] of this.#rows.entries({ gt: `${prefix}:${toHex(request.cursor)}`, lt: `${prefix};` })) {
      scanned++
      const served = request.set !== 'members' || row.g || !this.#isRefused(rowKey.slice(prefix.length + 1))
      const entry = { gone: row.g, curator: row.c, tags: row.t, unlisted: row.u === true && unlisted === 'left-out' }
      if (served && row.e > nowSec && matchesQuery(entry, request)) {
        records.push(row.r)
        pows.push(row.p ?? new Uint8Array(0))
      }
      if (records.length >= request.limit || scanned >= LIST_SCAN_MAX) return page(fromHex(rowKey.slice(prefix.length + 1)))
    }
    return page()
  }

  #isRefused(member: string): boolean {
    return this.#evidence?.refusesJoins(eidOf(fromHex(member))) === true
  }

  async keys(request: KeysRequest): Promise<KeysResponse> {
    const keys: KeysResponse['keys'] = []
    let name: string | undefined = toHex(request.cursor)
    for (;;) {
      name = await this.#setKeyAfter(name)
      if (name === undefined) return { status: 'ok', keys }
      const bytes = fromHex(name)
      keys.push({ set: REGISTRY_SETS[bytes[0] as number] as RegistrySet, key: bytes.subarray(1) })
      if (keys.length === KEYS_LIMIT_MAX) return { status: 'ok', keys, next: bytes }
    }
  }

  async #setKeyAfter(name: string): Promise<string | undefined> {
    for await (const rowKey of this.#rows.keys({ gt: name === '' ? '' : `${name};`, limit: 1 })) return setKeyOf(rowKey)
    return undefined
  }

  /** One after the other, so that a caller's sweep starts after the call. */
  sweep(): Promise<number> {
    return this.#locks.run(SWEEP_LOCK, () => this.#sweep())
  }

  async #sweep(): Promise<number> {
    this.#sweptAtMs = this.#clock.monotonicMs()
    let removed = 0
    let last = ''
    for (;;) {
      const nowSec = Math.floor(this.#clock.nowMs() / 1_000)
      const due = new Map<string, string[]>()
      // from where it stands: what was just removed lies in the files still, and is looked over each time
      for await (const name of this.#expiries.keys({ gt: last, lt: expiryKey(nowSec + 1, ''), limit: SWEEP_ROWS_MAX })) {
        const setKey = setKeyOf(rowKeyOf(name))
        due.set(setKey, [...(due.get(setKey) ?? []), name])
        last = name
        removed++
      }
      if (due.size === 0 || this.#stopped) return removed
      await Promise.all([...due].map(([setKey, names]) => this.#remove(setKey, names)))
    }
  }

  /** What has expired of one set, in one batch: a sync for each would hold up a large set, and who puts into it, for minutes. */
  async #remove(setKey: string, names: readonly string[]): Promise<void> {
    await this.#locks.run(setKey, async () => {
      const ops: WriteOp[] = []
      let entries = 0
      let bytes = 0
      for (const name of names) {
        const rowKey = rowKeyOf(name)
        const row = await this.#rows.get(rowKey)
        ops.push(this.#expiries.del(name))
        if (row === undefined || expiryKey(row.e, rowKey) !== name) continue
        ops.push(this.#rows.del(rowKey))
        entries++
        bytes += cost(row.r)
      }
      await this.#store.commit(ops)
      if (entries === 0) return
      this.#count(setKey, -entries, -bytes)
      this.#least.removed(setKey)
    })
  }

  #count(setKey: string, entries: number, bytes: number): void {
    this.#entries += entries
    this.#bytes += bytes
    const left = (this.#counts.get(setKey) ?? 0) + entries
    if (left <= 0) this.#counts.delete(setKey)
    else this.#counts.set(setKey, left)
  }

  stats(): { keys: number; entries: number; bytes: number; refused: Record<string, number> } {
    return { keys: this.#counts.size, entries: this.#entries, bytes: this.#bytes, refused: { ...this.#refused } }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelSweep()
    await this.#locks.run(SWEEP_LOCK, async () => {})
  }
}

const EXPIRY_DIGITS = 14
/** code of the set and key, in hex */
const SET_KEY_CHARS = 2 * 33

const rowKeyOf = (expiry: string) => expiry.slice(EXPIRY_DIGITS + 1)
const expiryKey = (expSec: number, rowKey: string) => `${String(expSec).padStart(EXPIRY_DIGITS, '0')}:${rowKey}`
const setKeyName = (set: RegistrySet, key: Uint8Array) => toHex(registryKeyName(set, key))
const setKeyOf = (rowKey: string) => rowKey.slice(0, SET_KEY_CHARS)
const cost = (record: Uint8Array) => record.length + ROW_BYTES

function sourcesOf(publisher: { peer: string; remoteAddr: string }): string[] {
  const network = networkOf(publisher.remoteAddr)
  return network === undefined ? [publisher.peer] : [publisher.peer, network]
}

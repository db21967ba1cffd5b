import { equals, fromHex, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
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
import { ProtocolError } from '../../protocol/errors.ts'
import { eid as eidOf } from '../../protocol/identity/eid.ts'
import type { RegistryEvidence } from '../evidence/evidence.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import { cborCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { networkOf } from './address-scope.ts'
import { PublishBudget } from './publish-budget.ts'

/** Rows that one LIST looks at before it answers with what it has and a cursor. */
const LIST_SCAN_MAX = 1_000
const SWEEP_MS = 60_000
/** no set key, as those are hex */
const SWEEP_LOCK = 'sweep'
const SWEEP_AGAIN_MS = 10_000
const SWEEP_ROWS_MAX = 500
/** What a row costs beside its record, for the bound in bytes. */
const ROW_BYTES = 200

export interface RegistryStoreInit {
  /** entries of one `members` set; a further one is answered `full` */
  membersMax?: number
  /** entries of any other set; a further one is answered `full` */
  othersMax?: number
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

/** Who sent a PUT; our own node's are not counted against the budget. */
export type Publisher = { kind: 'self' } | { kind: 'peer'; peer: string; remoteAddr: string }

export interface RegistryStore {
  put(request: PutRequest, publisher: Publisher): Promise<PutResponse>
  list(request: ListRequest): Promise<ListResponse>
  keys(request: KeysRequest): Promise<KeysResponse>
  /** Deletes what has expired; runs by itself once a minute. */
  sweep(): Promise<number>
  stats(): { keys: number; entries: number; bytes: number; refused: Record<string, number> }
  stop(): Promise<void>
}

/** r: record, e: exp, n: number, g: gone, c: curator, t: tags */
type Row = { r: Uint8Array; e: number; n: number; g: boolean; c: Uint8Array; t: string[] }

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
  readonly #membersMax: number
  readonly #othersMax: number
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
    this.#expiries = this.#store.table('registry-expiries', { encode: (value: Uint8Array) => value, decode: (bytes) => bytes })
    this.#membersMax = init.membersMax ?? 10_000
    this.#othersMax = init.othersMax ?? 1_000
    this.#bytesMax = init.bytesMax ?? 64 * 1024 * 1024
    this.#closerKnown = init.closerKnown ?? (() => 0)
    this.#closerMax = init.closerMax ?? 40
    this.#evidence = init.evidence
    this.#budget = new PublishBudget(this.#clock, init.putsPerMinuteMax ?? 32)
  }

  async load(): Promise<void> {
    for await (const [rowKey, row] of this.#rows.entries()) this.#count(setKeyOf(rowKey), 1, cost(row.r))
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
    let entry: RegistryEntry
    try {
      entry = verifyRegistryEntry(this.#crypto, request, this.#clock.nowMs())
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#logger.debug({ code: error.code, set: request.set, publisher }, 'refused a registry entry')
      return { status: 'invalid' }
    }
    if (entry.set === 'members') {
      if (this.#evidence?.refusesJoins(entry.record.payload.eid) === true) return { status: 'invalid' }
      this.#evidence?.onMember(entry.record.payload.eid)
    }
    const setKey = setKeyName(request.set, request.key)
    return await this.#locks.run(setKey, async () => {
      const rowKey = `${setKey}:${toHex(entry.id)}`
      const held = await this.#rows.get(rowKey)
      const live = held !== undefined && held.e * 1_000 > this.#clock.nowMs()
      if (live && equals(held.r, request.record)) {
        this.#budget.giveBack(sources)
        return { status: 'ok' }
      }
      if (live && held.n >= entry.number) {
        if (held.n === entry.number) this.#contradicts(entry, held.r)
        return { status: 'stale', held: held.r }
      }
      const response = await this.#write(setKey, rowKey, held, entry, request)
      if (response.status === 'ok' && entry.set === 'poms') this.#evidence?.onTicket(request.record)
      return response
    })
  }

  /** Two announcements of one curator, space and number are evidence; two joins are not (protocol/README.md §8). */
  #contradicts(entry: RegistryEntry, held: Uint8Array): void {
    if (entry.set !== 'announcements' && entry.set !== 'children') return
    const { record } = entry
    this.#evidence?.onEquivocation({ target: record.payload.curator, kind: 'announce', a: held, b: record.bytes })
  }

  async #write(setKey: string, rowKey: string, held: Row | undefined, entry: RegistryEntry, request: PutRequest): Promise<PutResponse> {
    const grown = cost(request.record) - (held === undefined ? 0 : cost(held.r))
    if (!this.#hasRoom(request.set, setKey, held === undefined ? 1 : 0, grown)) return { status: 'full' }
    const row: Row = {
      r: request.record,
      e: entry.exp,
      n: entry.number,
      g: entry.gone,
      c: entry.curator,
      t: [...entry.tags]
    }
    const ops: WriteOp[] = [this.#rows.put(rowKey, row), this.#expiries.put(expiryKey(entry.exp, rowKey), new Uint8Array(0))]
    if (held !== undefined && held.e !== entry.exp) ops.push(this.#expiries.del(expiryKey(held.e, rowKey)))
    this.#count(setKey, held === undefined ? 1 : 0, grown)
    try {
      await this.#store.commit(ops)
    } catch (error) {
      this.#count(setKey, held === undefined ? -1 : 0, -grown)
      throw error
    }
    return { status: 'ok' }
  }

  /** Without room a sweep starts, at most every ten seconds; it waits for the lock that this PUT holds, so the next PUT finds what it freed. */
  #hasRoom(set: RegistrySet, setKey: string, added: number, grown: number): boolean {
    const max = set === 'members' ? this.#membersMax : this.#othersMax
    if ((this.#counts.get(setKey) ?? 0) + added <= max && this.#bytes + grown <= this.#bytesMax) return true
    if (this.#clock.monotonicMs() - this.#sweptAtMs >= SWEEP_AGAIN_MS) {
      this.sweep().catch((error: unknown) => this.#logger.warn({ error }, 'expired registry entries could not be removed'))
    }
    return false
  }

  async list(request: ListRequest): Promise<ListResponse> {
    const prefix = setKeyName(request.set, request.key)
    const nowSec = this.#clock.nowMs() / 1_000
    const records: Uint8Array[] = []
    let scanned = 0
    for await (const [rowKey, row] of this.#rows.entries({ gt: `${prefix}:${toHex(request.cursor)}`, lt: `${prefix};` })) {
      scanned++
      const served = request.set !== 'members' || row.g || !this.#isRefused(rowKey.slice(prefix.length + 1))
      if (served && row.e > nowSec && matchesQuery({ gone: row.g, curator: row.c, tags: row.t }, request)) records.push(row.r)
      if (records.length >= request.limit || scanned >= LIST_SCAN_MAX) {
        return { status: 'ok', records, next: fromHex(rowKey.slice(prefix.length + 1)) }
      }
    }
    return { status: 'ok', records }
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
    for (;;) {
      const nowSec = Math.floor(this.#clock.nowMs() / 1_000)
      const due: string[] = []
      for await (const name of this.#expiries.keys({ lt: expiryKey(nowSec + 1, ''), limit: SWEEP_ROWS_MAX })) due.push(name)
      if (due.length === 0 || this.#stopped) return removed
      await Promise.all(due.map((name) => this.#remove(name)))
      removed += due.length
    }
  }

  async #remove(name: string): Promise<void> {
    const rowKey = name.slice(EXPIRY_DIGITS + 1)
    const setKey = setKeyOf(rowKey)
    await this.#locks.run(setKey, async () => {
      const row = await this.#rows.get(rowKey)
      const ops = [this.#expiries.del(name)]
      const expired = row !== undefined && expiryKey(row.e, rowKey) === name
      if (expired) ops.push(this.#rows.del(rowKey))
      await this.#store.commit(ops)
      if (expired) this.#count(setKey, -1, -cost(row.r))
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

const expiryKey = (expSec: number, rowKey: string) => `${String(expSec).padStart(EXPIRY_DIGITS, '0')}:${rowKey}`
const setKeyName = (set: RegistrySet, key: Uint8Array) => toHex(registryKeyName(set, key))
const setKeyOf = (rowKey: string) => rowKey.slice(0, SET_KEY_CHARS)
const cost = (record: Uint8Array) => record.length + ROW_BYTES

function sourcesOf(publisher: { peer: string; remoteAddr: string }): string[] {
  const network = networkOf(publisher.remoteAddr)
  return network === undefined ? [publisher.peer] : [publisher.peer, network]
}

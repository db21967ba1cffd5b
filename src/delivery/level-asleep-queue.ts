import { concat, equals, fromHex, toHex } from '../../protocol/bytes.ts'
import { CborFields, decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { judgeBounds, QUEUE_BOUNDS_DEFAULT, type QueueFullKind } from '../../protocol/delivery/bounds.ts'
import { DEPOSIT_OBJECT_BYTES_MAX } from '../../protocol/delivery/mailbox.ts'
import { decodeObject, verifyObject } from '../../protocol/delivery/object.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type EidHex, eid } from '../../protocol/identity/eid.ts'
import type { Logger } from '../platform/logger.ts'
import { bytesCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import type { DrainableQueue, QueueAnswer, QueueBounds, QueueRecord, QueueUsage, Removal } from './asleep-queue.ts'
import type { ClockGuard } from './clock-guard.ts'

/** Damaged rows kept for inspection; further ones are dropped and counted. */
export const DAMAGED_ROWS_MAX = 64
const CHECKSUM_BYTES = 8
const PRINCIPAL_BYTES_MAX = 256

export interface AsleepQueueComponents {
  store: Store
  crypto: CryptoProvider
  clockGuard: ClockGuard
  logger: Logger
}

export interface AsleepQueueInit {
  /** the bounds that apply to an audience now; read at every enqueue, published from the same place (OD-30) */
  bounds?: (audience: EidHex) => QueueBounds
  objectBytesMax?: number
  /** where records for an audience are kept: what an agent was first, when it has another EID now. Default: the audience */
  homeOf?: (audience: EidHex) => EidHex
  /** its rows and those set aside; default: the queue of our own agents */
  tables?: { rows: string; damaged: string }
  /** what leaves the store in the same batch as a record: the copy that its sender kept here */
  alsoRemove?: (record: Pick<QueueRecord, 'issuer' | 'audience' | 'objectId'>) => Removal
}

/** A record's facts without its bytes, and where its write stands. */
interface Entry {
  readonly name: string
  readonly hash: string
  readonly facts: Omit<QueueRecord, 'object'>
  readonly bytes: number
  stored: boolean
  written: Promise<boolean>
}

/** One audience's records, in memory; bounded by its bounds. Audiences are hosted agents, so the owner bounds their number. */
interface Shelf {
  readonly byName: Map<string, Entry>
  readonly byKey: Map<string, Entry>
  readonly peers: Map<string, number>
  bytes: number
  lastSequence: number
  /** nothing here ends before this, Unix ms; so most enqueues need not look */
  endsFromMs: number
}

/**
 * The asleep queue on LevelDB. A place is reserved in memory before the write and given back when the write fails, so writes of one audience
 * share a sync and still never pass a bound; counters are made anew from the records at every open.
 */
export class LevelAsleepQueue implements DrainableQueue {
  readonly #store: Store
  readonly #crypto: CryptoProvider
  readonly #guard: ClockGuard
  readonly #logger: Logger
  readonly #bounds: (audience: EidHex) => QueueBounds
  readonly #objectBytesMax: number
  readonly #rows: Table<Uint8Array>
  readonly #damagedRows: Table<Uint8Array>
  readonly #shelves = new Map<EidHex, Shelf>()
  readonly #homeOf: (audience: EidHex) => EidHex
  readonly #alsoRemove: NonNullable<AsleepQueueInit['alsoRemove']>
  #damaged = 0

  private constructor(components: AsleepQueueComponents, init: AsleepQueueInit) {
    this.#store = components.store
    this.#crypto = components.crypto
    this.#guard = components.clockGuard
    this.#logger = components.logger.child('asleep-queue')
    this.#bounds = init.bounds ?? (() => QUEUE_BOUNDS_DEFAULT)
    this.#homeOf = init.homeOf ?? ((audience) => audience)
    this.#alsoRemove = init.alsoRemove ?? (() => ({ ops: [], done: () => {} }))
    this.#objectBytesMax = init.objectBytesMax ?? DEPOSIT_OBJECT_BYTES_MAX
    const { rows, damaged } = init.tables ?? { rows: 'asleep-queue', damaged: 'asleep-damaged' }
    this.#rows = components.store.table(rows, bytesCodec)
    this.#damagedRows = components.store.table(damaged, bytesCodec)
  }

  /** Reads every record once: counts, names and damaged rows come from the disk, never from a stored counter. */
  static async open(components: AsleepQueueComponents, init: AsleepQueueInit = {}): Promise<LevelAsleepQueue> {
    const queue = new LevelAsleepQueue(components, init)
    for await (const [key, row] of queue.#rows.entries()) {
      const record = queue.#decodeRow(key, row)
      if (record === undefined) await queue.#setAside(key, row)
      else queue.#reserve(queue.#shelf(record.audience), queue.#entryOf(record, toHex(queue.#crypto.sha256(record.object)), true))
    }
    return queue
  }

  /** rows that failed their checksum since this open */
  get damaged(): number {
    return this.#damaged
  }

  async enqueue(input: Parameters<DrainableQueue['enqueue']>[0]): Promise<QueueAnswer> {
    const { principal, slot = principal, object, kind = 'object' } = input
    const named = checkedAudience(input.audience)
    const audience = this.#homeOf(named)
    for (const name of [principal, slot]) {
      if (name.length === 0 || new TextEncoder().encode(name).length > PRINCIPAL_BYTES_MAX) {
        throw new TypeError(`a principal is 1 to ${PRINCIPAL_BYTES_MAX} bytes of text`)
      }
    }
    const nowMs = this.#guard.now()
    if (object.length > this.#objectBytesMax) {
      await this.#sweepShelf(this.#shelf(audience))
      const verdict = this.#judge(audience, slot, object.length, 'all')
      return verdict === 'fits' || verdict === 'too-large'
        ? { status: 'too-large', bytesMax: this.#objectBytesMax }
        : { status: 'full', kind: verdict }
    }
    const hash = toHex(this.#crypto.sha256(object))
    const opaque = { issuer: '' as const, objectId: input.opaqueId ?? hash, endMs: undefined }
    const { sealed } = input
    const own = sealed === undefined ? undefined : { issuer: sealed.issuer, objectId: sealed.objectId, endMs: sealed.expiresAtMs }
    const facts = kind === 'opaque' ? opaque : (own ?? this.#verified(object, named, nowMs))
    if (facts === undefined) return { status: 'expired' }
    const bounds = this.#bounds(audience)
    const wishMs = input.ttlMs ?? bounds.ttlMaxMs
    const expiresAtMs = Math.min(facts.endMs ?? Number.MAX_SAFE_INTEGER, nowMs + Math.min(wishMs, bounds.ttlMaxMs))
    if (!(expiresAtMs > nowMs)) return { status: 'expired' }
    const shelf = this.#shelf(audience)
    await this.#sweepShelf(shelf)
    const name = `${facts.issuer}/${facts.objectId}`
    for (;;) {
      const held = shelf.byName.get(name)
      if (held !== undefined) {
        if (!(await held.written)) continue
        if (held.hash !== hash) return { status: 'conflict' }
        return { status: 'queued', record: { ...held.facts, object }, again: true }
      }
      const verdict = this.#judge(audience, slot, object.length, 'all')
      if (verdict === 'fits') break
      if (verdict === 'too-large') return { status: 'too-large', bytesMax: this.#objectBytesMax }
      const writing = [...shelf.byName.values()].filter((entry) => !entry.stored)
      if (writing.length === 0 || this.#judge(audience, slot, object.length, 'stored') === verdict) {
        return { status: 'full', kind: verdict }
      }
      await Promise.race(writing.map((entry) => entry.written))
    }
    shelf.lastSequence = Math.max(shelf.lastSequence + 1, nowMs)
    const record: QueueRecord = {
      key: `${audience}/${sortable(shelf.lastSequence)}`,
      audience,
      kind,
      principal,
      ...(slot === principal ? {} : { slot }),
      issuer: facts.issuer,
      objectId: facts.objectId,
      object,
      enqueuedAtMs: nowMs,
      expiresAtMs
    }
    const entry = this.#entryOf(record, hash, false)
    this.#reserve(shelf, entry)
    const clockOps = this.#guard.ops()
    const write = this.#store.commit([this.#rows.put(record.key, this.#encodeRow(record)), ...clockOps, ...(input.alongside ?? [])])
    entry.written = write.then(
      () => {
        entry.stored = true
        this.#guard.written(clockOps)
        return true
      },
      () => {
        this.#release(shelf, entry)
        return false
      }
    )
    await entry.written
    await write
    return { status: 'queued', record, again: false }
  }

  /** @returns undefined when the object has ended */
  #verified(object: Uint8Array, audience: EidHex, nowMs: number) {
    try {
      const decoded = decodeObject(object, { bytesMax: this.#objectBytesMax })
      verifyObject(this.#crypto, decoded, { nowMs, audience: eid(fromHex(audience)) })
      return { issuer: toHex(decoded.issuer) as EidHex, objectId: toHex(decoded.id), endMs: decoded.expiresAtMs }
    } catch (error) {
      if (error instanceof ProtocolError && error.code === 'OBJECT_EXPIRED') return undefined
      throw error
    }
  }

  #judge(audience: EidHex, slot: string, bytes: number, counting: 'all' | 'stored'): 'fits' | 'too-large' | QueueFullKind {
    const shelf = this.#shelf(audience)
    const load = { messages: shelf.byName.size, bytes: shelf.bytes, peerMessages: shelf.peers.get(slot) ?? 0 }
    if (counting === 'stored') {
      for (const entry of shelf.byName.values()) {
        if (entry.stored) continue
        load.messages--
        load.bytes -= entry.bytes
        if (slotOf(entry.facts) === slot) load.peerMessages--
      }
    }
    return judgeBounds(load, this.#bounds(audience), { bytes, objectBytesMax: this.#objectBytesMax })
  }

  async usage(audience: EidHex): Promise<QueueUsage> {
    const nowMs = this.#guard.now()
    const live = [...this.#shelf(checkedAudience(audience)).byName.values()].filter(
      (entry) => entry.stored && entry.facts.expiresAtMs > nowMs
    )
    return { messages: live.length, bytes: live.reduce((sum, entry) => sum + entry.bytes, 0), bounds: this.#bounds(audience) }
  }

  async list(audience: EidHex, { limit = Number.MAX_SAFE_INTEGER }: { limit?: number } = {}): Promise<QueueRecord[]> {
    const nowMs = this.#guard.now()
    const records: QueueRecord[] = []
    if (limit <= 0) return records
    for await (const record of this.records(audience)) {
      if (record.expiresAtMs > nowMs) records.push(record)
      if (records.length >= limit) break
    }
    return records
  }

  async *records(audience: EidHex, { afterKey }: { afterKey?: string } = {}): AsyncIterable<QueueRecord> {
    const from = afterKey ?? `${checkedAudience(audience)}/`
    for await (const [key, row] of this.#rows.entries({ gt: from, lt: `${audience}0` })) {
      const record = this.#decodeRow(key, row)
      if (record === undefined) await this.#setAside(key, row)
      else yield record
    }
  }

  removal(record: Pick<QueueRecord, 'key' | 'audience'>): Removal {
    const shelf = this.#shelf(record.audience)
    const entry = shelf.byKey.get(record.key)
    const also = entry === undefined ? undefined : this.#alsoRemove(entry.facts)
    return {
      ops: [this.#rows.del(record.key), ...(also?.ops ?? [])],
      done: () => {
        if (entry !== undefined) this.#release(shelf, entry)
        also?.done()
      }
    }
  }

  async drop(audience: EidHex, key: string): Promise<boolean> {
    const shelf = this.#shelf(checkedAudience(audience))
    if (!key.startsWith(`${audience}/`) || shelf.byKey.get(key)?.stored !== true) return false
    const removal = this.removal({ audience, key })
    await this.#store.commit(removal.ops)
    removal.done()
    return true
  }

  /** The record of that name, without its bytes, once it is on disk. */
  find(
    audience: EidHex,
    { issuer, objectId }: { issuer: EidHex; objectId: string }
  ): (Omit<QueueRecord, 'object'> & { hash: string }) | undefined {
    const entry = this.#shelves.get(this.#homeOf(checkedAudience(audience)))?.byName.get(`${issuer}/${objectId}`)
    return entry?.stored === true ? { ...entry.facts, hash: entry.hash } : undefined
  }

  /** Puts rows that were set aside back where they can be read after all, as after a mended disk. @returns how many */
  async restore(audience: EidHex): Promise<number> {
    let restored = 0
    for await (const [key, row] of this.#damagedRows.entries({ gt: `${checkedAudience(audience)}/`, lt: `${audience}0` })) {
      const record = this.#decodeRow(key, row)
      const shelf = this.#shelf(audience)
      if (record === undefined || shelf.byName.has(`${record.issuer}/${record.objectId}`) || shelf.byKey.has(key)) continue
      if (this.#judge(audience, slotOf(record), record.object.length, 'all') !== 'fits') continue
      const entry = this.#entryOf(record, toHex(this.#crypto.sha256(record.object)), true)
      this.#reserve(shelf, entry)
      try {
        await this.#store.commit([this.#rows.put(key, row), this.#damagedRows.del(key)])
      } catch (error) {
        this.#release(shelf, entry)
        throw error
      }
      restored++
    }
    return restored
  }

  async sweep(): Promise<number> {
    let swept = 0
    for (const shelf of this.#shelves.values()) swept += await this.#sweepShelf(shelf)
    return swept
  }

  async #sweepShelf(shelf: Shelf): Promise<number> {
    this.#guard.now()
    const nowMs = this.#guard.settledMs()
    if (nowMs < shelf.endsFromMs) return 0
    const ended = [...shelf.byName.values()].filter((entry) => entry.stored && entry.facts.expiresAtMs <= nowMs)
    const removals = ended.map(({ facts }) => this.removal(facts))
    await this.#store.commit(removals.flatMap(({ ops }) => ops))
    for (const { done } of removals) done()
    shelf.endsFromMs = Number.MAX_SAFE_INTEGER
    for (const entry of shelf.byName.values()) shelf.endsFromMs = Math.min(shelf.endsFromMs, entry.facts.expiresAtMs)
    return ended.length
  }

  #shelf(audience: EidHex): Shelf {
    let shelf = this.#shelves.get(audience)
    if (shelf === undefined) {
      shelf = { byName: new Map(), byKey: new Map(), peers: new Map(), bytes: 0, lastSequence: 0, endsFromMs: Number.MAX_SAFE_INTEGER }
      this.#shelves.set(audience, shelf)
    }
    return shelf
  }

  #entryOf({ object, ...facts }: QueueRecord, hash: string, stored: boolean): Entry {
    return { name: `${facts.issuer}/${facts.objectId}`, hash, facts, bytes: object.length, stored, written: Promise.resolve(stored) }
  }

  #reserve(shelf: Shelf, entry: Entry): void {
    shelf.byName.set(entry.name, entry)
    shelf.byKey.set(entry.facts.key, entry)
    const slot = slotOf(entry.facts)
    shelf.peers.set(slot, (shelf.peers.get(slot) ?? 0) + 1)
    shelf.bytes += entry.bytes
    shelf.endsFromMs = Math.min(shelf.endsFromMs, entry.facts.expiresAtMs)
    shelf.lastSequence = Math.max(shelf.lastSequence, Number.parseInt(entry.facts.key.slice(-14), 16))
  }

  #release(shelf: Shelf, entry: Entry): void {
    if (shelf.byName.get(entry.name) !== entry) return
    shelf.byName.delete(entry.name)
    shelf.byKey.delete(entry.facts.key)
    shelf.bytes -= entry.bytes
    const slot = slotOf(entry.facts)
    const left = (shelf.peers.get(slot) ?? 1) - 1
    if (left > 0) shelf.peers.set(slot, left)
    else shelf.peers.delete(slot)
  }

  /** H(body)[0..8) ‖ body: a torn or flipped row is noticed before anything of it is believed. */
  #encodeRow(record: QueueRecord): Uint8Array {
    const body = encodeCbor({
      v: 1,
      key: record.key,
      kind: record.kind,
      from: record.principal,
      slot: record.slot,
      iss: record.issuer,
      id: record.objectId,
      at: record.enqueuedAtMs,
      exp: record.expiresAtMs,
      object: record.object
    })
    return concat([this.#crypto.sha256(body).subarray(0, CHECKSUM_BYTES), body])
  }

  #decodeRow(key: string, row: Uint8Array): QueueRecord | undefined {
    try {
      const body = row.subarray(CHECKSUM_BYTES)
      if (!equals(this.#crypto.sha256(body).subarray(0, CHECKSUM_BYTES), row.subarray(0, CHECKSUM_BYTES))) return undefined
      const fields = new CborFields(decodeCbor(body), 'row')
      fields.uint('v', { min: 1, max: 1 })
      if (fields.text('key', { bytesMax: 128, pattern: /^[0-9a-f]{64}\/[0-9a-f]{14}$/ }) !== key) return undefined
      const slot = fields.optional('slot', (name) => fields.text(name, { bytesMax: PRINCIPAL_BYTES_MAX }))
      const record: QueueRecord = {
        key,
        audience: key.slice(0, 64) as EidHex,
        kind: fields.oneOf('kind', ['object', 'opaque']),
        principal: fields.text('from', { bytesMax: PRINCIPAL_BYTES_MAX }),
        ...(slot === undefined ? {} : { slot }),
        issuer: fields.text('iss', { bytesMax: 64, pattern: /^([0-9a-f]{64})?$/ }) as EidHex | '',
        objectId: fields.text('id', { bytesMax: 64, pattern: /^[0-9a-f]+$/ }),
        enqueuedAtMs: fields.uint('at'),
        expiresAtMs: fields.uint('exp'),
        object: fields.bytes('object', { max: Number.MAX_SAFE_INTEGER })
      }
      fields.end()
      return record
    } catch {
      return undefined
    }
  }

  /** A row that cannot be read must not hold up the others; a disk that refuses the move leaves it where it is. */
  async #setAside(key: string, row: Uint8Array): Promise<void> {
    this.#damaged++
    this.#logger.warn({ key: key.slice(0, 96), bytes: row.length }, 'a queued row is damaged and was set aside')
    try {
      const ops: WriteOp[] = [this.#rows.del(key)]
      let kept = 0
      for await (const _ of this.#damagedRows.keys({ limit: DAMAGED_ROWS_MAX })) kept++
      if (kept < DAMAGED_ROWS_MAX) ops.push(this.#damagedRows.put(key, row))
      await this.#store.commit(ops)
    } catch (error) {
      this.#logger.warn({ error }, 'the damaged row could not be moved')
      return
    }
    const shelf = this.#shelves.get(key.slice(0, 64) as EidHex)
    const entry = shelf?.byKey.get(key)
    if (shelf !== undefined && entry !== undefined) this.#release(shelf, entry)
  }
}

function slotOf({ principal, slot }: Pick<QueueRecord, 'principal' | 'slot'>): string {
  return slot ?? principal
}

function checkedAudience(audience: EidHex): EidHex {
  if (!/^[0-9a-f]{64}$/.test(audience)) throw new TypeError('an audience is an EID in 64 hex digits')
  return audience
}

/** 14 hex digits, so that text order is the order of arrival. */
function sortable(sequence: number): string {
  return sequence.toString(16).padStart(14, '0')
}

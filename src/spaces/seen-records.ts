import { equals } from '../../protocol/bytes.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import {
  decodeRecord,
  type RecordPayload,
  type RecordType,
  recordExpiresAtMs,
  recordIsAhead,
  type SignedRecord
} from '../../protocol/records/envelope.ts'
import { type Locator, locatorType, selectLocator } from '../../protocol/records/locator.ts'
import { type Mail, mailType, selectMail } from '../../protocol/records/mail.ts'
import type { Selection } from '../../protocol/records/selection.ts'
import type { Logger } from '../platform/logger.ts'
import { cborCodec, type Store, type Table, type WriteOp } from '../store/store.ts'

/** Agents whose locators are remembered, on disk too; the one asked for longest ago goes first. */
export const LOCATORS_MAX = 10_000
/** The same of mail records: only who writes to an agent that is away looks for one. */
export const MAIL_RECORDS_MAX = 1_000

type OfAnEid = RecordPayload & { readonly eid: Eid; readonly gen: number }

interface Remembered<K extends string, P extends OfAnEid> {
  record: SignedRecord<K, P>
  seenAtMs: number
  equivocated: boolean
}

interface Kind<K extends string, P extends OfAnEid> {
  type: RecordType<K, P>
  select: (held: SignedRecord<K, P>, offered: SignedRecord<K, P>) => Selection
  /** store table */
  table: string
}
const LOCATORS: Kind<'locator', Locator> = { type: locatorType, select: selectLocator, table: 'seen-locators' }
const MAIL: Kind<'mail', Mail> = { type: mailType, select: selectMail, table: 'seen-mail' }

/** r: record, s: when it was seen, Unix ms, q: whether another one of its generation was seen */
type Row = { r: Uint8Array; s: number; q: boolean }

/**
 * The newest record of a kind ever seen of each agent: an older one is never accepted after it, not by a later run either, and `gone` stays gone. One dated ahead of the clock,
 * which was wrong when it was taken, counts for nothing.
 */
export class SeenRecords<K extends string, P extends OfAnEid> {
  readonly #kind: Kind<K, P>
  readonly #store: Store
  readonly #logger: Logger
  readonly #table: Table<Row>
  readonly #max: number
  readonly #byEid = new Map<EidHex, Remembered<K, P>>()

  private constructor(kind: Kind<K, P>, store: Store, logger: Logger, max: number) {
    this.#kind = kind
    this.#store = store
    this.#logger = logger
    this.#table = store.table(kind.table, cborCodec<Row>())
    this.#max = max
  }

  static async locators(store: Store, logger: Logger, max = LOCATORS_MAX): Promise<SeenRecords<'locator', Locator>> {
    return await SeenRecords.#open(LOCATORS, store, logger, max)
  }

  static async mail(store: Store, logger: Logger, max = MAIL_RECORDS_MAX): Promise<SeenRecords<'mail', Mail>> {
    return await SeenRecords.#open(MAIL, store, logger, max)
  }

  static async #open<K extends string, P extends OfAnEid>(
    kind: Kind<K, P>,
    store: Store,
    logger: Logger,
    max: number
  ): Promise<SeenRecords<K, P>> {
    const cache = new SeenRecords(kind, store, logger, max)
    const rows: [EidHex, Remembered<K, P>][] = []
    const unreadable: WriteOp[] = []
    for await (const [name, { r, s, q }] of cache.#table.entries({ limit: 2 * max })) {
      try {
        rows.push([name as EidHex, { record: decodeRecord(kind.type, r), seenAtMs: s, equivocated: q }])
      } catch (error) {
        logger.warn({ error, kind: kind.type.kind }, 'a remembered record cannot be read and is forgotten')
        unreadable.push(cache.#table.del(name))
      }
    }
    rows.sort((a, b) => a[1].seenAtMs - b[1].seenAtMs)
    for (const [name, remembered] of rows) cache.#byEid.set(name, remembered)
    await store.commit([...unreadable, ...cache.#makeRoom(0)])
    return cache
  }

  get size(): number {
    return this.#byEid.size
  }

  /**
   * Takes the record unless a newer one is known; on disk when this resolves, unless the disk refuses, which is logged. Two different ones of one
   * generation are told, and the first stays.
   */
  async offer(record: SignedRecord<K, P>, nowMs: number): Promise<'newer' | 'known' | 'older' | 'equivocation'> {
    const name = eidHex(record.payload.eid)
    const held = this.#byEid.get(name)
    if (held === undefined) {
      const ops = this.#makeRoom(1)
      await this.#keep(name, { record, seenAtMs: nowMs, equivocated: false }, ops)
      return 'newer'
    }
    if (recordIsAhead(held.record, nowMs) && !recordIsAhead(record, nowMs)) {
      await this.#keep(name, { record, seenAtMs: nowMs, equivocated: held.equivocated })
      return 'newer'
    }
    const { winner, reason } = this.#kind.select(held.record, record)
    if (winner === 'offered') {
      await this.#keep(name, { record, seenAtMs: nowMs, equivocated: held.equivocated })
      return 'newer'
    }
    if (reason === 'equivocation') {
      if (!held.equivocated) await this.#keep(name, { ...held, equivocated: true })
      return 'equivocation'
    }
    if (!equals(held.record.bytes, record.bytes)) return 'older'
    held.seenAtMs = nowMs
    return 'known'
  }

  async #keep(name: EidHex, { record, seenAtMs, equivocated }: Remembered<K, P>, ops: readonly WriteOp[] = []): Promise<void> {
    const bytes = Uint8Array.from(record.bytes) // what came may be a view of a larger buffer
    this.#byEid.set(name, { record: decodeRecord(this.#kind.type, bytes), seenAtMs, equivocated })
    try {
      await this.#store.commit([...ops, this.#table.put(name, { r: bytes, s: Math.floor(seenAtMs), q: equivocated })])
    } catch (error) {
      this.#logger.warn({ error, kind: this.#kind.type.kind }, 'the newest record of an agent could not be kept on disk')
    }
  }

  #makeRoom(places: number): WriteOp[] {
    const ops: WriteOp[] = []
    for (const oldest of this.#byEid.keys()) {
      if (this.#byEid.size + places <= this.#max) break
      this.#byEid.delete(oldest)
      ops.push(this.#table.del(oldest))
    }
    return ops
  }

  get(eid: Eid): Remembered<K, P> | undefined {
    const name = eidHex(eid)
    const held = this.#byEid.get(name)
    if (held === undefined) return undefined
    this.#byEid.delete(name)
    this.#byEid.set(name, held)
    return held
  }

  /** The record, while it lives. */
  live(eid: Eid, nowMs: number): SignedRecord<K, P> | undefined {
    const held = this.get(eid)
    return held !== undefined && recordExpiresAtMs(held.record) > nowMs ? held.record : undefined
  }
}

import { equals, toHex, utf8 } from '../../protocol/bytes.ts'
import { canonicalJson } from '../../protocol/canonical-json.ts'
import { CborFields, type CborValue, decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { CONFIRMATION_BYTES_MAX } from '../../protocol/delivery/confirmation.ts'
import { RECEIPT_BYTES_MAX } from '../../protocol/delivery/mailbox.ts'
import { OBJECT_LIFE_MAX_MS } from '../../protocol/delivery/object.ts'
import {
  afterNews,
  awaitsDelivery,
  isOutboxEnd,
  KEPT_BY_MAX,
  OUTBOX_STATES,
  type OutboxState,
  REFUSAL_REASON_BYTES_MAX
} from '../../protocol/delivery/outbox-state.ts'
import { TRACEPARENT_CHARS_MAX } from '../../protocol/delivery/traceparent.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import { SettledTime } from '../platform/settled-time.ts'
import { bytesCodec, parseStored, type Store, type Table } from '../store/store.ts'
import { ENVELOPE_DEPTH_MAX } from '../tasks/json-bounds.ts'
import type { JsonObject } from '../tasks/todo.ts'

/** Default of {@link OutboxBounds.endedKeptMs}. */
export const OUTBOX_ENDED_KEPT_MS = 7 * 86_400_000

export interface OutboxBounds {
  messagesMax: number
  /** over the messages as JSON */
  bytesMax: number
  /** waiting for one audience */
  messagesPerAudienceMax: number
  ttlMaxMs: number
  /** what ended stays to be looked at for so long, or until its place is needed */
  endedKeptMs: number
}

export const OUTBOX_BOUNDS_DEFAULT: Readonly<OutboxBounds> = {
  messagesMax: 1_000,
  bytesMax: 16 * 1_048_576,
  messagesPerAudienceMax: 200,
  ttlMaxMs: OBJECT_LIFE_MAX_MS,
  endedKeptMs: OUTBOX_ENDED_KEPT_MS
}

export type OutboxFullKind = 'audience' | 'messages' | 'bytes'

/** A message of ours and what is known of it; its content stays on disk. */
export interface OutboxEntry {
  /** 16 hex digits, of (from, to, messageId) */
  readonly id: string
  /** sorts a lane in order of acceptance */
  readonly key: string
  /** home EID of the local agent */
  readonly from: EidHex
  /** as it was named; it may have another EID by now */
  readonly to: EidHex
  readonly messageId: string
  readonly bytes: number
  readonly acceptedAtMs: number
  readonly expiresAtMs: number
  readonly state: OutboxState
  /** when the state was learnt */
  readonly changedAtMs: number
  /** who signed that it holds it */
  readonly keepers: readonly EidHex[]
  /** the task that it became */
  readonly task?: string
  /** the span that it was accepted in */
  readonly traceparent?: string
}

/** Signed words about a message: what a sender can show. */
export interface OutboxEvidence {
  receipts: { keeper: EidHex; receipt: Uint8Array }[]
  confirmation: Uint8Array | undefined
}

/** What comes along with news. */
export interface OutboxLearnt {
  receipts?: OutboxEvidence['receipts'] | undefined
  confirmation?: Uint8Array | undefined
  task?: string | undefined
  /** the end of the sealed copies that are out: before it nobody can say that the message expired */
  untilMs?: number | undefined
}

export interface OutboxEvent {
  entry: OutboxEntry
  before: OutboxState | undefined
}

interface Row extends Omit<OutboxEntry, 'keepers' | 'bytes'> {
  readonly message: Uint8Array
  readonly evidence: OutboxEvidence
}

/**
 * Messages that this node undertook to deliver, on disk before anybody is told so, by sender and audience in order (protocol/README.md §7). A place is
 * reserved before the write and given back when it fails, so that no bound is passed.
 */
export class Outbox {
  readonly #store: Store
  readonly #crypto: CryptoProvider
  readonly #clock: Clock
  readonly #settled: SettledTime
  readonly #bounds: OutboxBounds
  readonly #table: Table<Uint8Array>
  /** bounded by messagesMax; by id */
  readonly #entries = new Map<string, OutboxEntry>()
  readonly #locks = new KeyedLock()
  readonly #listeners = new Set<(event: OutboxEvent) => void>()
  #bytes = 0
  #damaged = 0
  #lastSequence = 0

  private constructor(components: { store: Store; crypto: CryptoProvider; clock: Clock }, bounds: OutboxBounds) {
    this.#store = components.store
    this.#crypto = components.crypto
    this.#clock = components.clock
    this.#settled = new SettledTime(components.clock)
    this.#bounds = bounds
    this.#table = components.store.table('outbox', bytesCodec)
  }

  static async open(
    components: { store: Store; crypto: CryptoProvider; clock: Clock },
    bounds: Partial<OutboxBounds> = {}
  ): Promise<Outbox> {
    const outbox = new Outbox(components, { ...OUTBOX_BOUNDS_DEFAULT, ...bounds })
    for await (const [key, value] of outbox.#table.entries()) {
      outbox.#lastSequence = Math.max(outbox.#lastSequence, Number.parseInt(key.slice(-14), 16) || 0)
      try {
        outbox.#set(entryOf(readRow(key, value)))
      } catch (error) {
        if (!(error instanceof ProtocolError) && !(error instanceof RookeryError)) throw error
        outbox.#damaged++
      }
    }
    return outbox
  }

  /** `damaged`: rows that this open could not read; they stay where they are and hold up no other */
  usage(): { messages: number; waiting: number; bytes: number; damaged: number; bounds: OutboxBounds } {
    const waiting = [...this.#entries.values()].filter(({ state }) => awaitsDelivery(state)).length
    return { messages: this.#entries.size, waiting, bytes: this.#bytes, damaged: this.#damaged, bounds: this.#bounds }
  }

  /**
   * Takes a message over. The same again is the same entry.
   * @throws RookeryError `OUTBOX_FULL` (data.kind), `MESSAGE_ID_REUSED`, `STORE_WRITE_FAILED`: then nothing is undertaken
   */
  async add(input: {
    from: EidHex
    to: EidHex
    message: JsonObject
    ttlMs?: number | undefined
    traceparent?: string | undefined
  }): Promise<{ entry: OutboxEntry; again: boolean }> {
    const { from, to, traceparent } = input
    const messageId = String(input.message.messageId)
    const id = toHex(this.#crypto.sha256(utf8(`${from}/${to}/${messageId}`)).subarray(0, 8))
    const message = utf8(canonicalJson(input.message, ENVELOPE_DEPTH_MAX))
    return await this.#locks.run(id, async () => {
      const held = this.#entries.get(id)
      if (held !== undefined) {
        if (!equals((await this.#row(held.key)).message, message)) throw reused(messageId)
        return { entry: held, again: true }
      }
      const nowMs = this.#clock.nowMs()
      this.#lastSequence = Math.max(this.#lastSequence + 1, nowMs)
      const row: Row = {
        id,
        key: `${from}/${to}/${this.#lastSequence.toString(16).padStart(14, '0')}`,
        from,
        to,
        messageId,
        message,
        acceptedAtMs: nowMs,
        expiresAtMs: nowMs + Math.min(input.ttlMs ?? this.#bounds.ttlMaxMs, this.#bounds.ttlMaxMs, OBJECT_LIFE_MAX_MS),
        state: { name: 'queued-here' },
        changedAtMs: nowMs,
        evidence: { receipts: [], confirmation: undefined },
        ...(traceparent === undefined ? {} : { traceparent })
      }
      const entry = entryOf(row)
      await this.#locks.run('room', async () => {
        await this.#makeRoom(to, message.length)
        this.#set(entry)
      })
      try {
        await this.#store.commit([this.#table.put(row.key, rowValue(row))])
      } catch (error) {
        this.#forget(entry)
        throw error
      }
      this.#tell({ entry, before: undefined })
      return { entry, again: false }
    })
  }

  /** In order of acceptance. */
  list({ isOpen = false }: { isOpen?: boolean } = {}): OutboxEntry[] {
    const all = [...this.#entries.values()].filter(({ state }) => !isOpen || awaitsDelivery(state))
    return all.sort((a, b) => (a.key.slice(-14) < b.key.slice(-14) ? -1 : 1))
  }

  get(id: string): OutboxEntry | undefined {
    return this.#entries.get(id)
  }

  /** What is not at its end between the two, in order. */
  lane(from: EidHex, to: EidHex): OutboxEntry[] {
    return this.list().filter((one) => one.from === from && one.to === to && !isOutboxEnd(one.state))
  }

  async message(entry: OutboxEntry): Promise<JsonObject> {
    return parseStored((await this.#row(entry.key)).message) as JsonObject
  }

  async evidence(entry: OutboxEntry): Promise<OutboxEvidence> {
    return (await this.#row(entry.key)).evidence
  }

  /**
   * Writes down what was learnt, synced, then tells the listeners; news older than what is known change nothing.
   * @throws RookeryError `STORE_WRITE_FAILED`: then nothing was learnt
   */
  async learn(
    id: string,
    news: OutboxState,
    { receipts, confirmation, task, untilMs }: OutboxLearnt = {}
  ): Promise<OutboxEntry | undefined> {
    return await this.#locks.run(id, async () => {
      const held = this.#entries.get(id)
      if (held === undefined) return undefined
      const state = afterNews(held.state, news)
      const row = await this.#row(held.key)
      const next: Row = {
        ...row,
        state,
        expiresAtMs: Math.max(row.expiresAtMs, untilMs ?? 0),
        changedAtMs: sameState(state, held.state) ? held.changedAtMs : this.#clock.nowMs(),
        evidence: { receipts: receipts ?? row.evidence.receipts, confirmation: confirmation ?? row.evidence.confirmation },
        ...(task === undefined ? {} : { task })
      }
      const entry = entryOf(next)
      const isSame =
        sameState(state, held.state) &&
        entry.task === held.task &&
        entry.keepers.join() === held.keepers.join() &&
        entry.expiresAtMs === held.expiresAtMs
      if (isSame && confirmation === undefined) return held
      await this.#store.commit([this.#table.put(held.key, rowValue(next))], { room: 'reserve' })
      this.#set(entry)
      if (!sameState(state, held.state)) this.#tell({ entry, before: held.state })
      return entry
    })
  }

  /** Lets go of a message: nothing more is tried or asked. What keepers hold of it may still be delivered. */
  async drop(id: string): Promise<boolean> {
    return await this.#locks.run(id, async () => {
      const held = this.#entries.get(id)
      if (held === undefined) return false
      await this.#store.commit([this.#table.del(held.key)])
      this.#forget(held)
      return true
    })
  }

  /** Marks what ran out of time, forgets what ended long ago. */
  async sweep(): Promise<void> {
    const nowMs = this.#settled.nowMs()
    for (const { id, state, expiresAtMs, changedAtMs } of this.list()) {
      if (awaitsDelivery(state) && expiresAtMs <= nowMs) await this.learn(id, { name: 'expired' })
      else if (!awaitsDelivery(state) && Math.max(changedAtMs + this.#bounds.endedKeptMs, expiresAtMs) <= nowMs) await this.drop(id)
    }
  }

  onEvent(listener: (event: OutboxEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** What has ended makes room, the oldest first; what waits never does. */
  async #makeRoom(to: EidHex, bytes: number): Promise<void> {
    const waiting = this.list({ isOpen: true })
    const full = (kind: OutboxFullKind) => {
      throw new RookeryError(
        'OUTBOX_FULL',
        `${waiting.length} messages (${this.#bytes} bytes) wait in the outbox: its bound "${kind}" is reached`,
        {
          kind: 'unavailable',
          field: 'message',
          data: { kind, bounds: { ...this.#bounds } },
          remedy: 'wait until some are delivered, drop some with `rookery outbox drop`, or raise the bounds under outbox'
        }
      )
    }
    if (waiting.filter((one) => one.to === to).length >= this.#bounds.messagesPerAudienceMax) full('audience')
    const fits = () => this.#entries.size < this.#bounds.messagesMax && this.#bytes + bytes <= this.#bounds.bytesMax
    for (const one of this.list()) {
      if (fits()) return
      if (!awaitsDelivery(one.state)) await this.drop(one.id)
    }
    if (!fits()) full(this.#entries.size >= this.#bounds.messagesMax ? 'messages' : 'bytes')
  }

  async #row(key: string): Promise<Row> {
    const value = await this.#table.get(key)
    if (value === undefined) throw new RookeryError('OUTBOX_UNKNOWN', 'the message is no longer in the outbox', { kind: 'notFound' })
    return readRow(key, value)
  }

  #set(entry: OutboxEntry): void {
    const held = this.#entries.get(entry.id)
    this.#bytes += entry.bytes - (held?.bytes ?? 0)
    this.#entries.set(entry.id, entry)
  }

  #forget(entry: OutboxEntry): void {
    if (this.#entries.delete(entry.id)) this.#bytes -= entry.bytes
  }

  #tell(event: OutboxEvent): void {
    for (const listener of this.#listeners) listener(event)
  }
}

function sameState(a: OutboxState, b: OutboxState): boolean {
  return a.name === b.name && (a.name !== 'kept' || (b.name === 'kept' && a.by === b.by))
}

function reused(messageId: string): RookeryError {
  return new RookeryError('MESSAGE_ID_REUSED', `message "${messageId.slice(0, 64)}" was handed over before with other content`, {
    kind: 'conflict',
    field: 'messageId',
    remedy: 'give every message an id of its own'
  })
}

function entryOf({ message, evidence, ...rest }: Row): OutboxEntry {
  return { ...rest, bytes: message.length, keepers: evidence.receipts.map(({ keeper }) => keeper) }
}

function rowValue({ id, messageId, message, acceptedAtMs, expiresAtMs, state, changedAtMs, evidence, task, traceparent }: Row): Uint8Array {
  return encodeCbor({
    v: 1,
    id,
    mid: messageId,
    msg: message,
    at: acceptedAtMs,
    exp: expiresAtMs,
    state: state.name,
    by: state.name === 'kept' ? state.by : undefined,
    reason: state.name === 'refused' ? state.reason : undefined,
    changed: changedAtMs,
    task,
    trace: traceparent,
    receipts: evidence.receipts.map(({ keeper, receipt }) => [keeper, receipt]),
    conf: evidence.confirmation
  })
}

function readRow(key: string, row: Uint8Array): Row {
  const fields = new CborFields(decodeCbor(row), 'outbox')
  fields.uint('v', { min: 1, max: 1 })
  const name = fields.oneOf('state', OUTBOX_STATES)
  const by = fields.optional('by', (member) => fields.uint(member, { max: KEPT_BY_MAX })) ?? 0
  const reason = fields.optional('reason', (member) => fields.text(member, { bytesMax: REFUSAL_REASON_BYTES_MAX })) ?? ''
  const task = fields.optional('task', (member) => fields.text(member, { bytesMax: 128 }))
  const traceparent = fields.optional('trace', (member) => fields.text(member, { bytesMax: TRACEPARENT_CHARS_MAX }))
  return {
    id: fields.text('id', { bytesMax: 16 }),
    key,
    from: key.slice(0, 64) as EidHex,
    to: key.slice(65, 129) as EidHex,
    messageId: fields.text('mid', { bytesMax: 4_096 }),
    message: fields.bytes('msg', { max: Number.MAX_SAFE_INTEGER }),
    acceptedAtMs: fields.uint('at'),
    expiresAtMs: fields.uint('exp'),
    state: name === 'kept' ? { name, by } : name === 'refused' ? { name, reason } : { name },
    changedAtMs: fields.uint('changed'),
    ...(task === undefined ? {} : { task }),
    ...(traceparent === undefined ? {} : { traceparent }),
    evidence: {
      receipts: fields.list('receipts', { max: KEPT_BY_MAX }, readReceipt),
      confirmation: fields.optional('conf', (member) => fields.bytes(member, { max: CONFIRMATION_BYTES_MAX }))
    }
  }
}

function readReceipt(item: CborValue): OutboxEvidence['receipts'][number] {
  const [keeper, receipt] = Array.isArray(item) ? item : []
  if (typeof keeper !== 'string' || !(receipt instanceof Uint8Array) || receipt.length > RECEIPT_BYTES_MAX) {
    throw new RookeryError('STORE_DAMAGED', 'a receipt in the outbox cannot be read', { kind: 'storage' })
  }
  return { keeper: keeper as EidHex, receipt }
}

import { ProtocolError } from '../../protocol/errors.ts'
import { LazyMap } from '../../protocol/lazy.ts'
import { Fifo } from '../../protocol/session/fifo.ts'
import { ITEM_PAYLOAD_BYTES_MAX } from '../../protocol/session/items.ts'
import type { Outgoing, Unacked } from '../../protocol/session/journal.ts'
import { CHANNELS_MAX } from '../../protocol/session/ready.ts'
import { RookeryError } from '../errors.ts'
import type { WriteOp } from '../store/store.ts'
import type { ItemTag } from './epoch-owner.ts'
import type { Housekeeping } from './housekeeping.ts'
import type { LiveSession } from './live-session.ts'
import { neverSent, sessionError } from './session-errors.ts'
import type { SessionState } from './session-state.ts'
import type { JournalTag } from './session-store.ts'

/** Items of one session that wait to be sent or acknowledged; above it `send` refuses. */
export const SEND_ITEMS_MAX = 16_384
/** Their bytes in all. */
export const SEND_BYTES_MAX = 64 * 1024 * 1024
/** Their bytes in all sessions of a node; above it only sessions that have less than SEND_BYTES_FAIR of it may add to it. */
export const SEND_BYTES_ALL_MAX = 512 * 1024 * 1024
export const SEND_BYTES_FAIR = 1024 * 1024

/** Cancelled items that may wait among the others before they are cleared out. */
const CANCELLED_KEPT = 32
const NOTHING = new Uint8Array(0)

export interface Pending {
  kind: number
  channel: number
  payload: Uint8Array
  tag: JournalTag
  cancelled: boolean
  numbered: boolean
}

/**
 * What a session is to send: everything that one turn queued, and all that comes while a sync is under way, is numbered, written and synced
 * together, then sent.
 */
export class Outbox {
  readonly #s: SessionState
  readonly #housekeeping: Housekeeping
  readonly #onIdle: () => void
  /** by channel, what waits for its number; bounded by SEND_ITEMS_MAX and SEND_BYTES_MAX */
  readonly #pending = new LazyMap<number, Fifo<Pending>>()
  #items = 0
  #bytes = 0
  #flushing = false
  /** cancelled items among those that wait for their number; never many more than the others */
  #cancelled = 0

  /** @param onIdle - the journal was written, and nothing waited any more that could be numbered */
  constructor(state: SessionState, housekeeping: Housekeeping, onIdle: () => void) {
    this.#s = state
    this.#housekeeping = housekeeping
    this.#onIdle = onIdle
    for (const { item } of state.journal.entries) this.count(item.payload.length)
  }

  /** Items that wait to be sent or acknowledged. */
  get items(): number {
    return this.#items
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Something waits for its number. */
  get hasPending(): boolean {
    return this.#pending.size > 0
  }

  get isFlushing(): boolean {
    return this.#flushing
  }

  pending(channel: number): Iterable<Pending> {
    return this.#pending.get(channel) ?? []
  }

  *allPending(): Iterable<Pending> {
    for (const waiting of this.#pending.values()) yield* waiting
  }

  count(bytes: number): void {
    this.#items += 1
    this.#bytes += bytes
  }

  uncount(bytes: number): void {
    this.#items -= 1
    this.#bytes -= bytes
  }

  /** @throws RookeryError `MESSAGE_TOO_LARGE`, `SESSION_CLOSED`, `SESSION_QUEUE_FULL` */
  checkRoom(bytes: number): void {
    if (bytes > ITEM_PAYLOAD_BYTES_MAX) {
      throw sessionError('MESSAGE_TOO_LARGE', `a message of ${bytes} bytes, at most ${ITEM_PAYLOAD_BYTES_MAX} go through a session`, {
        field: 'payload',
        value: bytes,
        remedy: 'send it in parts'
      })
    }
    const { end, phase, closeWanted } = this.#s
    if (end !== undefined || phase === 'closing' || closeWanted !== undefined) throw this.#s.closedError()
    if (this.#items >= SEND_ITEMS_MAX || this.#bytes + bytes > SEND_BYTES_MAX || this.#isUnfair(bytes)) {
      throw sessionError('SESSION_QUEUE_FULL', `${this.#items} messages (${this.#bytes} bytes) wait in this session`, {
        field: 'payload',
        remedy: 'wait until earlier sends have resolved',
        data: { itemsMax: SEND_ITEMS_MAX, bytesMax: SEND_BYTES_MAX }
      })
    }
  }

  /** Peers that acknowledge nothing make their sessions' journals grow: together they get no more than the node has for it. */
  #isUnfair(bytes: number): boolean {
    if (this.#bytes + bytes <= SEND_BYTES_FAIR) return false
    return (this.#s.init.sendBytesAll?.() ?? 0) + bytes > (this.#s.init.sendBytesAllMax ?? SEND_BYTES_ALL_MAX)
  }

  /** @returns cancels it while it still waits */
  sendLive(channel: number, payload: Uint8Array, tag: JournalTag): (reason: unknown) => void {
    const { epoch } = this.#s
    if (epoch === undefined || !epoch.isOpen) throw neverSent('disconnected')
    const counted = this.#counted(payload.length, tag)
    try {
      const { cancel } = epoch.queueLive(channel, payload, counted)
      return (reason) => {
        if (cancel()) counted.reject(reason) // else it is on its way, and counts until the transport took it
      }
    } catch (error) {
      counted.reject(error)
      throw this.#sendError(error, channel)
    }
  }

  #counted(bytes: number, tag: JournalTag): JournalTag {
    this.count(bytes)
    let open = true
    const settle = () => {
      if (!open) return
      open = false
      this.uncount(bytes)
    }
    return {
      atMs: tag.atMs,
      resolve: () => {
        settle()
        tag.resolve()
      },
      reject: (error) => {
        settle()
        tag.reject(error)
      }
    }
  }

  /** @returns cancels it while it has no number */
  sendDurable(channel: number, kind: number, payload: Uint8Array, tag: JournalTag): () => void {
    this.#checkChannel(channel)
    const pending: Pending = { kind, channel, payload, tag, cancelled: false, numbered: false }
    this.count(payload.length)
    const waiting = this.#pending.get(channel) ?? new Fifo<Pending>()
    this.#pending.set(channel, waiting)
    waiting.push(pending)
    this.#s.touch()
    this.flush()
    return () => this.#cancelPending(pending)
  }

  /** What has no number yet never gets one, and lets go of its room however long others before it wait. */
  #cancelPending(pending: Pending): void {
    const waiting = this.#pending.get(pending.channel)
    if (pending.numbered || pending.cancelled || waiting === undefined) return
    pending.cancelled = true
    this.uncount(pending.payload.length)
    pending.payload = NOTHING
    this.#cancelled += 1
    this.flush()
    if (this.#cancelled <= CANCELLED_KEPT || this.#cancelled * 2 <= this.#items) return
    this.#cancelled = 0
    for (const [channel, one] of this.#pending) {
      one.retain(({ cancelled }) => !cancelled)
      if (one.length === 0) this.#pending.delete(channel)
    }
  }

  #checkChannel(channel: number): void {
    const { heads } = this.#s.journal
    if (heads.has(channel) || this.#pending.has(channel)) return
    let used = heads.size
    for (const one of this.#pending.keys()) if (!heads.has(one)) used += 1
    if (used >= CHANNELS_MAX) {
      throw this.#sendError(new ProtocolError('RANGE', `a session has at most ${CHANNELS_MAX} channels`, { field: 'channel' }), channel)
    }
  }

  #sendError(cause: unknown, channel: number): Error {
    if (cause instanceof ProtocolError && cause.code === 'RANGE') {
      return new RookeryError('CHANNELS_MAX', cause.message, { kind: 'usage', field: 'channel', value: channel, cause })
    }
    return this.#s.closedError()
  }

  /** Soon, once: what may be numbered is. */
  flush(): void {
    if (this.#flushing || this.#s.end !== undefined) return
    this.#flushing = true
    queueMicrotask(() => void this.#writeJournal())
  }

  /** Resolves once all that was sent before is in the journal, on disk. */
  async journaled(): Promise<void> {
    while (this.#flushing) {
      await Promise.resolve()
      await this.#s.written()
    }
  }

  async #writeJournal(): Promise<void> {
    try {
      await this.#s.stored
      for (let batch = this.#takePending(); batch.length > 0; batch = this.#takePending()) await this.#writeBatch(batch)
    } catch (error) {
      this.#s.log.error({ err: error }, 'the journal could not be written')
    } finally {
      this.#flushing = false
    }
    this.#onIdle()
  }

  async #writeBatch(batch: { pending: Pending; reserved: LiveSession | undefined }[]): Promise<void> {
    const { journal, init, id } = this.#s
    const ops: WriteOp[] = []
    const entries: { entry: Unacked<JournalTag>; reserved: LiveSession | undefined }[] = []
    for (const { pending, reserved } of batch) {
      const { kind, channel, payload, tag } = pending
      const entry = journal.append({ kind, channel, payload, tag, state: 'waiting' })
      entries.push({ entry, reserved })
      ops.push(init.store.transaction(id, entry.seq, { kind, channel, atMs: tag.atMs, payload }))
    }
    if (this.#housekeeping.isDue) ops.push(...this.#housekeeping.ops())
    try {
      await this.#s.commit(ops)
    } catch (error) {
      for (const { item } of journal.rollBack()) this.settle(item, error)
      return
    }
    for (const { entry, reserved } of entries) {
      const { epoch } = this.#s
      if (epoch === undefined) journal.markSynced(entry.seq)
      else epoch.enqueue(entry as Unacked<ItemTag>, reserved === epoch ? 'reserved' : 'unreserved')
    }
    this.#s.epoch?.pump()
  }

  /** It is done, or never will be: whoever waits is told. */
  settle(item: Outgoing<JournalTag>, error?: unknown): void {
    this.uncount(item.payload.length)
    if (error === undefined) item.tag.resolve()
    else item.tag.reject(error)
  }

  /** What may be numbered now, channel by channel: as much as the peer's windows take, or all of it while there is no peer. */
  #takePending(): { pending: Pending; reserved: LiveSession | undefined }[] {
    const taken: { pending: Pending; reserved: LiveSession | undefined }[] = []
    if (this.#s.end !== undefined) return taken
    const epoch = this.#s.epoch?.isOpen === true ? this.#s.epoch : undefined
    for (const [channel, waiting] of this.#pending) {
      for (let first = waiting.first(); first !== undefined; first = waiting.first()) {
        if (first.cancelled) {
          waiting.shift()
          this.#cancelled = Math.max(0, this.#cancelled - 1)
          continue
        }
        if (epoch !== undefined && !epoch.reserve(channel, first.payload.length)) break
        waiting.shift()
        first.numbered = true
        taken.push({ pending: first, reserved: epoch })
      }
      if (waiting.length === 0) this.#pending.delete(channel)
    }
    return taken
  }

  /** The newest of ours that the journal counts as acknowledged are these. */
  acked(items: readonly Outgoing<ItemTag>[]): void {
    const first = this.#s.journal.acked.seq - BigInt(items.length) + 1n
    items.forEach((item, i) => {
      this.#housekeeping.dropped(first + BigInt(i))
      this.settle(item as Outgoing<JournalTag>)
    })
    this.#s.touch()
    this.#housekeeping.soon()
    this.moved()
  }

  /** The peer's window moved, or its acknowledgments: what waits for its number may go on. */
  moved(): void {
    if (this.#pending.size > 0) this.flush()
  }

  /** Nothing that has no number yet gets one any more. */
  returnPending(reason: string): void {
    for (const { tag, payload, cancelled } of this.allPending()) {
      if (cancelled) continue
      this.uncount(payload.length)
      tag.reject(neverSent(reason))
    }
    this.#pending.clear()
  }
}

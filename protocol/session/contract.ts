import { equals } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { ITEM_KINDS } from './items.ts'
import { RateBucket, RateWindow } from './rate.ts'
import { SFC_SCOPE, type SfcBlock, type SfcField } from './sfc.ts'

/** How long after its last second a contract's session may still flush and say goodbye (protocol/README.md §6, TEARDOWN). */
export const CONTRACT_GRACE_MS = 60_000
/** What the protocol's own transactions (rotation, group key) may carry, whatever the block says: without them a session would not stay safe. */
export const OWN_PAYLOAD_BYTES_MAX = 4_096
/** Stored objects that are told apart; beyond it the newest share an entry that goes with the last of them. */
export const STORED_ENTRIES_MAX = 1_024

const MINUTE_MS = 60_000
/** the entry that objects beyond the bound share */
const REST = ''
/** A receiver closes only above so many times the rate. */
const RATE_TOLERANCE = 2

/** From this side's view. */
export type Flow = 'sent' | 'received'
/** What lasts beyond the item that made it. */
export type Lasting = 'eseBytes' | 'concurrentTasks'

/** What one side used of a contract so far. */
export interface FlowUsage {
  messages: number
  messagesLastMinute: number
  payloadBytes: number
  payloadBytesLargest: number
  /** held now on behalf of who sends */
  eseBytes: number
  storedBytes: number
  concurrentTasks: number
}

export interface ContractUsage {
  /** since the first handshake */
  seconds: number
  secondsLeft: number
  sent: FlowUsage
  received: FlowUsage
}

/** What survives a restart: everything else is made new. */
export interface ContractTotals {
  sent: FlowTotals
  received: FlowTotals
}

export interface FlowTotals {
  messages: number
  payloadBytes: number
  payloadBytesLargest: number
  /** ids of the tasks that go on */
  tasks?: string[]
  /** what is stored: name, bytes, and how long after the first handshake it expires, ms */
  stored?: [string, number, number][]
}

export interface ContractMeterInit {
  block: SfcBlock
  /** who sends in each flow; a group op of anyone else is passed on */
  eids: Readonly<Record<Flow, Uint8Array>>
  /** monotonic, milliseconds */
  nowMs: number
  /** time since the first handshake */
  ageMs: number
  /** `resumed`: sending begins without saved-up messages, since nobody knows what left just before */
  start: 'new' | 'resumed'
  totals?: ContractTotals
}

/** What an item is, as far as a contract goes. */
export interface MeteredItem {
  readonly kind: number
  readonly payload: Uint8Array
}

interface Tally {
  messages: number
  payloadBytes: number
  payloadBytesLargest: number
  readonly lasting: Record<Lasting, number>
  /** of the tasks that are counted, those that are known by an id; at most as many */
  readonly tasks: Set<string>
  /** by name; at most STORED_ENTRIES_MAX and one */
  readonly stored: Map<string, { bytes: number; untilMs: number }>
}

/**
 * Holds a session to its SFC block (protocol/README.md §6, SFC block), item by item and both ways. Nothing of it is a promise to others: going over
 * closes the session with CONTRACT and proves nothing.
 */
export class ContractMeter {
  readonly block: SfcBlock
  /** monotonic: from here on the session is being torn down */
  readonly expiresAtMs: number
  readonly #eids: Readonly<Record<Flow, Uint8Array>>
  readonly #openedMs: number
  readonly #bucket: RateBucket
  readonly #windows: Readonly<Record<Flow, RateWindow>>
  readonly #tallies: Readonly<Record<Flow, Tally>>

  constructor({ block, eids, nowMs, ageMs, start, totals }: ContractMeterInit) {
    this.block = block
    this.#eids = eids
    this.#openedMs = nowMs - ageMs
    this.expiresAtMs = this.#openedMs + block.sessionSecondsMax * 1_000
    const rate = block.messagesPerMinuteMax
    this.#bucket = new RateBucket({ perMinute: rate, start: start === 'new' ? 'full' : 'empty', nowMs })
    this.#windows = { sent: new RateWindow(MINUTE_MS), received: new RateWindow(MINUTE_MS) }
    this.#tallies = { sent: tally(totals?.sent, this.#openedMs), received: tally(totals?.received, this.#openedMs) }
  }

  /**
   * Whether an item may travel at all, whenever that is.
   * @returns the breach, `CONTRACT` naming the field of the block
   */
  refusal(flow: Flow, { kind, payload }: MeteredItem): ProtocolError | undefined {
    const { block } = this
    const bytes = payload.length
    if (kind === ITEM_KINDS.snapshotPart || !isMetered(kind)) return undefined
    if (isOwn(kind)) {
      return bytes > Math.max(OWN_PAYLOAD_BYTES_MAX, block.payloadBytesMax)
        ? over('payloadBytesMax', bytes, OWN_PAYLOAD_BYTES_MAX)
        : undefined
    }
    const missing = scopesOf(kind, payload, this.#eids[flow]).find((any) => (block.scopes & any) === 0)
    if (missing !== undefined) {
      return new ProtocolError('CONTRACT', `the contract grants no scope for items of kind 0x${kind.toString(16).padStart(2, '0')}`, {
        field: 'sfc.scopes'
      })
    }
    if (bytes > block.payloadBytesMax) return over('payloadBytesMax', bytes, block.payloadBytesMax)
    if (isEse(kind) && bytes > block.eseBytesMax) return over('eseBytesMax', bytes, block.eseBytesMax)
    if (block.messagesPerMinuteMax === 0) return over('messagesPerMinuteMax', 1, 0)
    return undefined
  }

  /** Whether the contract names the scope. @returns the breach */
  scopeRefusal(scope: keyof typeof SFC_SCOPE): ProtocolError | undefined {
    if ((this.block.scopes & SFC_SCOPE[scope]) !== 0) return undefined
    return new ProtocolError('CONTRACT', `the contract does not grant ${scope}`, { field: 'sfc.scopes' })
  }

  // ── the rate ──

  /** Whether an item may leave now. */
  maySend(kind: number, nowMs: number): boolean {
    return !isRated(kind) || this.#bucket.holds(nowMs)
  }

  /** When the next rated item may leave, monotonic. */
  get nextSendAtMs(): number {
    return this.#bucket.nextAtMs
  }

  /** An item leaves, for the first time or again in a later epoch. */
  sent(item: MeteredItem, nowMs: number): void {
    if (!isMetered(item.kind)) return
    if (isRated(item.kind)) this.#bucket.take(nowMs)
    this.#count('sent', item, nowMs)
  }

  /**
   * Items that came and are no duplicates.
   * @throws ProtocolError `CONTRACT` naming the field; nothing of the record may then take effect
   */
  received(items: readonly MeteredItem[], nowMs: number): void {
    for (const item of items) {
      if (!isMetered(item.kind)) continue
      if (nowMs > this.expiresAtMs + CONTRACT_GRACE_MS) {
        const { sessionSecondsMax } = this.block
        throw over('sessionSecondsMax', Math.floor((nowMs - this.#openedMs) / 1_000), sessionSecondsMax)
      }
      const breach = this.refusal('received', item)
      if (breach !== undefined) throw breach
      this.#count('received', item, nowMs)
    }
    const inMinute = this.#windows.received.total(nowMs)
    const max = this.block.messagesPerMinuteMax * RATE_TOLERANCE
    if (inMinute > max) throw over('messagesPerMinuteMax', inMinute, max)
  }

  #count(flow: Flow, { kind, payload }: MeteredItem, nowMs: number): void {
    const used = this.#tallies[flow]
    used.payloadBytes += payload.length
    used.payloadBytesLargest = Math.max(used.payloadBytesLargest, payload.length)
    if (!isRated(kind)) return
    used.messages += 1
    this.#windows[flow].add(nowMs)
  }

  // ── what lasts ──

  /** Takes room for what lasts beyond its item; {@link release} gives it back. @returns the breach, and nothing is taken */
  hold(flow: Flow, what: Lasting, amount: number): ProtocolError | undefined {
    const { lasting } = this.#tallies[flow]
    const field = what === 'eseBytes' ? 'eseBytesMax' : 'concurrentTasksMax'
    const next = lasting[what] + amount
    if (next > this.block[field]) return over(field, next, this.block[field])
    lasting[what] = next
    return undefined
  }

  release(flow: Flow, what: Lasting, amount: number): void {
    const { lasting } = this.#tallies[flow]
    lasting[what] = Math.max(0, lasting[what] - amount)
  }

  /** Ids of the tasks that go on. */
  tasks(flow: Flow): ReadonlySet<string> {
    return this.#tallies[flow].tasks
  }

  /** A task that {@link hold} took room for goes on under this id. @returns false for one that is counted already */
  taskGoesOn(flow: Flow, id: string): boolean {
    const { tasks } = this.#tallies[flow]
    if (tasks.has(id)) return false
    tasks.add(id)
    return true
  }

  /** Its room is free again. */
  taskEnded(flow: Flow, id: string): void {
    if (this.#tallies[flow].tasks.delete(id)) this.release(flow, 'concurrentTasks', 1)
  }

  /**
   * Takes room for an object that the other side keeps until `untilMs`, monotonic. The same object again takes no more.
   * @param object.name - what tells it from others, not empty
   * @returns the breach, and nothing is taken
   */
  store(flow: Flow, object: { name: string; bytes: number; untilMs: number }, nowMs: number): ProtocolError | undefined {
    const { stored } = this.#tallies[flow]
    const { name, bytes, untilMs } = object
    const held = this.#stored(flow, nowMs)
    if (stored.has(name)) return undefined
    if (held + bytes > this.block.storedBytesMax) return over('storedBytesMax', held + bytes, this.block.storedBytesMax)
    if (stored.size < STORED_ENTRIES_MAX) stored.set(name, { bytes, untilMs })
    else {
      const rest = stored.get(REST)
      stored.set(REST, { bytes: bytes + (rest?.bytes ?? 0), untilMs: Math.max(untilMs, rest?.untilMs ?? 0) })
    }
    return undefined
  }

  /** An object that was not kept after all. */
  unstore(flow: Flow, name: string): void {
    this.#tallies[flow].stored.delete(name)
  }

  #stored(flow: Flow, nowMs: number): number {
    const { stored } = this.#tallies[flow]
    let bytes = 0
    for (const [name, entry] of stored) {
      if (entry.untilMs > nowMs) bytes += entry.bytes
      else stored.delete(name)
    }
    return bytes
  }

  // ── for people ──

  usage(nowMs: number): ContractUsage {
    const seconds = Math.max(0, (nowMs - this.#openedMs) / 1_000)
    return {
      seconds: Math.floor(seconds),
      secondsLeft: Math.max(0, Math.ceil(this.block.sessionSecondsMax - seconds)),
      sent: this.#flowUsage('sent', nowMs),
      received: this.#flowUsage('received', nowMs)
    }
  }

  #flowUsage(flow: Flow, nowMs: number): FlowUsage {
    const { messages, payloadBytes, payloadBytesLargest, lasting } = this.#tallies[flow]
    return {
      messages,
      messagesLastMinute: this.#windows[flow].total(nowMs),
      payloadBytes,
      payloadBytesLargest,
      ...lasting,
      storedBytes: this.#stored(flow, nowMs)
    }
  }

  totals(): ContractTotals {
    const of = ({ messages, payloadBytes, payloadBytesLargest, tasks, stored }: Tally): FlowTotals => ({
      messages,
      payloadBytes,
      payloadBytesLargest,
      ...(tasks.size === 0 ? {} : { tasks: [...tasks] }),
      ...(stored.size === 0
        ? {}
        : { stored: [...stored].map(([name, { bytes, untilMs }]) => [name, bytes, Math.round(untilMs - this.#openedMs)]) })
    })
    return { sent: of(this.#tallies.sent), received: of(this.#tallies.received) }
  }
}

function tally(totals: FlowTotals | undefined, openedMs: number): Tally {
  const tasks = new Set(totals?.tasks)
  return {
    messages: totals?.messages ?? 0,
    payloadBytes: totals?.payloadBytes ?? 0,
    payloadBytesLargest: totals?.payloadBytesLargest ?? 0,
    lasting: { eseBytes: 0, concurrentTasks: tasks.size },
    tasks,
    stored: new Map((totals?.stored ?? []).map(([name, bytes, afterMs]) => [name, { bytes, untilMs: openedMs + afterMs }]))
  }
}

/** Transactions and live items; control items are the protocol's breathing. */
function isMetered(kind: number): boolean {
  return kind < 0x80 || kind === ITEM_KINDS.live
}

function isOwn(kind: number): boolean {
  return kind === ITEM_KINDS.rotation || kind === ITEM_KINDS.groupKey
}

function isRated(kind: number): boolean {
  return isMetered(kind) && !isOwn(kind) && kind !== ITEM_KINDS.snapshotPart
}

function isEse(kind: number): boolean {
  return kind === ITEM_KINDS.eseOp || kind === ITEM_KINDS.eseView || kind === ITEM_KINDS.groupOp
}

/** What a kind needs: of each number one bit at least. A kind of a later version has no effect, and needs none. */
function scopesOf(kind: number, payload: Uint8Array, sender: Uint8Array): number[] {
  switch (kind) {
    case ITEM_KINDS.eseOp:
      return [SFC_SCOPE.WRITE_ESE]
    case ITEM_KINDS.eseView:
      return [SFC_SCOPE.READ_ESE | SFC_SCOPE.WRITE_ESE]
    case ITEM_KINDS.a2a:
      return [SFC_SCOPE.SEND_MESSAGES]
    case ITEM_KINDS.mailbox:
      return [SFC_SCOPE.MAILBOX]
    case ITEM_KINDS.live:
      return [SFC_SCOPE.STREAM]
    case ITEM_KINDS.channelControl:
      return [SFC_SCOPE.SEND_MESSAGES | SFC_SCOPE.STREAM]
    case ITEM_KINDS.groupOp:
      return equals(payload.subarray(20, 52), sender) ? [SFC_SCOPE.WRITE_ESE] : [SFC_SCOPE.WRITE_ESE, SFC_SCOPE.RELAY]
    default:
      return []
  }
}

function over(field: SfcField, value: number, limit: number): ProtocolError {
  return new ProtocolError('CONTRACT', `the contract's ${field} is ${limit}, this takes ${value}`, { field: `sfc.${field}` })
}

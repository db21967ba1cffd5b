import { ProtocolError } from '../../protocol/errors.ts'
import { type ChannelControl, decodeChannelControl, encodeChannelControl } from '../../protocol/session/channel-control.ts'
import { Fifo } from '../../protocol/session/fifo.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { CHANNELS_MAX } from '../../protocol/session/ready.ts'
import { windowCost } from '../../protocol/session/window.ts'
import { RookeryError } from '../errors.ts'
import { allowManyListeners } from '../platform/many-listeners.ts'
import { Arrivals } from './arrivals.ts'
import { channelEnded, channelGap, channelLost, channelStopped } from './channel-errors.ts'
import type { Inbound, Session } from './session.ts'

/** Sub-channels of an unordered channel where nobody asks for another number. */
export const UNORDERED_LANES = 8

export interface ChannelOptions {
  /** `durable` (default): transactions, acknowledged when they were read. `live`: fast, gone with the connection */
  mode?: 'durable' | 'live'
  /** `unordered`: messages do not wait for each other; takes the channels `number` to `number + lanes − 1`. Both sides say the same */
  order?: 'ordered' | 'unordered'
  lanes?: number
}

type Entry = { lane: number; handled: () => void } & ({ what: 'message'; item: Inbound } | { what: 'end' })

/** What a channel number of a session carries, from one {@link Channel} to the next. */
interface Place {
  channel: Channel
  /** what came after the peer's end, for the channel opened next; unhandled, so the windows bound it */
  later: Entry[]
}

const places = new WeakMap<Session, Map<number, Place>>()

/**
 * A channel of a session for the application's own messages, up to 1 MiB each (longer: `openStream`). Opening is local: it costs no round trip, and
 * the stream that carries it is opened with the first message. A channel that is open is given back as it is.
 * @throws RookeryError `CHANNEL_NUMBER`
 */
export function openChannel(session: Session, number: number, options: ChannelOptions = {}): Channel {
  const lanes = options.order === 'unordered' ? (options.lanes ?? UNORDERED_LANES) : 1
  if (!Number.isInteger(number) || number < 1 || !Number.isInteger(lanes) || lanes < 1 || lanes > CHANNELS_MAX || number + lanes > 65_536) {
    throw new RookeryError('CHANNEL_NUMBER', `no channels ${number} to ${number + lanes - 1}`, {
      kind: 'usage',
      field: 'number',
      value: number
    })
  }
  const of = places.get(session) ?? placesOf(session)
  const held = of.get(number)
  if (held !== undefined && !held.channel.isOver) return held.channel
  const channel = new Channel(session, number, { mode: options.mode ?? 'durable', lanes }, held?.later ?? [])
  of.set(number, { channel, later: channel.later })
  return channel
}

function placesOf(session: Session): Map<number, Place> {
  const of = new Map<number, Place>()
  places.set(session, of)
  session.onEvent(({ kind }) => {
    if (kind === 'disconnected' || kind === 'resumed') for (const { channel } of of.values()) channel.connectionChanged()
  })
  void session.closed.then(({ reason }) => {
    for (const { channel } of of.values()) channel.sessionEnded(reason)
  })
  return of
}

/** Messages both ways, each direction with its own end (half-close). Made by {@link openChannel}. */
export class Channel implements AsyncIterable<Inbound> {
  readonly number: number
  readonly mode: 'durable' | 'live'
  /** what came after the peer's end */
  readonly later: Entry[] = []
  readonly #session: Session
  readonly #kind: number
  /** by lane, bytes that were sent and are not done, in the window's measure */
  readonly #underWay: number[]
  readonly #laneEnded: boolean[]
  /** what came and was not read; unhandled, so the windows bound it */
  readonly #queue = new Fifo<Entry>()
  readonly #stopped = new AbortController()
  readonly #peerEnded = Promise.withResolvers<void>()
  #next = 0
  #handled: (() => void) | undefined
  readonly #arrivals = new Arrivals()
  #gap = false
  #closed: string | undefined
  #sending: 'open' | 'ended' = 'open'
  #reading: 'open' | 'stopped' | 'ended' = 'open'

  constructor(session: Session, number: number, { mode, lanes }: { mode: 'durable' | 'live'; lanes: number }, before: Entry[]) {
    this.number = number
    this.mode = mode
    this.#session = session
    this.#kind = mode === 'durable' ? ITEM_KINDS.a2a : ITEM_KINDS.live
    this.#underWay = new Array<number>(lanes).fill(0)
    this.#laneEnded = new Array<boolean>(lanes).fill(false)
    allowManyListeners(this.#stopped.signal)
    for (const entry of before) this.#queue.push(entry)
    for (let lane = 0; lane < lanes; lane++) session.onChannel(number + lane, (item) => this.#take(item, lane))
  }

  /** A connection of the session ended, or another took its place. */
  connectionChanged(): void {
    if (this.mode === 'live' && this.#reading === 'open') this.#gap = true
    this.#arrivals.wake()
  }

  sessionEnded(reason: string): void {
    this.#closed = reason
    this.#arrivals.wake()
  }

  /** Both directions ended: the number may be opened again. */
  get isOver(): boolean {
    return (this.#sending === 'ended' && this.#reading === 'ended') || this.#closed !== undefined
  }

  /** Resolves once the peer's end was read. */
  get peerEnded(): Promise<void> {
    return this.#peerEnded.promise
  }

  // ── sending ──

  /**
   * Sends one message; resolves when the peer read it (durable) or the transport took it (live). Waits while the peer is slow: without reading, at
   * most 2 MiB of a channel, or of each lane, are under way. The payload is not copied.
   * @throws RookeryError `CHANNEL_ENDED`, `CHANNEL_STOPPED`, those of {@link Session.send}; or the signal's reason
   */
  async send(payload: Uint8Array, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.#sending === 'ended') throw channelEnded(this.number)
    this.#stopped.signal.throwIfAborted()
    const lane = this.#freestLane()
    const cost = windowCost(payload.length)
    this.#underWay[lane] = (this.#underWay[lane] ?? 0) + cost
    const stopped = this.#stopped.signal
    try {
      await this.#session.send(this.number + lane, this.#kind, payload, {
        signal: signal === undefined ? stopped : AbortSignal.any([signal, stopped])
      })
    } finally {
      this.#underWay[lane] = (this.#underWay[lane] ?? cost) - cost
    }
  }

  /** The lane with the least under way; in turn, where several are equal. */
  #freestLane(): number {
    const lanes = this.#underWay.length
    let best = this.#next % lanes
    for (let i = 1; i < lanes; i++) {
      const lane = (this.#next + i) % lanes
      if ((this.#underWay[lane] ?? 0) < (this.#underWay[best] ?? 0)) best = lane
    }
    this.#next = (best + 1) % lanes
    return best
  }

  /** Half-close: the peer reads what is under way and then the end. Resolves when it read the end. Reading goes on. */
  async end({ signal }: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.#sending === 'ended') return
    this.#sending = 'ended'
    await Promise.all(this.#underWay.map((_, lane) => this.#control(lane, { op: 'end' }, signal)))
  }

  async #control(lane: number, control: ChannelControl, signal?: AbortSignal): Promise<void> {
    const options = signal === undefined ? {} : { signal }
    await this.#session.send(this.number + lane, ITEM_KINDS.channelControl, encodeChannelControl(control), options)
  }

  // ── receiving ──

  async #take(item: Inbound, lane: number): Promise<void> {
    if (item.kind === ITEM_KINDS.channelControl) {
      const control = decoded(item.payload)
      if (control?.op === 'stop') this.#stopped.abort(channelStopped(this.number, control.code))
      if (control?.op !== 'end') return
      await this.#push((handled) => ({ what: 'end', lane, handled }))
    } else if (item.kind === this.#kind) await this.#push((handled) => ({ what: 'message', item, lane, handled }))
  }

  #push(entry: (handled: () => void) => Entry): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const one = entry(resolve)
    if (this.#reading === 'ended') this.later.push(one)
    else {
      this.#queue.push(one)
      if (this.#reading === 'stopped') this.#discard()
    }
    this.#arrivals.wake()
    return promise
  }

  /**
   * The next message, or undefined once the peer ended the channel and all before it was read. Asking says that the message before is done with: it
   * is acknowledged (durable), and the peer may send more.
   * @throws RookeryError `CHANNEL_GAP` (live: once for every change of connection), `CHANNEL_ENDED` (stopped by this side), `SESSION_CLOSED`
   *   (the session ended and the channel had not); or the signal's reason
   */
  async receive({ signal }: { signal?: AbortSignal } = {}): Promise<Inbound | undefined> {
    for (;;) {
      signal?.throwIfAborted()
      this.#done()
      if (this.#reading === 'ended') return undefined
      if (this.#reading === 'stopped') throw channelEnded(this.number)
      const entry = this.#queue.shift()
      if (entry !== undefined) {
        if (this.#laneEnded[entry.lane] === true) this.later.push(entry)
        else if (entry.what === 'end') this.#endLane(entry)
        else {
          this.#handled = entry.handled
          return entry.item
        }
        continue
      }
      if (this.#gap) {
        this.#gap = false
        throw channelGap(this.number)
      }
      if (this.#closed !== undefined) throw channelLost(this.number, this.#closed)
      await this.#arrivals.next(signal)
    }
  }

  #endLane(entry: Entry): void {
    entry.handled()
    this.#laneEnded[entry.lane] = true
    if (this.#laneEnded.includes(false)) return
    this.#reading = 'ended'
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) this.later.push(next)
    this.#peerEnded.resolve()
    this.#arrivals.wake()
  }

  #done(): void {
    this.#handled?.()
    this.#handled = undefined
  }

  /** Reads no more: what comes is dropped until the peer ends the channel, and the peer's sends fail with CHANNEL_STOPPED. */
  async stop({ code = 0, signal }: { code?: number; signal?: AbortSignal } = {}): Promise<void> {
    if (this.#reading !== 'open') return
    this.#reading = 'stopped'
    this.#done()
    this.#discard()
    this.#arrivals.wake()
    await this.#control(0, { op: 'stop', code }, signal)
  }

  #discard(): void {
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      if (this.#laneEnded[next.lane] === true) this.later.push(next)
      else if (next.what === 'end') this.#endLane(next)
      else next.handled()
    }
  }

  /** Messages until the peer's end; leaving the loop keeps the channel open, and the message at hand counts as read. */
  async *messages(options: { signal?: AbortSignal } = {}): AsyncGenerator<Inbound, void, undefined> {
    try {
      for (let item = await this.receive(options); item !== undefined; item = await this.receive(options)) yield item
    } finally {
      this.#done()
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<Inbound, void, undefined> {
    return this.messages()
  }

  /** Ends this side's direction, if it is open, and stops reading. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed !== undefined) return
    await Promise.allSettled([this.end(), this.stop()])
  }
}

/** An op of a later version has no effect. */
function decoded(payload: Uint8Array): ChannelControl | undefined {
  try {
    return decodeChannelControl(payload)
  } catch (error) {
    if (error instanceof ProtocolError) return undefined
    throw error
  }
}

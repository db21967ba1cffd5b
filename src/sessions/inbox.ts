import { ProtocolError } from '../../protocol/errors.ts'
import { LazyMap } from '../../protocol/lazy.ts'
import type { Position } from '../../protocol/session/ledger.ts'
import { WINDOW_START_BYTES, windowCost } from '../../protocol/session/window.ts'
import type { WriteOp } from '../store/store.ts'
import { Arrivals } from './arrivals.ts'
import type { DeliverEffect } from './epoch-owner.ts'
import type { Housekeeping } from './housekeeping.ts'
import type { LiveSession } from './live-session.ts'
import type { Inbound } from './session.ts'
import type { SessionState } from './session-state.ts'

/** What a peer may send to channels that nobody serves (yet), in windows' measure; above it the session is closed. */
export const UNSERVED_BYTES_MAX = 1_048_576
/**
 * What handlers of one channel may have in hand, in windows' measure, whatever epochs it came in. One epoch's window allows as much; a peer that takes
 * the session up again gets a new window, but is not read on this channel until there is room.
 */
export const IN_HAND_BYTES_MAX = 2 * WINDOW_START_BYTES
/** The same over all channels, for streams whose channel is not known before their first record was read. */
export const IN_HAND_BYTES_ALL_MAX = 4 * IN_HAND_BYTES_MAX

export type ItemHandler = (item: Inbound) => Promise<void>
type Delivered = { epoch: LiveSession; effect: DeliverEffect }

/** Hands over what the peer sent: by its kind where a part of the node takes that kind on every channel, else by its channel. */
export class Inbox {
  readonly #s: SessionState
  readonly #housekeeping: Housekeeping
  readonly #ofKind = new LazyMap<number, (item: Inbound, epoch: LiveSession) => Promise<void>>()
  readonly #ofChannel = new LazyMap<number, ItemHandler>()
  /** items for channels without a handler; bounded by UNSERVED_BYTES_MAX */
  readonly #unserved = new LazyMap<number, Delivered[]>()
  /** by channel, what handlers have; on each what is added is bounded by IN_HAND_BYTES_MAX and a record, in all by IN_HAND_BYTES_ALL_MAX and a record a stream */
  readonly #inHand = new LazyMap<number, number>()
  #inHandAll = 0
  readonly #roomCame = new Arrivals()
  #unknownTold = false

  constructor(state: SessionState, housekeeping: Housekeeping) {
    this.#s = state
    this.#housekeeping = housekeeping
  }

  /** Channels that are served. */
  get channels(): Iterable<number> {
    return this.#ofChannel.keys()
  }

  onKind(kind: number, handler: (item: Inbound, epoch: LiveSession) => Promise<void>): void {
    this.#ofKind.set(kind, handler)
  }

  onChannel(channel: number, handler: ItemHandler): void {
    this.#ofChannel.set(channel, handler)
    const waiting = this.#unserved.get(channel)
    this.#unserved.delete(channel)
    for (const item of waiting ?? []) this.#hand(item, handler)
  }

  clear(): void {
    this.#unserved.clear()
    this.#roomCame.wake()
  }

  deliver(epoch: LiveSession, effect: DeliverEffect): void {
    if (effect.seq !== undefined && effect.position !== undefined) this.#s.ledger.take(effect.seq, copyOf(effect.position))
    this.#s.touch()
    if (effect.kind === 'unknown') {
      this.#tellUnknown(effect)
      this.#hand({ epoch, effect }, async () => {})
      return
    }
    const ofKind = this.#ofKind.get(effect.itemKind)
    const handler = ofKind === undefined ? this.#ofChannel.get(effect.channel) : (item: Inbound) => ofKind(item, epoch)
    if (handler !== undefined) {
      this.#hand({ epoch, effect }, handler)
      return
    }
    const waiting = this.#unserved.get(effect.channel) ?? []
    waiting.push({ epoch, effect })
    this.#unserved.set(effect.channel, waiting)
    if (this.unservedBytes > UNSERVED_BYTES_MAX) this.#dropStale()
    if (this.unservedBytes > UNSERVED_BYTES_MAX) {
      epoch.abort('violation', new ProtocolError('WINDOW', 'the peer floods channels that nobody serves', { field: 'channel' }))
    }
  }

  /** Once a session: whoever sends many shall not write our log. */
  #tellUnknown({ itemKind: kind, channel }: DeliverEffect): void {
    if (this.#unknownTold) return
    this.#unknownTold = true
    this.#s.log.warn({ kind, channel }, 'a transaction of unknown kind was acknowledged without effect; further ones are not told')
  }

  /** Of all epochs: a peer does not get this anew by taking the session up again. */
  get unservedBytes(): number {
    let bytes = 0
    for (const waiting of this.#unserved.values()) for (const { effect } of waiting) bytes += windowCost(effect.payload.length)
    return bytes
  }

  /** Live items are gone with their connection. */
  #dropStale(): void {
    for (const [channel, waiting] of this.#unserved) {
      const kept = waiting.filter(({ epoch, effect }) => effect.seq !== undefined || epoch === this.#s.epoch)
      if (kept.length === 0) this.#unserved.delete(channel)
      else this.#unserved.set(channel, kept)
    }
  }

  /**
   * Undefined, or resolves when handlers have room again for what a stream brings.
   * @param channel - undefined: of a stream that has not said yet
   */
  room(channel: number | undefined): Promise<void> | undefined {
    const hasRoom = () =>
      channel === undefined ? this.#inHandAll <= IN_HAND_BYTES_ALL_MAX : (this.#inHand.get(channel) ?? 0) <= IN_HAND_BYTES_MAX
    return hasRoom() ? undefined : this.#until(hasRoom)
  }

  async #until(hasRoom: () => boolean): Promise<void> {
    while (!hasRoom() && this.#s.end === undefined) await this.#roomCame.next(undefined)
  }

  #count(channel: number, bytes: number): void {
    const held = (this.#inHand.get(channel) ?? 0) + bytes
    if (held === 0) this.#inHand.delete(channel)
    else this.#inHand.set(channel, held)
    this.#inHandAll += bytes
    if (bytes < 0) this.#roomCame.wake()
  }

  #hand({ epoch, effect }: Delivered, handler: ItemHandler): void {
    const { channel, itemKind: kind, payload, seq } = effect
    const { init, id } = this.#s
    const bytes = payload.length
    this.#count(channel, windowCost(bytes))
    const done = () => this.#count(channel, -windowCost(bytes))
    let written = false
    const position = (): WriteOp[] => {
      if (seq === undefined || effect.position === undefined) return []
      return [{ ...init.store.position(id, seq, effect.position), onSynced: () => (written = true) }]
    }
    void new Promise<void>((resolve) => resolve(handler({ channel, kind, payload, position }))).then(
      async () => {
        if (seq !== undefined) {
          // a handler that took the position may have found that it had nothing to store
          if (!written) {
            try {
              await this.#s.commit(position())
            } catch (error) {
              this.#s.log.error({ err: error }, 'where the peer stands could not be written; the transaction is not acknowledged')
              done()
              epoch.lose(error)
              return
            }
          }
          this.#s.ledger.synced(seq)
          this.#s.runMoved()
          this.#s.epoch?.synced(seq)
          this.#housekeeping.soon()
        }
        done()
        epoch.handled(channel, bytes)
        this.#s.epoch?.pump()
      },
      (error: unknown) => {
        done()
        const text = error instanceof Error ? error.message : String(error)
        this.#s.log.error({ channel, kind, error: text }, 'a channel handler failed: the session is closed')
        ;(this.#s.epoch ?? epoch).abort('failed', error instanceof Error ? error : new Error(text))
      }
    )
  }
}

function copyOf({ channel, prev, digest }: Position): Position {
  return { channel, prev, digest }
}

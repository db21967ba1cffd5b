import { ProtocolError } from '../../protocol/errors.ts'
import type { Position } from '../../protocol/session/ledger.ts'
import type { WriteOp } from '../store/store.ts'
import type { DeliverEffect } from './epoch-owner.ts'
import type { Housekeeping } from './housekeeping.ts'
import type { LiveSession } from './live-session.ts'
import type { Inbound } from './session.ts'
import type { SessionState } from './session-state.ts'

/** What a peer may send to channels that nobody serves (yet), in windows' measure; above it the session is closed. */
export const UNSERVED_BYTES_MAX = 1_048_576

export type ItemHandler = (item: Inbound) => Promise<void>
type Delivered = { epoch: LiveSession; effect: DeliverEffect }

/** Hands over what the peer sent: by its kind where a part of the node takes that kind on every channel, else by its channel. */
export class Inbox {
  readonly #s: SessionState
  readonly #housekeeping: Housekeeping
  readonly #ofKind = new Map<number, (item: Inbound, epoch: LiveSession) => Promise<void>>()
  readonly #ofChannel = new Map<number, ItemHandler>()
  /** items for channels without a handler; bounded by UNSERVED_BYTES_MAX */
  readonly #unserved = new Map<number, Delivered[]>()

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
  }

  deliver(epoch: LiveSession, effect: DeliverEffect): void {
    if (effect.seq !== undefined && effect.position !== undefined) this.#s.ledger.take(effect.seq, copyOf(effect.position))
    this.#s.touch()
    if (effect.kind === 'unknown') {
      this.#s.log.warn({ kind: effect.itemKind, channel: effect.channel }, 'a transaction of unknown kind was acknowledged without effect')
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
    if (this.unservedBytes > UNSERVED_BYTES_MAX) {
      epoch.abort('violation', new ProtocolError('WINDOW', 'the peer floods channels that nobody serves', { field: 'channel' }))
    }
  }

  get unservedBytes(): number {
    let bytes = 0
    for (const channel of this.#unserved.keys()) bytes += this.#s.epoch?.waitingBytes(channel) ?? 0
    return bytes
  }

  #hand({ epoch, effect }: Delivered, handler: ItemHandler): void {
    const { channel, itemKind: kind, payload, seq } = effect
    const { init, id } = this.#s
    const bytes = payload.length
    let taken = false
    const ops = (): WriteOp[] => {
      if (seq === undefined || effect.position === undefined) return []
      return [init.store.position(id, seq, effect.position)]
    }
    const position = () => {
      taken = true
      return ops()
    }
    void new Promise<void>((resolve) => resolve(handler({ channel, kind, payload, position }))).then(
      async () => {
        if (seq !== undefined) {
          // a handler that took the position may have found that it had nothing to store
          if (!taken || !(await init.store.hasPosition(id, seq))) {
            try {
              await this.#s.commit(ops())
            } catch (error) {
              this.#s.log.error({ err: error }, 'where the peer stands could not be written; the transaction is not acknowledged')
              epoch.lose(error)
              return
            }
          }
          this.#s.ledger.synced(seq)
          this.#s.runMoved()
          this.#s.epoch?.synced(seq)
          this.#housekeeping.soon()
        }
        epoch.handled(channel, bytes)
        this.#s.epoch?.pump()
      },
      (error: unknown) => {
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

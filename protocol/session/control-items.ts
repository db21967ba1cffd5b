import { ProtocolError } from '../errors.ts'
import type { CheckpointExchange } from './checkpoint-exchange.ts'
import { ITEM_KINDS, type Item, isTransaction } from './items.ts'
import type { Liveness } from './liveness.ts'
import type { ReceiveSide } from './receive-side.ts'
import type { SendSide } from './send-side.ts'
import { CONTROL_CHANNEL } from './stream-init.ts'
import { decodeWindow, encodeWindow } from './window.ts'

/** Items that are neither transactions nor live, once a stream is open: windows, pings and pongs, checkpoints. Acks travel in the records' heads. */
export class ControlItems<T> {
  readonly #send: SendSide<T>
  readonly #receive: ReceiveSide
  readonly #checkpoints: CheckpointExchange
  readonly #liveness: Liveness
  /** items from 0x80 without meaning here */
  ignored = 0

  constructor(send: SendSide<T>, receive: ReceiveSide, checkpoints: CheckpointExchange, liveness: Liveness) {
    this.#send = send
    this.#receive = receive
    this.#checkpoints = checkpoints
    this.#liveness = liveness
  }

  /** Queues what is due. */
  queue(nowMs: number): void {
    const control = (kind: number, payload: Uint8Array) => this.#send.queue(CONTROL_CHANNEL, kind, payload, undefined as T)
    for (const grant of this.#receive.takeGrants()) control(ITEM_KINDS.window, encodeWindow(grant))
    const pong = this.#liveness.takePong()
    if (pong !== undefined) control(ITEM_KINDS.pong, pong)
    const checkpoint = this.#checkpoints.due(this.#send.sent, nowMs)
    if (checkpoint !== undefined) control(ITEM_KINDS.checkpoint, checkpoint)
    for (const ping of this.#liveness.takePings(nowMs)) control(ITEM_KINDS.ping, ping)
  }

  /**
   * Takes those of a record, checkpoints last: they may speak of what the others let go on.
   * @returns round trips that pongs end, ms
   * @throws ProtocolError `OUT_OF_ORDER` for what has no place here; those of windows and checkpoints
   */
  take(items: readonly Item[], nowMs: number): number[] {
    const rttsMs: number[] = []
    for (const item of items) {
      if (isTransaction(item.kind) || item.kind === ITEM_KINDS.live) continue
      const rttMs = this.#takeOne(item, nowMs)
      if (rttMs !== undefined) rttsMs.push(rttMs)
    }
    for (const { kind, payload } of items) if (kind === ITEM_KINDS.checkpoint) this.#takeCheckpoint(payload, nowMs)
    return rttsMs
  }

  #takeOne({ kind, payload }: Item, nowMs: number): number | undefined {
    switch (kind) {
      case ITEM_KINDS.ack:
      case ITEM_KINDS.checkpoint:
        return undefined
      case ITEM_KINDS.ping:
      case ITEM_KINDS.pong:
        return this.#liveness.take(kind, payload, nowMs)
      case ITEM_KINDS.window: {
        const { channel, bytes } = decodeWindow(payload)
        this.#send.grant(channel, Number(bytes))
        return undefined
      }
      case ITEM_KINDS.ready:
      case ITEM_KINDS.teardown:
      case ITEM_KINDS.revocation:
        throw new ProtocolError('OUT_OF_ORDER', `item 0x${kind.toString(16)} has no place in this record`, { field: 'kind' })
      default:
        this.ignored += 1
        return undefined
    }
  }

  #takeCheckpoint(payload: Uint8Array, nowMs: number): void {
    const point = this.#checkpoints.verify(payload, this.#receive.run.seq, nowMs)
    this.#receive.claim(point)
    this.#checkpoints.keep(payload, point, nowMs)
  }
}

import { wipe } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { LazyMap, LazySet } from '../lazy.ts'
import type { CookiePair } from './cookie.ts'
import type { Item } from './items.ts'
import { itemsBytes } from './items.ts'
import { CHANNELS_MAX } from './ready.ts'
import { RECORD_OVERHEAD_BYTES, type RecordType, readRecord, type SealedRecord, sealRecord } from './record.ts'
import { CONTROL_CHANNEL, HANDSHAKE_STREAM } from './stream-init.ts'
import { generationOf, type ReceiveKeys, recordNonce, type SendKeys } from './traffic-keys.ts'

/** Streams on which a peer may send: one a channel. */
export const STREAMS_MAX = CHANNELS_MAX + 1

/** Seals records of one direction, and knows which channels owe the peer a record of the newest key generation. */
export class RecordWriter {
  readonly #keys: SendKeys
  readonly #cookies: CookiePair
  /** channels that we send on; at most CHANNELS_MAX + 1 */
  readonly #sending = new LazySet<number>()
  readonly #announce = new LazySet<number>()
  #ackSent: bigint

  /** @param acked - what the peer knows that we acknowledged */
  constructor(keys: SendKeys, cookies: CookiePair, acked: bigint) {
    this.#keys = keys
    this.#cookies = cookies
    this.#ackSent = acked
  }

  get generation(): number {
    return this.#keys.generation
  }

  /** The newest acknowledgment that left. */
  get ackSent(): bigint {
    return this.#ackSent
  }

  /** Channels that owe a record of the newest generation. */
  get announce(): Iterable<number> & Pick<ReadonlySet<number>, 'has' | 'size'> {
    return this.#announce
  }

  /** @throws ProtocolError `REKEY_REQUIRED`: the epoch's keys are used up */
  seal(
    channel: number,
    head: { type: RecordType; flags: number; seq: bigint; hash: Uint8Array; ack: bigint },
    items: Item[],
    nowMs: number
  ): Uint8Array {
    const { type, flags, seq, hash, ack } = head
    const before = this.#keys.generation
    const { aead, nonce, rec } = this.#keys.take(RECORD_OVERHEAD_BYTES + itemsBytes(items), nowMs)
    if (this.#keys.generation !== before) for (const one of this.#sending) this.#announce.add(one)
    this.#sending.add(channel)
    this.#announce.delete(channel)
    this.#ackSent = ack
    const frame = sealRecord({ aead, nonce }, { type, flags, cookies: this.#cookies }, { rec, seq, ack, hash }, items)
    wipe(nonce)
    return frame
  }

  wipe(): void {
    this.#keys.wipe()
  }
}

/** Opens records of one direction, and holds every channel to its one stream. */
export class RecordReader {
  readonly #keys: ReceiveKeys
  readonly #cookies: CookiePair
  /** the last record number of each stream; at most STREAMS_MAX entries */
  readonly #lastRec = new LazyMap<number, bigint>()
  /** which stream carries which channel; at most STREAMS_MAX entries */
  readonly #streamOfChannel = new LazyMap<number, number>()
  readonly #channelOfStream = new LazyMap<number, number>()
  /** records dropped because their number did not rise within their stream */
  dropped = 0

  constructor(keys: ReceiveKeys, cookies: CookiePair) {
    this.#keys = keys
    this.#cookies = cookies
  }

  /**
   * @returns undefined for one that came before
   * @throws ProtocolError those of `readRecord`; `AEAD_OPEN`; `RANGE` (too many streams)
   */
  open(stream: number, frame: Uint8Array): { record: SealedRecord; plaintext: Uint8Array } | undefined {
    const record = readRecord(frame, this.#cookies)
    const last = this.#lastRec.get(stream)
    if (last === undefined && this.#lastRec.size === STREAMS_MAX) {
      throw new ProtocolError('RANGE', `a session has at most ${STREAMS_MAX} streams`, { field: 'stream' })
    }
    const { rec } = record.counters
    if (last !== undefined && rec <= last) {
      this.dropped += 1
      return undefined
    }
    const generation = generationOf(rec)
    const keys = this.#keys.for(generation)
    const plaintext = keys?.aead.open(recordNonce(keys.iv, rec), record.aad, record.sealed)
    if (plaintext === undefined) throw new ProtocolError('AEAD_OPEN', `record ${rec} does not open`)
    this.#keys.opened(stream, generation)
    this.#lastRec.set(stream, rec)
    return { record, plaintext }
  }

  /** Undefined until a record of the stream opened. */
  channelOf(stream: number): number | undefined {
    return this.#channelOfStream.get(stream)
  }

  /** A channel's items come on one stream, and a stream carries one channel. @throws ProtocolError `OUT_OF_ORDER` */
  bind(stream: number, channel: number): void {
    const bound = this.#channelOfStream.get(stream)
    const carrier = this.#streamOfChannel.get(channel)
    if (bound === channel && carrier === stream) return
    if (bound !== undefined || carrier !== undefined || (stream === HANDSHAKE_STREAM) !== (channel === CONTROL_CHANNEL)) {
      throw new ProtocolError('OUT_OF_ORDER', `channel ${channel} does not belong to stream ${stream}`, { field: 'channel' })
    }
    this.#channelOfStream.set(stream, channel)
    this.#streamOfChannel.set(channel, stream)
  }

  wipe(): void {
    this.#keys.wipe()
  }
}

import { concat, equals, Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { type ChannelHead, HASH_BYTES } from './chain.ts'
import type { JournalBase } from './journal.ts'
import { CHANNELS_MAX } from './ready.ts'

/** State bytes that one part carries. */
export const SNAPSHOT_PART_BYTES = 262_144
/** State bytes of a whole snapshot; a peer that sends more breaks the protocol. */
export const SNAPSHOT_BYTES_MAX = 16_777_216
const PARTS_MAX = SNAPSHOT_BYTES_MAX / SNAPSHOT_PART_BYTES

/** A part of what a peer is told in place of transactions that are no longer held (kind 0x06). */
export interface SnapshotPart {
  /** from 0 */
  index: number
  count: number
  base: JournalBase
  bytes: Uint8Array
}

function encodePart({ index, count, base, bytes }: SnapshotPart): Uint8Array {
  const writer = new Writer(46 + 42 * base.heads.size + bytes.length)
    .u16(index)
    .u16(count)
    .u64(base.seq)
    .bytes(base.hash)
    .u8(base.heads.size)
  for (const [channel, head] of [...base.heads].sort(([a], [b]) => a - b)) writer.u16(channel).u64(head.seq).bytes(head.digest)
  return writer.bytes(bytes).finish()
}

/**
 * The payloads of all parts, at least one: u16 i ‖ u16 of ‖ base u64 ‖ h_base 32 ‖ u8 count ‖ (channel u16 ‖ number u64 ‖ digest 32)* ‖ bytes,
 * channels rising.
 * `bytes` is the state; at most SNAPSHOT_BYTES_MAX, else RangeError.
 */
export function encodeSnapshot({ base, bytes }: { base: JournalBase; bytes: Uint8Array }): Uint8Array[] {
  if (bytes.length > SNAPSHOT_BYTES_MAX) throw new RangeError(`a snapshot of ${bytes.length} bytes, at most ${SNAPSHOT_BYTES_MAX}`)
  const count = Math.max(1, Math.ceil(bytes.length / SNAPSHOT_PART_BYTES))
  return Array.from({ length: count }, (_, index) => {
    const at = index * SNAPSHOT_PART_BYTES
    return encodePart({ index, count, base, bytes: bytes.subarray(at, at + SNAPSHOT_PART_BYTES) })
  })
}

/**
 * @returns byte fields are views into `payload`
 * @throws ProtocolError `TRUNCATED`; `RANGE` (index, count, heads beyond the base or not rising), `TOO_LARGE`
 */
export function decodeSnapshotPart(payload: Uint8Array): SnapshotPart {
  const reader = new Reader(payload)
  const index = reader.u16('index')
  const count = reader.u16('count')
  if (count === 0 || index >= count) throw new ProtocolError('RANGE', `part ${index} of ${count}`, { field: 'index' })
  if (count > PARTS_MAX) throw new ProtocolError('TOO_LARGE', `a snapshot of ${count} parts, at most ${PARTS_MAX}`, { field: 'count' })
  const seq = reader.u64('base')
  const hash = reader.bytes(HASH_BYTES, 'hash')
  const channels = reader.u8('channels')
  if (channels > CHANNELS_MAX) throw new ProtocolError('RANGE', `a snapshot of ${channels} channels`, { field: 'channels' })
  const heads = new Map<number, ChannelHead>()
  let last = -1
  for (let i = 0; i < channels; i++) {
    const channel = reader.u16('channel')
    const head = { seq: reader.u64('number'), digest: reader.bytes(HASH_BYTES, 'digest') }
    if (channel <= last) throw new ProtocolError('RANGE', `a snapshot names channel ${channel} after ${last}`, { field: 'channel' })
    if (head.seq === 0n || head.seq > seq) {
      throw new ProtocolError('RANGE', `a snapshot's head of channel ${channel} is not within its base`, { field: 'number' })
    }
    last = channel
    heads.set(channel, head)
  }
  const bytes = reader.rest()
  if (bytes.length > SNAPSHOT_PART_BYTES) {
    throw new ProtocolError('TOO_LARGE', `a snapshot part carries ${bytes.length} bytes, at most ${SNAPSHOT_PART_BYTES}`, {
      field: 'bytes'
    })
  }
  return { index, count, base: { seq, hash, heads }, bytes }
}

/** Puts the parts of one snapshot together, in their order. */
export class SnapshotParts {
  readonly base: JournalBase
  readonly #count: number
  readonly #first: Uint8Array
  readonly #bytes: Uint8Array[] = []

  /** @throws ProtocolError `OUT_OF_ORDER` where it is not the first */
  constructor(payload: Uint8Array) {
    const { index, count, base, bytes } = decodeSnapshotPart(payload.slice())
    if (index !== 0) throw new ProtocolError('OUT_OF_ORDER', `a snapshot begins with part ${index}`, { field: 'index' })
    this.base = base
    this.#count = count
    this.#first = payload.slice(4, payload.length - bytes.length)
    this.#bytes.push(bytes)
  }

  get complete(): boolean {
    return this.#bytes.length === this.#count
  }

  /** @throws ProtocolError `OUT_OF_ORDER`: not the next part of the same snapshot */
  add(payload: Uint8Array): void {
    const { index, count, bytes } = decodeSnapshotPart(payload)
    if (index !== this.#bytes.length || count !== this.#count || !equals(payload.subarray(4, payload.length - bytes.length), this.#first)) {
      throw new ProtocolError('OUT_OF_ORDER', `part ${index} of ${count} does not continue the snapshot`, { field: 'index' })
    }
    this.#bytes.push(bytes.slice())
  }

  bytes(): Uint8Array {
    return concat(this.#bytes)
  }
}

import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'

/** What an item is (protocol/README.md §6, Kinds). Below 0x80: transactions, numbered and acknowledged. From 0x80: control and live items. */
export const ITEM_KINDS = {
  eseOp: 0x01,
  a2a: 0x02,
  mailbox: 0x03,
  rotation: 0x04,
  groupKey: 0x05,
  snapshotPart: 0x06,
  eseView: 0x07,
  groupOp: 0x08,
  channelControl: 0x09,
  ready: 0x80,
  ack: 0x81,
  checkpoint: 0x82,
  ping: 0x83,
  pong: 0x84,
  live: 0x85,
  window: 0x86,
  teardown: 0x87,
  revocation: 0x88
} as const

/** The highest kind of transaction that has a meaning in version 1. */
const TRANSACTION_KIND_KNOWN_MAX = ITEM_KINDS.channelControl

/** One item's payload. */
export const ITEM_PAYLOAD_BYTES_MAX = 1_048_576
/** What a sender packs into one record before it starts the next; one larger item travels alone. */
export const RECORD_PACK_BYTES = 65_536
/** Items of one record; more is refused before any of them is kept. */
export const RECORD_ITEMS_MAX = 8_192

const ITEM_HEAD_BYTES = 1 + 2 + 4
const PREV_BYTES = 8

export interface Item {
  kind: number
  channel: number
  /** transactions only: the number of the channel's transaction before, 0 for none */
  prev: bigint | undefined
  payload: Uint8Array
}

export function isTransaction(kind: number): boolean {
  return kind < 0x80
}

export function isKnownTransaction(kind: number): boolean {
  return kind >= ITEM_KINDS.eseOp && kind <= TRANSACTION_KIND_KNOWN_MAX
}

/** Bytes that an item takes inside a record. */
export function itemBytes(kind: number, payloadBytes: number): number {
  return ITEM_HEAD_BYTES + (isTransaction(kind) ? PREV_BYTES : 0) + payloadBytes
}

/** Bytes of a record's plaintext. */
export function itemsBytes(items: readonly Item[]): number {
  let bytes = 0
  for (const { kind, payload } of items) bytes += itemBytes(kind, payload.length)
  return bytes
}

export function writeItem(writer: Writer, item: Item): void {
  if (item.payload.length > ITEM_PAYLOAD_BYTES_MAX) throw new RangeError(`an item of ${item.payload.length} bytes`)
  writer.u8(item.kind).u16(item.channel)
  if (isTransaction(item.kind)) writer.u64(item.prev ?? 0n)
  writer.u32(item.payload.length).bytes(item.payload)
}

/**
 * Reads a record's plaintext: kind u8 ‖ channel u16 ‖ [prev u64] ‖ length u32 ‖ payload, at least one item, all of one channel (a stream
 * carries one).
 * @returns views into `plaintext`
 * @throws ProtocolError `TRUNCATED`, `TOO_LARGE`, `OUT_OF_ORDER` (a second channel)
 */
export function readItems(plaintext: Uint8Array): Item[] {
  const reader = new Reader(plaintext)
  const items: Item[] = []
  do {
    if (items.length === RECORD_ITEMS_MAX) {
      throw new ProtocolError('TOO_LARGE', `a record holds more than ${RECORD_ITEMS_MAX} items`, { field: 'items' })
    }
    const kind = reader.u8('kind')
    const channel = reader.u16('channel')
    const prev = isTransaction(kind) ? reader.u64('prev') : undefined
    const length = reader.u32('length')
    if (length > ITEM_PAYLOAD_BYTES_MAX) {
      throw new ProtocolError('TOO_LARGE', `an item of ${length} bytes exceeds ${ITEM_PAYLOAD_BYTES_MAX}`, { field: 'length' })
    }
    const first = items[0]
    if (first !== undefined && first.channel !== channel) {
      throw new ProtocolError('OUT_OF_ORDER', `one record holds items of channels ${first.channel} and ${channel}`, { field: 'channel' })
    }
    items.push({ kind, channel, prev, payload: reader.bytes(length, 'payload') })
  } while (reader.remaining > 0)
  return items
}

export function encodeItems(items: readonly Item[]): Uint8Array {
  const writer = new Writer(itemsBytes(items))
  for (const item of items) writeItem(writer, item)
  return writer.finish()
}

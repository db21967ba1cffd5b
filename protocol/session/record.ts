import { isZero, Reader, Writer } from '../bytes.ts'
import type { KeyedAead } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { HASH_BYTES } from './chain.ts'
import { type CookiePair, sameCookies } from './cookie.ts'
import { checkFlags, FLAG, NEGOTIABLE_FLAGS } from './flags.ts'
import { encodeHeader, FRAME, HEADER_BYTES, type Header, headerOf } from './header.ts'
import { type Item, itemsBytes, writeItem } from './items.ts'

const TAG_BYTES = 16
/** rec 8 ‖ seq 8 ‖ ack 8 ‖ hash 32 */
const COUNTERS_BYTES = 24 + HASH_BYTES
/** Header and counters: the associated data. */
export const RECORD_CLEAR_BYTES = HEADER_BYTES + COUNTERS_BYTES
export const RECORD_OVERHEAD_BYTES = RECORD_CLEAR_BYTES + TAG_BYTES

export type RecordType = typeof FRAME.DATA_STREAM | typeof FRAME.TEARDOWN | typeof FRAME.REVOCATION_PUBLISH

/** What a record says in clear, all of it authenticated. */
export interface RecordCounters {
  /** u16 generation ‖ u48 count */
  rec: bigint
  /** number of the first transaction, 0 without any */
  seq: bigint
  /** cumulative: the highest transaction of the peer whose effect, with that of all before, is synced */
  ack: bigint
  /** the chain after the last transaction, zero without any */
  hash: Uint8Array
}

export const NO_HASH = new Uint8Array(HASH_BYTES)

/**
 * Seals header ‖ rec ‖ seq ‖ ack ‖ hash ‖ AEAD(items), with everything before the AEAD as its associated data. The items are written where the
 * frame will hold them and sealed there.
 */
export function sealRecord(
  keys: { aead: KeyedAead; nonce: Uint8Array },
  head: { type: RecordType; flags: number; cookies: CookiePair },
  counters: RecordCounters,
  items: readonly Item[]
): Uint8Array {
  const bodyBytes = COUNTERS_BYTES + itemsBytes(items) + TAG_BYTES
  const { type, flags, cookies } = head
  const writer = new Writer(HEADER_BYTES + bodyBytes)
    .bytes(encodeHeader({ type, flags, bodyBytes, iCookie: cookies.i, rCookie: cookies.r }))
    .u64(counters.rec)
    .u64(counters.seq)
    .u64(counters.ack)
    .bytes(counters.hash)
  for (const item of items) writeItem(writer, item)
  const frame = writer.zeros(TAG_BYTES).finish()
  keys.aead.sealInPlace(keys.nonce, frame.subarray(0, RECORD_CLEAR_BYTES), frame.subarray(RECORD_CLEAR_BYTES))
  return frame
}

export interface SealedRecord {
  type: RecordType
  finAck: boolean
  counters: RecordCounters
  /** header ‖ counters */
  aad: Uint8Array
  sealed: Uint8Array
}

function checkRecordFlags(header: Header): void {
  checkFlags(header.flags, NEGOTIABLE_FLAGS | FLAG.RETRY | (header.type === FRAME.TEARDOWN ? 0 : FLAG.FIN_ACK), 'a record')
}

/**
 * Reads one whole frame of an established session up to its AEAD.
 * @returns views into `frame`
 * @throws ProtocolError those of `headerOf`; `FRAME_TYPE` for a handshake frame or CLOSE; `COOKIE_MISMATCH`; `FRAME_FLAGS`; `TRUNCATED`;
 *   `TRAILING_BYTES`; `SEQUENCE` where a record without transactions carries a hash
 */
export function readRecord(frame: Uint8Array, cookies: CookiePair): SealedRecord {
  const reader = new Reader(frame)
  const header = headerOf(reader.bytes(HEADER_BYTES, 'header'))
  const { type } = header
  if (type !== FRAME.DATA_STREAM && type !== FRAME.TEARDOWN && type !== FRAME.REVOCATION_PUBLISH) {
    throw new ProtocolError('FRAME_TYPE', `frame type 0x${type.toString(16)} has no place in an established session`, { field: 'type' })
  }
  checkRecordFlags(header)
  if (!sameCookies({ i: header.iCookie, r: header.rCookie }, cookies)) {
    throw new ProtocolError('COOKIE_MISMATCH', 'the record names another session', { field: 'cookies' })
  }
  const counters = { rec: reader.u64('rec'), seq: reader.u64('seq'), ack: reader.u64('ack'), hash: reader.bytes(HASH_BYTES, 'hash') }
  if (counters.seq === 0n && !isZero(counters.hash)) {
    throw new ProtocolError('SEQUENCE', 'a record without transactions carries a hash', { field: 'hash' })
  }
  const sealed = reader.bytes(header.bodyBytes - COUNTERS_BYTES, 'sealed')
  reader.end('record')
  return {
    type,
    finAck: (header.flags & FLAG.FIN_ACK) !== 0,
    counters,
    aad: frame.subarray(0, RECORD_CLEAR_BYTES),
    sealed
  }
}

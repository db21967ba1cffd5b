import { concat, Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { DISCOVERY_VERSION } from './request.ts'
import { ITEM_BYTES } from './sealed-item.ts'
import { WORK_BITS_MAX, WORK_BITS_MIN } from './work.ts'

export const DISCOVERY_RES = 0x02
/** A type of our own: the draft names no refusal. */
export const DISCOVERY_REJ = 0xf0
/** RES and REJ begin with as many bytes; a REJ has no more. */
export const RESPONSE_HEAD_BYTES = 4
/** Items that one hop passes back for one request. */
export const ITEMS_MAX = 32

/** Why a request was not taken: too little work, a time out of the window, no room. */
export const REJECT_REASONS = { work: 1, clock: 2, full: 3 } as const
export type RejectReason = keyof typeof REJECT_REASONS

export interface Rejection {
  /** bits of work that are asked for now */
  readonly difficulty: number
  readonly reason: RejectReason
}

export type ResponseHead = { readonly type: 'res'; readonly count: number } | ({ readonly type: 'rej' } & Rejection)

/** DISCOVERY_RES (0x02): version, type, u16 count, then the items. @param items - 1 to 32, each of 3,072 bytes */
export function encodeResponse(items: readonly Uint8Array[]): Uint8Array {
  if (items.length < 1 || items.length > ITEMS_MAX || items.some((item) => item.length !== ITEM_BYTES)) {
    throw new RangeError(`a DISCOVERY_RES has 1 to ${ITEMS_MAX} items of ${ITEM_BYTES} bytes`)
  }
  const head = new Writer(RESPONSE_HEAD_BYTES).u8(DISCOVERY_VERSION).u8(DISCOVERY_RES).u16(items.length).finish()
  return concat([head, ...items])
}

/** DISCOVERY_REJ (0xF0), 4 bytes: version, type, difficulty, reason. */
export function encodeRejection({ difficulty, reason }: Rejection): Uint8Array {
  return new Writer(RESPONSE_HEAD_BYTES).u8(DISCOVERY_VERSION).u8(DISCOVERY_REJ).u8(difficulty).u8(REJECT_REASONS[reason]).finish()
}

/**
 * The first four bytes of an answer: a whole REJ, or how many items follow.
 * @throws ProtocolError `TRUNCATED`, `FRAME_VERSION`, `FRAME_TYPE`, `RANGE`
 */
export function decodeResponseHead(bytes: Uint8Array): ResponseHead {
  const reader = new Reader(bytes)
  if (reader.u8('version') !== DISCOVERY_VERSION)
    throw new ProtocolError('FRAME_VERSION', 'an answer of another version', { field: 'version' })
  const type = reader.u8('type')
  if (type === DISCOVERY_RES) {
    const count = reader.u16('count')
    reader.end('DISCOVERY_RES head')
    if (count < 1 || count > ITEMS_MAX) {
      throw new ProtocolError('RANGE', `a DISCOVERY_RES of ${count} items, not 1 to ${ITEMS_MAX}`, { field: 'count' })
    }
    return { type: 'res', count }
  }
  if (type !== DISCOVERY_REJ) throw new ProtocolError('FRAME_TYPE', `type ${type} answers no DISCOVERY_REQ`, { field: 'type' })
  const difficulty = reader.u8('difficulty')
  const code = reader.u8('reason')
  reader.end('DISCOVERY_REJ')
  if (difficulty < WORK_BITS_MIN || difficulty > WORK_BITS_MAX) {
    throw new ProtocolError('RANGE', `a difficulty of ${difficulty} bits`, { field: 'difficulty' })
  }
  const reason = (Object.keys(REJECT_REASONS) as RejectReason[]).find((name) => REJECT_REASONS[name] === code)
  if (reason === undefined) throw new ProtocolError('RANGE', `reason ${code} is unknown`, { field: 'reason' })
  return { type: 'rej', difficulty, reason }
}

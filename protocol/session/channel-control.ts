import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'

/** What one side of a channel tells the other about it, in the channel's own order (protocol/README.md §6, Channels). */
export type ChannelControl =
  /** the sender sends no more messages on this channel until it begins anew */
  | { op: 'end' }
  /** the sender of this reads no more */
  | { op: 'stop'; code: number }

const END = 0x01
const STOP = 0x02

/** op u8 ‖ [stop: code u16]. */
export function encodeChannelControl(control: ChannelControl): Uint8Array {
  const writer = new Writer(3)
  if (control.op === 'end') return writer.u8(END).finish()
  return writer.u8(STOP).u16(control.code).finish()
}

/** @throws ProtocolError `TRUNCATED`, `TRAILING_BYTES`, `FIELD_INVALID` (an op of a later version: without effect here) */
export function decodeChannelControl(payload: Uint8Array): ChannelControl {
  const reader = new Reader(payload)
  const op = reader.u8('op')
  if (op !== END && op !== STOP) throw new ProtocolError('FIELD_INVALID', `channel control ${op} has no meaning`, { field: 'op' })
  const control: ChannelControl = op === END ? { op: 'end' } : { op: 'stop', code: reader.u16('code') }
  reader.end('channel control')
  return control
}

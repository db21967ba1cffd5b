import { ProtocolError } from '../errors.ts'
import { FRAME } from './header.ts'
import { ITEM_KINDS, type Item } from './items.ts'
import type { SealedRecord } from './record.ts'
import { CONTROL_CHANNEL, HANDSHAKE_STREAM } from './stream-init.ts'

/**
 * The one item of a TEARDOWN or REVOCATION_PUBLISH record.
 * @returns its payload, a view
 * @throws ProtocolError `OUT_OF_ORDER` for anything beside that item, on channel 0 of the handshake's stream; `SEQUENCE` where it numbers a transaction
 */
export function closingPayload(stream: number, record: SealedRecord, items: readonly Item[]): Uint8Array {
  const [item] = items
  const expected = record.type === FRAME.TEARDOWN ? ITEM_KINDS.teardown : ITEM_KINDS.revocation
  if (
    item === undefined ||
    items.length !== 1 ||
    item.kind !== expected ||
    item.channel !== CONTROL_CHANNEL ||
    stream !== HANDSHAKE_STREAM
  ) {
    throw new ProtocolError('OUT_OF_ORDER', 'a closing record holds something else than its one item', { field: 'kind' })
  }
  if (record.counters.seq !== 0n) throw new ProtocolError('SEQUENCE', 'a closing record numbers a transaction', { field: 'seq' })
  return item.payload
}

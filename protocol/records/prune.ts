import type { DsId } from '../discovery/names.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { RECORD_BYTES_MAX, type RecordPayload, type RecordType, type SignedRecord, TIME_SEC_MAX } from './envelope.ts'
import { byNumber, type Selection } from './selection.ts'

export const PRUNE_TTL_SEC = 86_400

/** A curator hides one member's joins from its own listing until `until`, seconds (protocol/README.md §3, `prune`). It deletes nothing. */
export interface Prune extends RecordPayload {
  readonly dsid: DsId
  readonly eid: Eid
  readonly curator: Eid
  readonly until: number
}

export type PruneRecord = SignedRecord<'prune', Prune>

export const pruneType: RecordType<'prune', Prune> = {
  kind: 'prune',
  bytesMax: RECORD_BYTES_MAX,
  ttlSec: PRUNE_TTL_SEC,
  toCbor: (p) => ({ dsid: p.dsid, eid: p.eid, curator: p.curator, until: p.until }),
  fromCbor: (fields, times) => ({
    dsid: fields.bytes('dsid', { length: 32 }) as DsId,
    eid: eid(fields.bytes('eid', { length: 32 })),
    curator: eid(fields.bytes('curator', { length: 32 })),
    until: fields.uint('until', { max: TIME_SEC_MAX }),
    ...times
  }),
  signer: (p) => p.curator,
  sequence: () => undefined,
  dhtKey: () => undefined
}

/** The higher `ts`. Both records are valid and of one DS_ID, EID and curator. */
export function selectPrune(held: PruneRecord, offered: PruneRecord): Selection {
  return byNumber(
    { number: held.payload.ts, bytes: held.payloadBytes },
    { number: offered.payload.ts, bytes: offered.payloadBytes },
    'older'
  )
}

import { gpKey } from '../discovery/dht-key.ts'
import { gpCoordinate, TAG } from '../discovery/names.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { RECORD_BYTES_MAX, type RecordPayload, type RecordType, type SignedRecord } from './envelope.ts'
import { TAG_BYTES_MAX } from './join.ts'
import { byNumber, type Selection } from './selection.ts'

export const GP_TTL_SEC = 3_600
const ACCESS = /^[a-z0-9-]{1,32}$/

/** A global point: an endpoint of an agent that others may find by its tag (protocol/README.md §3, `gp`). */
export interface Gp extends RecordPayload {
  readonly eid: Eid
  readonly tag: string
  /** a word for who may use it; what it allows is enforced by the owner's node */
  readonly access: string
  readonly gen: number
}

export type GpRecord = SignedRecord<'gp', Gp>

export const gpType: RecordType<'gp', Gp> = {
  kind: 'gp',
  bytesMax: RECORD_BYTES_MAX,
  ttlSec: GP_TTL_SEC,
  toCbor: (p) => ({ eid: p.eid, tag: p.tag, access: p.access, gen: p.gen }),
  fromCbor: (fields, times) => ({
    eid: eid(fields.bytes('eid', { length: 32 })),
    tag: fields.text('tag', { bytesMax: TAG_BYTES_MAX, pattern: TAG }),
    access: fields.text('access', { bytesMax: 32, pattern: ACCESS }),
    gen: fields.uint('gen'),
    ...times
  }),
  signer: (p) => p.eid,
  sequence: (p) => p.gen,
  dhtKey: (crypto, p) => gpKey(gpCoordinate(crypto, p.eid, p.tag))
}

/** Takes the point back; a higher `gen` may publish it anew. */
export function gpTombstone(last: Gp, { gen, nowSec }: { gen: number; nowSec: number }): Gp {
  return { ...last, gen, ts: nowSec, exp: nowSec + GP_TTL_SEC, gone: true }
}

/** The higher generation. Both records are valid and of one EID and tag. */
export function selectGp(held: GpRecord, offered: GpRecord): Selection {
  return byNumber(
    { number: held.payload.gen, bytes: held.payloadBytes },
    { number: offered.payload.gen, bytes: offered.payloadBytes },
    'older'
  )
}

import type { CborFields } from '../cbor.ts'
import { REACHABILITY_MODES, type ReachabilityMode } from '../delivery/modes.ts'
import { joinKey } from '../discovery/dht-key.ts'
import { type DsId, TAG } from '../discovery/names.ts'
import { ProtocolError } from '../errors.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { type RecordPayload, type RecordType, type SignedRecord, textItem } from './envelope.ts'
import { byNumber, type Selection } from './selection.ts'

export const JOIN_TTL_SEC = 3_600
export const JOIN_BYTES_MAX = 768
export const JOIN_TAGS_MAX = 16
export const TAG_BYTES_MAX = 64

/** DS_JOIN (protocol/README.md §3, `join`): an agent's membership of one space, under the curator that it follows. */
export interface Join extends RecordPayload {
  readonly dsid: DsId
  readonly eid: Eid
  readonly curator: Eid
  /** what searches match on: at most 16 different texts of 1 to 64 printable ASCII characters */
  readonly tags: readonly string[]
  readonly mode: ReachabilityMode
  readonly seq: number
  /** shown in no listing: registrars pass requests for contact on to it, and tell nobody else (protocol/README.md §4) */
  readonly unlisted?: true
}

export type JoinRecord = SignedRecord<'join', Join>

export const joinType: RecordType<'join', Join> = {
  kind: 'join',
  bytesMax: JOIN_BYTES_MAX,
  ttlSec: JOIN_TTL_SEC,
  toCbor: (p) => ({
    dsid: p.dsid,
    eid: p.eid,
    curator: p.curator,
    tags: [...p.tags],
    mode: p.mode,
    seq: p.seq,
    unlisted: p.unlisted
  }),
  fromCbor: (fields, times) => ({
    dsid: fields.bytes('dsid', { length: 32 }) as DsId,
    eid: eid(fields.bytes('eid', { length: 32 })),
    curator: eid(fields.bytes('curator', { length: 32 })),
    tags: distinct(fields.list('tags', { max: JOIN_TAGS_MAX }, textItem('join.tags', TAG_BYTES_MAX, TAG))),
    mode: fields.oneOf('mode', REACHABILITY_MODES),
    seq: fields.uint('seq'),
    ...(fields.has('unlisted') ? { unlisted: onlyTrue(fields, 'unlisted') } : {}),
    ...times
  }),
  signer: (p) => p.eid,
  sequence: (p) => p.seq,
  // under that key anyone who knows the EID would find it
  dhtKey: (_, p) => (p.unlisted === true ? undefined : joinKey(p.dsid, p.eid))
}

/** Leaves the space; a higher `seq` may join it anew. */
export function joinTombstone(last: Join, { seq, nowSec }: { seq: number; nowSec: number }): Join {
  return { ...last, tags: [], seq, ts: nowSec, exp: nowSec + JOIN_TTL_SEC, gone: true }
}

/** The higher `seq`. Both records are valid and of one DS_ID and EID. */
export function selectJoin(held: JoinRecord, offered: JoinRecord): Selection {
  return byNumber(
    { number: held.payload.seq, bytes: held.payloadBytes },
    { number: offered.payload.seq, bytes: offered.payloadBytes },
    'older'
  )
}

function onlyTrue(fields: CborFields, name: string): true {
  if (!fields.flag(name)) throw new ProtocolError('FIELD_INVALID', `join.${name} is true where it is present`, { field: `join.${name}` })
  return true
}

function distinct(tags: string[]): string[] {
  if (new Set(tags).size !== tags.length) throw new ProtocolError('FIELD_INVALID', 'join.tags names a tag twice', { field: 'join.tags' })
  return tags
}

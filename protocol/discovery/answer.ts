import { concat, equals } from '../bytes.ts'
import { CborFields, decodeCbor, encodeCbor } from '../cbor.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import { type Eid, eid } from '../identity/eid.ts'
import type { AnnounceRecord } from '../records/announce.ts'
import { openRecord, RECORD_BYTES_MAX, SIGNATURE_BYTES } from '../records/envelope.ts'
import { type GpRecord, gpType } from '../records/gp.ts'
import { JOIN_BYTES_MAX, type JoinRecord } from '../records/join.ts'
import { type LocatorRecord, locatorType } from '../records/locator.ts'
import { openSetEntry } from '../records/set-entry.ts'
import { gpCoordinate } from './names.ts'
import type { WorkSeed } from './work.ts'

/** A point's record in an item: eid, tag and access are all that it holds. */
export const POINT_BYTES_MAX = 512

/** What stands in an item before anything of it is believed (protocol/README.md §5). */
export interface AnswerContent {
  /** who answers, with its signature over this request; a registrar's item has neither */
  readonly responder?: { readonly eid: Eid; readonly signature: Uint8Array }
  readonly join?: Uint8Array
  readonly gp?: Uint8Array
  readonly locator?: Uint8Array
  /** alone, from a registrar: what tells over how many keys a space spreads its members */
  readonly announce?: Uint8Array
}

/** A verified answer. */
export interface Answer {
  /** `member`: signed by the one who answers; `record`: a registrar handed on what is public */
  readonly kind: 'member' | 'record'
  readonly eid: Eid
  readonly join?: JoinRecord
  readonly gp?: GpRecord
  readonly locator?: LocatorRecord
}

const signedBytes = (seed: WorkSeed) => concat([context('discovery-sig'), seed])

/** A member's content: the signature binds it to this one request. */
export function memberContent(signer: Signer, seed: WorkSeed, records: Pick<AnswerContent, 'join' | 'gp' | 'locator'>): Uint8Array {
  return encodeAnswer({ responder: { eid: eid(signer.publicKey), signature: signer.sign(signedBytes(seed)) }, ...records })
}

export function encodeAnswer({ responder, join, gp, locator, announce }: AnswerContent): Uint8Array {
  return encodeCbor({
    ...(responder === undefined ? {} : { eid: responder.eid, sig: responder.signature }),
    ...(join === undefined ? {} : { join }),
    ...(gp === undefined ? {} : { gp }),
    ...(locator === undefined ? {} : { locator }),
    ...(announce === undefined ? {} : { announce })
  })
}

/** @throws ProtocolError `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_MISSING`, `FIELD_INVALID`, `FIELD_UNKNOWN` */
export function decodeAnswer(content: Uint8Array): AnswerContent {
  const fields = new CborFields(decodeCbor(content), 'answer')
  const responder = fields.optional('eid', (name) => ({
    eid: eid(fields.bytes(name, { length: 32 })),
    signature: fields.bytes('sig', { length: SIGNATURE_BYTES })
  }))
  const join = fields.optional('join', (name) => fields.bytes(name, { min: 1, max: JOIN_BYTES_MAX }))
  const gp = fields.optional('gp', (name) => fields.bytes(name, { min: 1, max: POINT_BYTES_MAX }))
  const locator = fields.optional('locator', (name) => fields.bytes(name, { min: 1, max: RECORD_BYTES_MAX }))
  const announce = fields.optional('announce', (name) => fields.bytes(name, { min: 1, max: RECORD_BYTES_MAX }))
  fields.end()
  if (announce !== undefined) {
    if ([responder, join, gp, locator].some((other) => other !== undefined))
      throw new ProtocolError('FIELD_UNKNOWN', 'an announcement stands alone in an answer', { field: 'answer.announce' })
    return { announce }
  }
  if (join !== undefined && gp !== undefined)
    throw new ProtocolError('FIELD_UNKNOWN', 'an answer is of a space or of a point', { field: 'answer.gp' })
  if (responder === undefined && ((join ?? gp) === undefined || locator !== undefined)) {
    throw new ProtocolError('FIELD_MISSING', 'the answer names nobody', { field: 'answer.eid' })
  }
  return {
    ...(responder === undefined ? {} : { responder }),
    ...(join === undefined ? {} : { join }),
    ...(gp === undefined ? {} : { gp }),
    ...(locator === undefined ? {} : { locator })
  }
}

/**
 * The announcement of the very space that was asked for, alive.
 * @param target - the DS_ID
 * @throws ProtocolError what records are refused for; `RECORD_EXPIRED` for one that was taken back
 */
export function verifySpaceAnswer(
  crypto: CryptoProvider,
  announce: Uint8Array,
  { target, nowMs }: { target: Uint8Array; nowMs: number }
): AnnounceRecord {
  const record = openSetEntry(crypto, 'announcements', target, announce, nowMs).record as AnnounceRecord
  if (record.payload.gone === true)
    throw new ProtocolError('RECORD_EXPIRED', 'the answer holds an announcement that was taken back', { field: 'answer.announce' })
  return record
}

/**
 * Judges an answer on its own: the responder's signature over the request, each record by its own signature, that all are of one EID and that a
 * record belongs under the target.
 * @param nowMs - wall clock, ms since the Unix epoch
 * @throws ProtocolError `SIGNATURE_INVALID`, `EID_MISMATCH`, and what records are refused for
 */
export function verifyAnswer(
  crypto: CryptoProvider,
  content: AnswerContent,
  { seed, target, nowMs }: { seed: WorkSeed; target: Uint8Array; nowMs: number }
): Answer {
  const { responder } = content
  if (responder !== undefined && !crypto.ed25519.verify(responder.eid, signedBytes(seed), responder.signature)) {
    throw new ProtocolError('SIGNATURE_INVALID', 'the answer is not signed for this request', { field: 'answer.sig' })
  }
  const join = content.join === undefined ? undefined : (openSetEntry(crypto, 'members', target, content.join, nowMs).record as JoinRecord)
  if (responder === undefined && join?.payload.unlisted === true) {
    throw new ProtocolError('FIELD_INVALID', 'a registrar shows a member that is unlisted', { field: 'answer.join' })
  }
  const gp =
    content.gp === undefined
      ? undefined
      : openRecord(crypto, gpType, content.gp, { nowMs, belongs: (p) => equals(gpCoordinate(crypto, p.eid, p.tag), target) })
  const of = responder?.eid ?? (join ?? gp)?.payload.eid
  if (of === undefined) throw new TypeError('decodeAnswer lets no answer through that names nobody')
  const locator = content.locator === undefined ? undefined : openRecord(crypto, locatorType, content.locator, { nowMs })
  for (const record of [join, gp, locator]) {
    if (record === undefined) continue
    if (!equals(record.payload.eid, of))
      throw new ProtocolError('EID_MISMATCH', 'the answer holds the record of another', { field: 'answer.eid' })
    if (record.payload.gone === true)
      throw new ProtocolError('RECORD_EXPIRED', 'the answer holds a record that was taken back', { field: 'answer' })
  }
  return {
    kind: responder === undefined ? 'record' : 'member',
    eid: of,
    ...(join === undefined ? {} : { join }),
    ...(gp === undefined ? {} : { gp }),
    ...(locator === undefined ? {} : { locator })
  }
}

import { concat, equals, utf8 } from '../bytes.ts'
import { CborFields, type CborValue, decodeCbor, encodeCbor } from '../cbor.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import type { Eid } from '../identity/eid.ts'

/** A reader accepts records dated this far ahead of its own clock. Expiry has no such allowance: a record ends for all at its `exp`. */
export const CLOCK_SKEW_SEC = 120
/** A `gen` or `seq`, read as Unix ms, may lie this far ahead of the record's `ts`. */
export const SEQUENCE_AHEAD_MS = 60_000
/** Most kinds fit in this, envelope included. */
export const RECORD_BYTES_MAX = 1_792
export const SIGNATURE_BYTES = 64
/** Seconds since the Unix epoch whose milliseconds are still exact numbers. */
export const TIME_SEC_MAX = Math.floor(Number.MAX_SAFE_INTEGER / 1_000)
const KIND_BYTES_MAX = 16

/** What every payload says. Times are seconds since the Unix epoch. */
export interface RecordPayload {
  readonly ts: number
  readonly exp: number
  /** present on a tombstone only */
  readonly gone?: true
}

/** What sets one kind of record apart (protocol/README.md §3, table). */
export interface RecordType<K extends string, P extends RecordPayload> {
  readonly kind: K
  readonly bytesMax: number
  readonly ttlSec: number
  toCbor(payload: P): { [key: string]: CborValue | undefined }
  /** Takes every member but `v`, `ts`, `exp` and `gone` out of `fields`. */
  fromCbor(fields: CborFields, times: RecordPayload): P
  /** the one whose signature counts */
  signer(payload: P): Eid
  /** `gen` or `seq`: what orders this signer's records, Unix ms or a little more; `undefined` where `ts` does */
  sequence(payload: P): number | undefined
  /** `undefined` for a kind that lives in registries only */
  dhtKey(crypto: CryptoProvider, payload: P): Uint8Array | undefined
}

export interface VerifyOptions<P> {
  /** wall clock, ms since the Unix epoch */
  readonly nowMs: number
  readonly belongs?: (payload: P) => boolean
}

/** A decoded record with the bytes it came in. Whether it was verified is not visible: only `open…` functions give verified ones. */
export interface SignedRecord<K extends string, P extends RecordPayload> {
  readonly kind: K
  readonly payload: P
  readonly payloadBytes: Uint8Array
  readonly signature: Uint8Array
  /** the whole envelope, as received */
  readonly bytes: Uint8Array
}

/** `[kind, payload, sig]` before anyone looked at the payload. */
export interface Envelope {
  readonly kind: string
  readonly payloadBytes: Uint8Array
  readonly signature: Uint8Array
}

/** @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_INVALID` */
export function decodeEnvelope(bytes: Uint8Array, bytesMax: number): Envelope {
  if (bytes.length > bytesMax) throw new ProtocolError('TOO_LARGE', `a record has at most ${bytesMax} bytes, not ${bytes.length}`)
  const value = decodeCbor(bytes)
  const bad = (field: string, what: string) => new ProtocolError('FIELD_INVALID', `the record's ${what}`, { field })
  if (!Array.isArray(value) || value.length !== 3) throw bad('record', 'envelope is not a list of kind, payload and signature')
  const [kind, payloadBytes, signature] = value
  if (typeof kind !== 'string' || kind.length > KIND_BYTES_MAX)
    throw bad('kind', `kind is not text of at most ${KIND_BYTES_MAX} characters`)
  if (!(payloadBytes instanceof Uint8Array)) throw bad('payload', 'payload is not bytes')
  if (!(signature instanceof Uint8Array) || signature.length !== SIGNATURE_BYTES)
    throw bad('sig', `signature is not ${SIGNATURE_BYTES} bytes`)
  return { kind, payloadBytes, signature }
}

export function encodeEnvelope(envelope: Envelope): Uint8Array {
  return encodeCbor([envelope.kind, envelope.payloadBytes, envelope.signature])
}

/** What is signed: `"rookery/v1/record/" ‖ kind ‖ 0x00 ‖ payload`. */
export function signedBytes(kind: string, payloadBytes: Uint8Array): Uint8Array {
  return concat([context(`record/${kind}`), payloadBytes])
}

/**
 * Signs a payload. The result has passed every check that a reader makes, save that its times are measured against its own `ts`.
 * @throws ProtocolError `RECORD_SIGNER` when the signer is not the one that the payload names; else as {@link decodeRecord} and {@link verifyRecord}
 */
export function buildRecord<K extends string, P extends RecordPayload>(
  crypto: CryptoProvider,
  type: RecordType<K, P>,
  payload: P,
  signer: Signer
): SignedRecord<K, P> {
  const { ts, exp, gone } = payload
  const payloadBytes = encodeCbor({ v: 1, ...type.toCbor(payload), ts, exp, gone })
  if (!equals(type.signer(payload), signer.publicKey)) {
    throw new ProtocolError('RECORD_SIGNER', `a ${type.kind} record is signed by the key that it names`, { field: 'signer' })
  }
  const signature = signer.sign(signedBytes(type.kind, payloadBytes))
  const record = decodeRecord(type, encodeEnvelope({ kind: type.kind, payloadBytes, signature }))
  verifyRecord(crypto, type, record, { nowMs: ts * 1_000 })
  return record
}

/**
 * Bytes to a record of the kind asked for: size, CBOR, kind and field shapes, nothing else. Byte fields may be views into `bytes`.
 * @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `RECORD_KIND`, `FIELD_MISSING`, `FIELD_UNKNOWN`, `FIELD_INVALID`, `NAME_INVALID`
 */
export function decodeRecord<K extends string, P extends RecordPayload>(type: RecordType<K, P>, bytes: Uint8Array): SignedRecord<K, P> {
  const envelope = decodeEnvelope(bytes, type.bytesMax)
  if (envelope.kind !== type.kind) {
    throw new ProtocolError('RECORD_KIND', `"${envelope.kind}" record where a ${type.kind} record belongs`, { field: 'kind' })
  }
  const fields = new CborFields(decodeCbor(envelope.payloadBytes), type.kind)
  fields.uint('v', { min: 1, max: 1 })
  const ts = fields.uint('ts', { max: TIME_SEC_MAX })
  const exp = fields.uint('exp', { max: TIME_SEC_MAX })
  const times: RecordPayload = fields.has('gone') ? { ts, exp, gone: onlyTrue(fields, type.kind) } : { ts, exp }
  const payload = type.fromCbor(fields, times)
  fields.end()
  return { kind: type.kind, payload, payloadBytes: envelope.payloadBytes, signature: envelope.signature, bytes }
}

/**
 * Times, sequence number, key and signature, in that order.
 * @param options.belongs - whether the record belongs where it was asked for or put to; left out where it did not come by a key
 * @throws ProtocolError `RECORD_TTL`, `RECORD_FUTURE`, `RECORD_EXPIRED`, `RECORD_SEQUENCE`, `RECORD_KEY_MISMATCH`, `SIGNATURE_INVALID`
 */
export function verifyRecord<K extends string, P extends RecordPayload>(
  crypto: CryptoProvider,
  type: RecordType<K, P>,
  record: SignedRecord<K, P>,
  options: VerifyOptions<P>
): void {
  const { payload } = record
  checkTimes(type, payload, options.nowMs)
  const sequence = type.sequence(payload)
  if (sequence !== undefined && sequence > payload.ts * 1_000 + SEQUENCE_AHEAD_MS) {
    throw new ProtocolError('RECORD_SEQUENCE', `number ${sequence} lies more than ${SEQUENCE_AHEAD_MS} ms ahead of the record's own time`, {
      field: `${type.kind}.sequence`
    })
  }
  if (options.belongs !== undefined && !options.belongs(payload)) {
    throw new ProtocolError('RECORD_KEY_MISMATCH', `the ${type.kind} record belongs to another key`, { field: 'key' })
  }
  verifySignature(crypto, type, record)
}

/** The signature alone, whatever the times: evidence is judged so (protocol/README.md §8). @throws ProtocolError `SIGNATURE_INVALID` */
export function verifySignature<K extends string, P extends RecordPayload>(
  crypto: CryptoProvider,
  type: RecordType<K, P>,
  record: SignedRecord<K, P>
): void {
  if (!crypto.ed25519.verify(type.signer(record.payload), signedBytes(record.kind, record.payloadBytes), record.signature)) {
    throw new ProtocolError('SIGNATURE_INVALID', `the ${type.kind} record is not signed by the key that it names`, { field: 'sig' })
  }
}

/** {@link decodeRecord}, then {@link verifyRecord}. */
export function openRecord<K extends string, P extends RecordPayload>(
  crypto: CryptoProvider,
  type: RecordType<K, P>,
  bytes: Uint8Array,
  options: VerifyOptions<P>
): SignedRecord<K, P> {
  const record = decodeRecord(type, bytes)
  verifyRecord(crypto, type, record, options)
  return record
}

/** From this instant on the record counts for nothing. */
export function recordExpiresAtMs(record: { readonly payload: RecordPayload }): number {
  return record.payload.exp * 1_000
}

/** Dated farther ahead than a reader takes: signed, or taken, by a clock that was wrong. What is held so counts for nothing until its time comes. */
export function recordIsAhead(record: { readonly payload: RecordPayload }, nowMs: number): boolean {
  return record.payload.ts * 1_000 > nowMs + CLOCK_SKEW_SEC * 1_000
}

function checkTimes<K extends string, P extends RecordPayload>(type: RecordType<K, P>, { ts, exp, gone }: P, nowMs: number): void {
  const lifeSec = exp - ts
  if (lifeSec <= 0 || lifeSec > type.ttlSec || (gone === true && lifeSec !== type.ttlSec)) {
    const expected = gone === true ? `${type.ttlSec} s for a tombstone` : `1 to ${type.ttlSec} s`
    throw new ProtocolError('RECORD_TTL', `the ${type.kind} record lives ${lifeSec} s, not ${expected}`, { field: `${type.kind}.exp` })
  }
  if (recordIsAhead({ payload: { ts, exp } }, nowMs)) {
    throw new ProtocolError('RECORD_FUTURE', `the ${type.kind} record is dated more than ${CLOCK_SKEW_SEC} s ahead`, {
      field: `${type.kind}.ts`
    })
  }
  if (exp * 1_000 <= nowMs) throw new ProtocolError('RECORD_EXPIRED', `the ${type.kind} record has expired`, { field: `${type.kind}.exp` })
}

function onlyTrue(fields: CborFields, kind: string): true {
  if (!fields.flag('gone')) throw new ProtocolError('FIELD_INVALID', `${kind}.gone is true or absent`, { field: `${kind}.gone` })
  return true
}

/** Reads a list item that is text. @throws ProtocolError `FIELD_INVALID` */
export function textItem(field: string, bytesMax: number, pattern: RegExp): (item: CborValue) => string {
  return (item) => {
    if (typeof item !== 'string' || utf8(item).length > bytesMax || !pattern.test(item)) {
      throw new ProtocolError('FIELD_INVALID', `${field} holds something else than texts of 1 to ${bytesMax} bytes`, { field })
    }
    return item
  }
}

/** Reads a list item that is 32 bytes. @throws ProtocolError `FIELD_INVALID` */
export function bytes32Item(field: string): (item: CborValue) => Uint8Array {
  return (item) => {
    if (!(item instanceof Uint8Array) || item.length !== 32) {
      throw new ProtocolError('FIELD_INVALID', `${field} holds something else than 32 bytes`, { field })
    }
    return item
  }
}

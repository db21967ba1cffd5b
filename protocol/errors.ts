/**
 * Every way in which bytes from outside, or a caller's value, can be refused by the protocol. Codes are stable; messages are for people.
 */
export type ProtocolErrorCode =
  // bytes and CBOR
  | 'TRUNCATED'
  | 'TRAILING_BYTES'
  | 'TOO_LARGE'
  | 'LENGTH'
  | 'RANGE'
  | 'CBOR_INVALID'
  | 'CBOR_NOT_CANONICAL'
  | 'FIELD_MISSING'
  | 'FIELD_UNKNOWN'
  | 'FIELD_INVALID'
  | 'UTF8_INVALID'
  // identity
  | 'DID_INVALID'
  | 'KEY_INVALID'
  | 'SIGNATURE_INVALID'
  // names
  | 'NAME_INVALID'
  // records
  | 'RECORD_KIND'
  | 'RECORD_KEY_MISMATCH'
  | 'RECORD_SIGNER'
  | 'RECORD_EXPIRED'
  | 'RECORD_FUTURE'
  | 'RECORD_TTL'
  | 'RECORD_SEQUENCE'
  | 'DHT_KEY'
  // session frames and state machines
  | 'FRAME_VERSION'
  | 'FRAME_TYPE'
  | 'FRAME_LENGTH'
  | 'FRAME_FLAGS'
  | 'FRAME_ZEROS'
  | 'COOKIE_MISMATCH'
  | 'COOKIE_SPENT'
  | 'TARGET_MISMATCH'
  | 'KEY_EXCHANGE'
  | 'AEAD_OPEN'
  | 'EID_MISMATCH'
  | 'OUT_OF_ORDER'
  | 'CLOSED_BY_PEER'
  | 'TIMEOUT'
  | 'CONTRACT_REFUSED'
  | 'CONTRACT'
  | 'BUSY'
  | 'SEQUENCE'
  | 'HASH_MISMATCH'
  | 'DIVERGED'
  | 'WINDOW'
  | 'REKEY_REQUIRED'
  // governed objects
  | 'OBJECT_EXPIRED'
  | 'OBJECT_FUTURE'
  | 'OBJECT_LIFETIME'
  | 'OBJECT_AUDIENCE'
  | 'OBJECT_PURPOSE'
  | 'OBJECT_KEY'
  | 'OBJECT_REPLAYED'
  | 'OBJECT_CONFLICT'
  // evidence
  | 'EVIDENCE_TARGET'
  | 'EVIDENCE_SAME'
  | 'EVIDENCE_NO_CONFLICT'

/**
 * The one error that anything in `protocol/` throws about data. A `TypeError` or `RangeError` from here is a mistake of ours.
 * `field` names the offending field where there is one.
 */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError'
  readonly code: ProtocolErrorCode
  readonly field: string | undefined

  constructor(code: ProtocolErrorCode, message: string, options?: ErrorOptions & { field?: string }) {
    super(message, options)
    this.code = code
    this.field = options?.field
  }
}

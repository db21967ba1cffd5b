import { concat, equals, toHex, utf8 } from '../bytes.ts'
import { CborFields, type CborValue, decodeCbor, encodeCbor } from '../cbor.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import { type Brand, type Eid, eid } from '../identity/eid.ts'

/** Half of the pair (issuer, id) that names a governed object. */
export type ObjectId = Brand<Uint8Array, 'ObjectId'>
/** H(mailbox key)[0..8). */
export type MailboxKid = Brand<Uint8Array, 'MailboxKid'>

export const OBJECT_ID_BYTES = 16
export const MAILBOX_KID_BYTES = 8
export const MAILBOX_KEY_BYTES = 32
/** What a whole object may weigh unless a reader says otherwise. */
export const OBJECT_BYTES_MAX = 1_048_576
/** exp − iat: the mailbox key that an object names is held for longer than this. */
export const OBJECT_LIFE_MAX_MS = 6 * 86_400_000
/** How far ahead an issuer's clock may run (G-10). The end of an object gets no such grace. */
export const CLOCK_SKEW_MAX_MS = 60_000
export const PURPOSE_BYTES_MAX = 64
/** A whole A2A request for the audience's agent, as UTF-8 JSON `{"method":"SendMessage","params":…}`. */
export const PURPOSE_A2A_MESSAGE = 'a2a:message'

/** What sealing adds to a plaintext at the most: the envelope, the clear members and the tag. */
export const OBJECT_OVERHEAD_BYTES_MAX = 512

const PURPOSE_PATTERN = /^[a-z0-9][a-z0-9._:/-]*$/
const ENC_BYTES = 32
const TAG_BYTES = 16
const SIGNATURE_BYTES = 64

/** A decoded governed object (protocol/README.md §7). Byte fields may be views into what was decoded: copy what you keep. */
export interface GovernedObject {
  readonly id: ObjectId
  readonly issuer: Eid
  readonly audience: Eid
  readonly kid: MailboxKid
  readonly purpose: string
  /** Unix ms, inclusive */
  readonly issuedAtMs: number
  /** Unix ms, exclusive */
  readonly expiresAtMs: number
  readonly enc: Uint8Array
  readonly ct: Uint8Array
  /** the payload as received: the signature covers these bytes */
  readonly payload: Uint8Array
  readonly signature: Uint8Array
}

export interface SealInput {
  signer: Signer
  audience: Eid
  /** the audience's X25519 mailbox key, 32 bytes, from its locator or `mail` record */
  mailboxKey: Uint8Array
  id: ObjectId
  purpose: string
  issuedAtMs: number
  expiresAtMs: number
  plaintext: Uint8Array
  /** 32 random bytes, fresh for every call */
  ephemeralSecret: Uint8Array
}

/** @throws ProtocolError `LENGTH` unless `bytes` are 16 */
export function objectId(bytes: Uint8Array): ObjectId {
  if (bytes.length !== OBJECT_ID_BYTES) {
    throw new ProtocolError('LENGTH', `an object id is ${OBJECT_ID_BYTES} bytes, not ${bytes.length}`, { field: 'id' })
  }
  return bytes as ObjectId
}

/**
 * The id of the object that carries one A2A message: the first 16 bytes of
 * H("rookery/v1/object-id" ‖ 0x00 ‖ issuer ‖ audience ‖ utf8(messageId)), so that a message sent twice is one object.
 */
export function objectIdOf(crypto: CryptoProvider, issuer: Eid, audience: Eid, messageId: string): ObjectId {
  return objectId(crypto.sha256(context('object-id'), issuer, audience, utf8(messageId)).slice(0, OBJECT_ID_BYTES))
}

/** @throws ProtocolError `LENGTH` unless the key is 32 bytes */
export function mailboxKid(crypto: CryptoProvider, mailboxKey: Uint8Array): MailboxKid {
  if (mailboxKey.length !== MAILBOX_KEY_BYTES) {
    throw new ProtocolError('LENGTH', `a mailbox key is ${MAILBOX_KEY_BYTES} bytes, not ${mailboxKey.length}`, { field: 'mailboxKey' })
  }
  return crypto.sha256(mailboxKey).slice(0, MAILBOX_KID_BYTES) as MailboxKid
}

/**
 * Seals and signs: CBOR `[payload, sig]`, the payload a byte string that holds CBOR `{v, id, iss, aud, kid, purpose, iat, exp, enc, ct}`.
 * @throws ProtocolError `OBJECT_LIFETIME`, `FIELD_INVALID` (purpose), `LENGTH`, `KEY_INVALID` (a mailbox key that no secret can match)
 * @see protocol/README.md §7
 */
export async function sealObject(crypto: CryptoProvider, input: SealInput): Promise<Uint8Array> {
  checkLifetime(input.issuedAtMs, input.expiresAtMs)
  if (input.purpose.length > PURPOSE_BYTES_MAX || !PURPOSE_PATTERN.test(input.purpose)) {
    throw new ProtocolError('FIELD_INVALID', `"${input.purpose.slice(0, 80)}" is no purpose (${PURPOSE_PATTERN})`, { field: 'purpose' })
  }
  const clear = clearMembers({
    id: objectId(input.id),
    issuer: eid(input.signer.publicKey),
    audience: input.audience,
    kid: mailboxKid(crypto, input.mailboxKey),
    purpose: input.purpose,
    issuedAtMs: input.issuedAtMs,
    expiresAtMs: input.expiresAtMs
  })
  const { enc, ct } = await crypto.hpke.seal({
    recipient: input.mailboxKey,
    ephemeralSecret: input.ephemeralSecret,
    info: context('object'),
    aad: encodeCbor(clear),
    plaintext: input.plaintext
  })
  const payload = encodeCbor({ ...clear, enc, ct })
  return encodeCbor([payload, input.signer.sign(concat([context('object-sig'), payload]))])
}

/**
 * Decodes and checks sizes and shapes only, times against each other included; no clock, no cryptography.
 * @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_MISSING`, `FIELD_INVALID`, `FIELD_UNKNOWN`, `OBJECT_LIFETIME`
 */
export function decodeObject(bytes: Uint8Array, { bytesMax = OBJECT_BYTES_MAX }: { bytesMax?: number } = {}): GovernedObject {
  if (bytes.length > bytesMax) {
    throw new ProtocolError('TOO_LARGE', `the object is ${bytes.length} bytes, at most ${bytesMax} are taken`, { field: 'object' })
  }
  const [payload, signature] = signedPair(decodeCbor(bytes), 'object')
  const fields = new CborFields(decodeCbor(payload), 'object')
  fields.uint('v', { min: 1, max: 1 })
  const object: GovernedObject = {
    id: objectId(fields.bytes('id', { length: OBJECT_ID_BYTES })),
    issuer: eid(fields.bytes('iss', { length: 32 })),
    audience: eid(fields.bytes('aud', { length: 32 })),
    kid: fields.bytes('kid', { length: MAILBOX_KID_BYTES }) as MailboxKid,
    purpose: fields.text('purpose', { bytesMax: PURPOSE_BYTES_MAX, pattern: PURPOSE_PATTERN }),
    issuedAtMs: fields.uint('iat'),
    expiresAtMs: fields.uint('exp'),
    enc: fields.bytes('enc', { length: ENC_BYTES }),
    ct: fields.bytes('ct', { min: TAG_BYTES, max: bytesMax }),
    payload,
    signature
  }
  fields.end()
  checkLifetime(object.issuedAtMs, object.expiresAtMs)
  return object
}

/**
 * Checks times at `nowMs`, then the audience, then the signature: the cheap refusals first.
 * @throws ProtocolError `OBJECT_EXPIRED`, `OBJECT_FUTURE` (names the clock skew), `OBJECT_AUDIENCE`, `SIGNATURE_INVALID`
 */
export function verifyObject(crypto: CryptoProvider, object: GovernedObject, at: { nowMs: number; audience: Eid }): void {
  checkTimes(object, at.nowMs)
  if (!equals(object.audience, at.audience)) {
    throw new ProtocolError('OBJECT_AUDIENCE', 'the object is for another audience', { field: 'object.aud' })
  }
  if (!crypto.ed25519.verify(object.issuer, concat([context('object-sig'), object.payload]), object.signature)) {
    throw new ProtocolError('SIGNATURE_INVALID', 'the object is not signed by its issuer', { field: 'object.sig' })
  }
}

/**
 * Decrypts a verified object with the secret that its `kid` names, then asks the purpose policy.
 * @param secretOf - the X25519 secret of a mailbox key still held, by kid in hex
 * @returns the plaintext
 * @throws ProtocolError `OBJECT_KEY` (no such key any more), `AEAD_OPEN`, `OBJECT_PURPOSE`
 */
export async function openObject(
  crypto: CryptoProvider,
  object: GovernedObject,
  secretOf: (kidHex: string) => Uint8Array | undefined,
  allowsPurpose: (purpose: string) => boolean
): Promise<Uint8Array> {
  const secret = secretOf(toHex(object.kid))
  if (secret === undefined) {
    throw new ProtocolError('OBJECT_KEY', `no mailbox key ${toHex(object.kid)} is held`, { field: 'object.kid' })
  }
  const plaintext = await crypto.hpke.open({
    secret,
    enc: object.enc,
    info: context('object'),
    aad: encodeCbor(clearMembers(object)),
    ct: object.ct
  })
  if (plaintext === undefined) throw new ProtocolError('AEAD_OPEN', 'the object does not open', { field: 'object.ct' })
  if (!allowsPurpose(object.purpose)) {
    throw new ProtocolError('OBJECT_PURPOSE', `purpose "${object.purpose}" is not allowed here`, { field: 'object.purpose' })
  }
  return plaintext
}

/** @throws ProtocolError `OBJECT_EXPIRED`, `OBJECT_FUTURE` */
export function checkTimes(object: { issuedAtMs: number; expiresAtMs: number }, nowMs: number): void {
  if (object.expiresAtMs <= nowMs) {
    throw new ProtocolError(
      'OBJECT_EXPIRED',
      `the object ended ${nowMs - object.expiresAtMs} ms ago by this clock (check the clock skew)`,
      {
        field: 'object.exp'
      }
    )
  }
  if (object.issuedAtMs > nowMs + CLOCK_SKEW_MAX_MS) {
    throw new ProtocolError(
      'OBJECT_FUTURE',
      `the object was issued ${object.issuedAtMs - nowMs} ms ahead of this clock, a clock skew of ${CLOCK_SKEW_MAX_MS} ms is taken`,
      { field: 'object.iat' }
    )
  }
}

function checkLifetime(issuedAtMs: number, expiresAtMs: number): void {
  const lifeMs = expiresAtMs - issuedAtMs
  if (!Number.isSafeInteger(lifeMs) || lifeMs <= 0 || lifeMs > OBJECT_LIFE_MAX_MS) {
    throw new ProtocolError('OBJECT_LIFETIME', `exp − iat is ${lifeMs} ms, not 1 to ${OBJECT_LIFE_MAX_MS}`, { field: 'object.exp' })
  }
}

function clearMembers(
  object: Pick<GovernedObject, 'id' | 'issuer' | 'audience' | 'kid' | 'purpose' | 'issuedAtMs' | 'expiresAtMs'>
): Record<string, CborValue> {
  return {
    v: 1,
    id: object.id,
    iss: object.issuer,
    aud: object.audience,
    kid: object.kid,
    purpose: object.purpose,
    iat: object.issuedAtMs,
    exp: object.expiresAtMs
  }
}

/**
 * The shape `[payload: bytes, sig: bytes(64)]` that objects and receipts share.
 * @throws ProtocolError `FIELD_INVALID`
 */
export function signedPair(value: CborValue, what: string): [payload: Uint8Array, signature: Uint8Array] {
  const [payload, signature] = Array.isArray(value) && value.length === 2 ? value : []
  if (!(payload instanceof Uint8Array) || !(signature instanceof Uint8Array) || signature.length !== SIGNATURE_BYTES) {
    throw new ProtocolError('FIELD_INVALID', `${what} is not [payload bytes, ${SIGNATURE_BYTES} signature bytes]`, { field: what })
  }
  return [payload, signature]
}

import { concat, equals } from '../bytes.ts'
import { CborFields, decodeCbor, encodeCbor } from '../cbor.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { type GovernedObject, OBJECT_ID_BYTES, type ObjectId, objectId, signedPair } from './object.ts'

export const CONFIRMATION_BYTES_MAX = 512
/** `delivered`: it had its effect there, once, and is on that disk; `handled`: the task that it became has ended; `refused`: it never will, for `reason`. */
export const CONFIRMED_STATES = ['delivered', 'handled', 'refused'] as const
export type ConfirmedState = (typeof CONFIRMED_STATES)[number]

/** What an audience says became of an object, so that whoever kept it can let go of it and its issuer can believe it. */
export interface Confirmation {
  /** H(object), 32 bytes */
  objectHash: Uint8Array
  id: ObjectId
  issuer: Eid
  /** the EID that the object names */
  audience: Eid
  /** the EID that signs: the audience, or what it has become since */
  by: Eid
  state: ConfirmedState
  /** with `refused`: a ProtocolErrorCode or one of the task store */
  reason?: string | undefined
  /** by the audience's clock, Unix ms; a hint */
  atMs: number
}

/**
 * CBOR `[payload, sig]`, payload CBOR `{v, hash, id, iss, aud, by, state, reason?, at}`, sig by `by` over `rookery/v1/confirmation` ‖ 0x00 ‖ payload.
 * @see protocol/README.md §7
 */
export function signConfirmation(signer: Signer, confirmation: Omit<Confirmation, 'by'>): Uint8Array {
  const payload = encodeCbor({
    v: 1,
    hash: confirmation.objectHash,
    id: confirmation.id,
    iss: confirmation.issuer,
    aud: confirmation.audience,
    by: signer.publicKey,
    state: confirmation.state,
    reason: confirmation.reason,
    at: confirmation.atMs
  })
  return encodeCbor([payload, signer.sign(concat([context('confirmation'), payload]))])
}

/**
 * Decodes a confirmation and checks that it is signed by the EID that it names, one of those that `isAudience` knows; with `sent` or `about`, that it is about that object.
 * @throws ProtocolError `TOO_LARGE`, CBOR and field codes, `OBJECT_AUDIENCE` (another signer than the audience), `SIGNATURE_INVALID`, `OBJECT_CONFLICT`
 */
export function verifyConfirmation(
  crypto: CryptoProvider,
  bytes: Uint8Array,
  {
    isAudience,
    sent,
    about = sent === undefined ? undefined : { ...sent.object, objectHash: crypto.sha256(sent.bytes) }
  }: {
    isAudience: (by: Eid, audience: Eid) => boolean
    sent?: { object: GovernedObject; bytes: Uint8Array }
    about?: Pick<Confirmation, 'objectHash' | 'id' | 'issuer' | 'audience'> | undefined
  }
): Confirmation {
  if (bytes.length > CONFIRMATION_BYTES_MAX) {
    throw new ProtocolError('TOO_LARGE', `a confirmation is at most ${CONFIRMATION_BYTES_MAX} bytes, not ${bytes.length}`)
  }
  const [payload, signature] = signedPair(decodeCbor(bytes), 'confirmation')
  const fields = new CborFields(decodeCbor(payload), 'confirmation')
  fields.uint('v', { min: 1, max: 1 })
  const state = fields.oneOf('state', CONFIRMED_STATES)
  const reason = fields.optional('reason', (name) => fields.text(name, { bytesMax: 64, pattern: /^[A-Z0-9_]+$/ }))
  const confirmation: Confirmation = {
    objectHash: fields.bytes('hash', { length: 32 }),
    id: objectId(fields.bytes('id', { length: OBJECT_ID_BYTES })),
    issuer: eid(fields.bytes('iss', { length: 32 })),
    audience: eid(fields.bytes('aud', { length: 32 })),
    by: eid(fields.bytes('by', { length: 32 })),
    state,
    ...(reason === undefined ? {} : { reason }),
    atMs: fields.uint('at')
  }
  fields.end()
  if ((state === 'refused') !== (reason !== undefined)) {
    throw new ProtocolError('FIELD_INVALID', 'confirmation.reason belongs to refused, and to it alone', { field: 'confirmation.reason' })
  }
  if (!isAudience(confirmation.by, confirmation.audience)) {
    throw new ProtocolError('OBJECT_AUDIENCE', 'the confirmation is by somebody else than the audience', { field: 'confirmation.by' })
  }
  if (!crypto.ed25519.verify(confirmation.by, concat([context('confirmation'), payload]), signature)) {
    throw new ProtocolError('SIGNATURE_INVALID', 'the confirmation is not signed by who it names', { field: 'confirmation.sig' })
  }
  if (about !== undefined) {
    const same =
      equals(confirmation.objectHash, about.objectHash) &&
      equals(confirmation.id, about.id) &&
      equals(confirmation.issuer, about.issuer) &&
      equals(confirmation.audience, about.audience)
    if (!same) throw new ProtocolError('OBJECT_CONFLICT', 'the confirmation is about another object', { field: 'confirmation.hash' })
  }
  return confirmation
}

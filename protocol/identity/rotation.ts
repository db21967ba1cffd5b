import { concat, equals } from '../bytes.ts'
import { CborFields, decodeCbor, encodeCbor } from '../cbor.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from './contexts.ts'
import { checkedEid, type Eid } from './eid.ts'

/** A certificate is 240 bytes or a few less; nothing longer is looked into. */
export const ROTATION_BYTES_MAX = 256
const TS_SEC_MAX = Math.floor(Number.MAX_SAFE_INTEGER / 1_000)
const SIGNATURE_BYTES = 64
const ROTATION_CONTEXT = context('rotation')

/** An EID that gave way to another by the will of both keys (protocol/README.md §1). */
export interface Rotation {
  readonly old: Eid
  readonly new: Eid
  /** seconds since the Unix epoch; says nothing to those who did not see it then */
  readonly ts: number
}

/**
 * CBOR `[payload, sigOld, sigNew]`, payload `{v, old, new, ts}`, both signatures over `rookery/v1/rotation` ‖ 0x00 ‖ payload.
 * @throws TypeError when both signers are one
 */
export function signRotation(oldSigner: Signer, newSigner: Signer, ts: number): Uint8Array {
  if (equals(oldSigner.publicKey, newSigner.publicKey)) throw new TypeError('an EID is rotated to another one')
  const payload = encodeCbor({ v: 1, old: oldSigner.publicKey, new: newSigner.publicKey, ts })
  const signed = concat([ROTATION_CONTEXT, payload])
  return encodeCbor([payload, oldSigner.sign(signed), newSigner.sign(signed)])
}

/**
 * Shape, keys, then both signatures. Whether `old` is the EID that the session proved is for the caller to check.
 * @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_…`, `KEY_INVALID`, `SIGNATURE_INVALID` (field `sigOld` or `sigNew`)
 */
export function openRotation(crypto: CryptoProvider, bytes: Uint8Array): Rotation {
  if (bytes.length > ROTATION_BYTES_MAX) {
    throw new ProtocolError('TOO_LARGE', `a rotation certificate has at most ${ROTATION_BYTES_MAX} bytes, not ${bytes.length}`)
  }
  const value = decodeCbor(bytes)
  if (!Array.isArray(value) || value.length !== 3) throw invalid('rotation', 'a list of payload and two signatures')
  const [payload, sigOld, sigNew] = value
  if (!(payload instanceof Uint8Array)) throw invalid('payload', 'bytes')
  if (!(sigOld instanceof Uint8Array) || sigOld.length !== SIGNATURE_BYTES) throw invalid('sigOld', `${SIGNATURE_BYTES} bytes`)
  if (!(sigNew instanceof Uint8Array) || sigNew.length !== SIGNATURE_BYTES) throw invalid('sigNew', `${SIGNATURE_BYTES} bytes`)
  const fields = new CborFields(decodeCbor(payload), 'rotation')
  fields.uint('v', { min: 1, max: 1 })
  const rotation = {
    old: checkedEid(crypto, fields.bytes('old', { length: 32 })),
    new: checkedEid(crypto, fields.bytes('new', { length: 32 })),
    ts: fields.uint('ts', { max: TS_SEC_MAX })
  }
  fields.end()
  if (equals(rotation.old, rotation.new)) throw invalid('rotation.new', 'another EID than the old one')
  const signed = concat([ROTATION_CONTEXT, payload])
  if (!crypto.ed25519.verify(rotation.old, signed, sigOld)) throw unsigned('sigOld')
  if (!crypto.ed25519.verify(rotation.new, signed, sigNew)) throw unsigned('sigNew')
  return rotation
}

/**
 * Follows certificates, in order, from an EID to those that it gave way to.
 * @returns every EID that they lead to, the newest last; none where they do not begin with `from` or hang together
 * @throws ProtocolError as {@link openRotation}
 */
export function rotationsFrom(crypto: CryptoProvider, from: Eid, certificates: readonly Uint8Array[]): Eid[] {
  const reached: Eid[] = []
  for (const bytes of certificates) {
    const { old, new: next } = openRotation(crypto, bytes)
    if (equals(old, reached.at(-1) ?? from)) reached.push(next)
    else if (reached.length > 0) return []
  }
  return reached
}

function invalid(field: string, expected: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', `a rotation certificate's ${field} is not ${expected}`, { field })
}

function unsigned(field: 'sigOld' | 'sigNew'): ProtocolError {
  return new ProtocolError('SIGNATURE_INVALID', `the rotation certificate's ${field} does not verify`, { field })
}

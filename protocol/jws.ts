import { base64url } from 'multiformats/bases/base64'
import { concat, fromUtf8, utf8 } from './bytes.ts'
import { canonicalJson } from './canonical-json.ts'
import type { CryptoProvider, Signer } from './crypto/provider.ts'
import { ProtocolError } from './errors.ts'
import { type Eid, eid, eidFromDid, eidToDid } from './identity/eid.ts'
import { parseStrictJson } from './strict-json.ts'

/** The parts of a JWS over a payload that is known from elsewhere (RFC 7515, appendix F); base64url without padding. */
export interface DetachedJws {
  protected: string
  signature: string
}

/** A protected header is short; nothing longer is looked into. */
export const JWS_HEADER_CHARS_MAX = 1_024
const SIGNATURE_CHARS = 86

/** Signs `text` as EdDSA (RFC 8037); `kid` is the signer's did:key, so that no key has to be fetched. */
export function signJws(signer: Signer, text: string): DetachedJws {
  const header = { alg: 'EdDSA', kid: eidToDid(eid(signer.publicKey)), typ: 'JOSE' }
  const protectedPart = base64url.baseEncode(utf8(canonicalJson(header)))
  return { protected: protectedPart, signature: base64url.baseEncode(signer.sign(signingInput(protectedPart, text))) }
}

/**
 * The EID that a JWS says it is by, from its protected header alone. `jku`, `x5u` and `jwk` are not looked at: a key that the signed thing itself names
 * proves nothing, and an address there is never fetched.
 * @throws ProtocolError `FIELD_INVALID` (shape, an `alg` other than EdDSA, a `crit` header), `DID_INVALID`
 */
export function signerOfJws(jws: DetachedJws): Eid {
  if (jws.protected.length > JWS_HEADER_CHARS_MAX) throw invalid('protected', `is longer than ${JWS_HEADER_CHARS_MAX} characters`)
  const header = parseStrictJson(fromUtf8(bytesOf(jws.protected, 'protected')), 8)
  if (typeof header !== 'object' || header === null || Array.isArray(header)) throw invalid('protected', 'is no object')
  const { alg, kid, crit } = header as Record<string, unknown>
  if (alg !== 'EdDSA') throw invalid('protected.alg', 'is not EdDSA')
  if (crit !== undefined) throw invalid('protected.crit', 'names extensions, of which none is known here')
  if (typeof kid !== 'string') throw invalid('protected.kid', 'is not a text')
  return eidFromDid(kid)
}

/**
 * Checks the signature over `text` by the key that the header names.
 * @returns that key; whether it is the right one is for the caller to say
 * @throws ProtocolError as {@link signerOfJws}, `SIGNATURE_INVALID`
 */
export function verifyJws(crypto: CryptoProvider, jws: DetachedJws, text: string): Eid {
  const signer = signerOfJws(jws)
  if (jws.signature.length !== SIGNATURE_CHARS) throw invalid('signature', `has not ${SIGNATURE_CHARS} characters`)
  if (!crypto.ed25519.verify(signer, signingInput(jws.protected, text), bytesOf(jws.signature, 'signature'))) {
    throw new ProtocolError('SIGNATURE_INVALID', 'the signature does not verify', { field: 'signature' })
  }
  return signer
}

function signingInput(protectedPart: string, text: string): Uint8Array {
  return concat([utf8(`${protectedPart}.`), utf8(base64url.baseEncode(utf8(text)))])
}

function bytesOf(text: string, field: string): Uint8Array {
  let bytes: Uint8Array
  try {
    bytes = base64url.baseDecode(text)
  } catch (cause) {
    throw new ProtocolError('FIELD_INVALID', `${field} is not base64url`, { field, cause })
  }
  if (base64url.baseEncode(bytes) !== text) throw invalid(field, 'is not the one base64url text of its bytes')
  return bytes
}

function invalid(field: string, problem: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', `${field} ${problem}`, { field })
}

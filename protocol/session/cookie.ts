import { equalsConstantTime, toHex } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import type { Brand } from '../identity/eid.ts'

/** Half of the pair that names a session: random for the initiator, a keyed hash for the responder. 8 bytes (protocol/README.md §6, Header). */
export type Cookie = Brand<Uint8Array, 'Cookie'>

export const COOKIE_BYTES = 8

/** @throws ProtocolError `LENGTH` */
export function cookie(bytes: Uint8Array): Cookie {
  if (bytes.length !== COOKIE_BYTES) throw new ProtocolError('LENGTH', `a cookie is ${COOKIE_BYTES} bytes, not ${bytes.length}`)
  return bytes as Cookie
}

/** The R-cookie of an INIT and of a RETRY. */
export const NO_COOKIE = cookie(new Uint8Array(COOKIE_BYTES))

/** Both halves; the pair, not the stream, names the session. */
export interface CookiePair {
  readonly i: Cookie
  readonly r: Cookie
}

/** A map key for the pair. */
export function cookiePairHex(pair: CookiePair): string {
  return toHex(pair.i) + toHex(pair.r)
}

/** In time that does not depend on where the pairs differ. */
export function sameCookies(a: CookiePair, b: CookiePair): boolean {
  const i = equalsConstantTime(a.i, b.i)
  const r = equalsConstantTime(a.r, b.r)
  return i && r
}

import { concat, u64Bytes, Writer } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { context } from '../identity/contexts.ts'
import { COOKIE_BYTES, type Cookie, cookie } from './cookie.ts'
import { encodeInit, NO_RETRY_COOKIE, type PssInit, RETRY_COOKIE_BYTES } from './init.ts'
import type { PeerIds } from './key-schedule.ts'
import { encodeOptionalSfc } from './neg.ts'
import type { PeriodSecret } from './period-secrets.ts'
import type { SfcBlock } from './sfc.ts'

const LABEL = { eph: context('pss-eph'), cookie: context('pss-cookie'), retry: context('pss-retry') }
const NO_SALT = new Uint8Array(0)

/** Where both sides are: PeerId_I ‖ PeerId_R ‖ the remote multiaddr that the connection had when it opened, all binary. */
export function locatorBytes(peers: PeerIds, remoteAddr: Uint8Array): Uint8Array {
  return concat([peers.initiator, peers.responder, remoteAddr])
}

/** u64 e ‖ u16 len(addr) ‖ addr ‖ H(INIT) */
export function cookieContext(crypto: CryptoProvider, e: bigint, addr: Uint8Array, initFrame: Uint8Array): Uint8Array {
  return new Writer(42 + addr.length).u64(e).u16(addr.length).bytes(addr).bytes(crypto.sha256(initFrame)).finish()
}

/** The secret behind ephR, 32 bytes: HKDF-SHA256(ikm K_e, no salt, info eph ‖ ctx). The caller wipes it. */
export function ephemeralSecret(crypto: CryptoProvider, period: PeriodSecret, ctx: Uint8Array): Uint8Array {
  const prk = crypto.hkdfExtract(NO_SALT, period.secret)
  const secret = crypto.hkdfExpand(prk, concat([LABEL.eph, ctx]), 32)
  prk.fill(0)
  return secret
}

/** HMAC(K_e, cookie ‖ ctx ‖ NEG flags ‖ SFC block)[0..8); without a block 32 zero bytes stand for it. */
export function responderCookie(
  crypto: CryptoProvider,
  period: PeriodSecret,
  ctx: Uint8Array,
  negFlags: number,
  sfc: SfcBlock | undefined
): Cookie {
  const flags = new Writer(2).u16(negFlags).finish()
  return cookie(crypto.hmacSha256(period.secret, LABEL.cookie, ctx, flags, encodeOptionalSfc(sfc)).slice(0, COOKIE_BYTES))
}

/** HMAC(K_e, retry ‖ u64 e ‖ addr ‖ H(INIT with a zero retry cookie))[0..16) */
export function retryCookie(crypto: CryptoProvider, period: PeriodSecret, addr: Uint8Array, init: PssInit): Uint8Array {
  const first = crypto.sha256(encodeInit({ ...init, retryCookie: NO_RETRY_COOKIE }))
  return crypto.hmacSha256(period.secret, LABEL.retry, u64Bytes(period.e), addr, first).slice(0, RETRY_COOKIE_BYTES)
}

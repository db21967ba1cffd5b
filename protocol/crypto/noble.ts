import { gcm } from '@noble/ciphers/aes.js'
import { x25519 } from '@noble/curves/ed25519.js'
import * as ed from '@noble/ed25519'
import { expand, extract } from '@noble/hashes/hkdf.js'
import { hmac } from '@noble/hashes/hmac.js'
import { sha256, sha512 } from '@noble/hashes/sha2.js'
import { concat, equals, isZero } from '../bytes.ts'
import { createHpke } from './hpke.ts'
import { hasPrimeOrder } from './prime-order.ts'
import type { Aead, CryptoProvider, Ed25519, X25519 } from './provider.ts'

ed.hashes.sha512 = sha512

const GROUP_ORDER = ed.Point.CURVE().n

function littleEndian(bytes: Uint8Array): bigint {
  let value = 0n
  for (let i = bytes.length - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[i] as number)
  return value
}

const ed25519: Ed25519 = {
  publicKey: (seed) => ed.getPublicKey(seed),
  sign: (seed, message) => ed.sign(message, seed),
  verify(publicKey, message, signature) {
    if (publicKey.length !== 32 || signature.length !== 64) return false
    if (!hasPrimeOrder(publicKey)) return false
    const a = ed.Point.fromBytes(publicKey, false)
    const s = littleEndian(signature.subarray(32))
    if (s >= GROUP_ORDER) return false
    const r = signature.subarray(0, 32)
    const k = littleEndian(sha512(concat([r, publicKey, message]))) % GROUP_ORDER
    const sb = s === 0n ? ed.Point.ZERO : ed.Point.BASE.multiply(s, false)
    const ka = k === 0n ? ed.Point.ZERO : a.multiply(k, false)
    return equals(sb.subtract(ka).toBytes(), r)
  },
  isValidKey: hasPrimeOrder
}

const x: X25519 = {
  publicKey: (secret) => x25519.getPublicKey(secret),
  sharedSecret(secret, publicKey) {
    try {
      const shared = x25519.getSharedSecret(secret, publicKey)
      return isZero(shared) ? undefined : shared
    } catch {
      return undefined
    }
  },
  exchange(secret, publicKey) {
    const shared = x.sharedSecret(secret, publicKey)
    return shared === undefined ? undefined : { own: x.publicKey(secret), shared }
  }
}

const aead: Aead = {
  seal: (key, nonce, aad, plaintext) => gcm(key, nonce, aad).encrypt(plaintext),
  open(key, nonce, aad, sealed) {
    try {
      return gcm(key, nonce, aad).decrypt(sealed)
    } catch {
      return undefined
    }
  },
  keyed(key) {
    const own = key.slice()
    return {
      seal: (nonce, aad, plaintext) => aead.seal(own, nonce, aad, plaintext),
      sealInPlace: (nonce, aad, buffer) => buffer.set(aead.seal(own, nonce, aad, buffer.subarray(0, -16))),
      open: (nonce, aad, sealed) => aead.open(own, nonce, aad, sealed)
    }
  }
}

/** The provider for browsers and other platforms without `node:crypto`. */
export const nobleCrypto: CryptoProvider = {
  sha256: (...parts) => sha256(parts.length === 1 ? (parts[0] as Uint8Array) : concat(parts)),
  hmacSha256: (key, ...parts) => hmac(sha256, key, concat(parts)),
  hkdfExtract: (salt, ikm) => extract(sha256, ikm, salt),
  hkdfExpand: (prk, info, length) => expand(sha256, prk, info, length),
  ed25519,
  x25519: x,
  aead,
  hpke: createHpke(x)
}

import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  diffieHellman,
  hash as digest,
  type KeyObject,
  sign,
  verify
} from 'node:crypto'
import { concat, equals, isZero, toHex } from '../../protocol/bytes.ts'
import { createHpkeBase } from '../../protocol/crypto/hpke-base.ts'
import { nobleCrypto } from '../../protocol/crypto/noble.ts'
import { hasPrimeOrder } from '../../protocol/crypto/prime-order.ts'
import type { CryptoProvider, X25519 } from '../../protocol/crypto/provider.ts'

const ED25519_PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')
const ED25519_SPKI = Buffer.from('302a300506032b6570032100', 'hex')
const X25519_PKCS8 = Buffer.from('302e020100300506032b656e04220420', 'hex')
const X25519_SPKI = Buffer.from('302a300506032b656e032100', 'hex')

/** A peer can make us look at any number of keys: the oldest imported one goes when this many are held. */
const KEY_CACHE_MAX = 4_096

const privateKey = (prefix: Uint8Array, secret: Uint8Array) =>
  untraced(() => createPrivateKey({ key: Buffer.concat([prefix, secret]), format: 'der', type: 'pkcs8' }))
const publicKey = (prefix: Uint8Array, key: Uint8Array) =>
  untraced(() => createPublicKey({ key: Buffer.concat([prefix, key]), format: 'der', type: 'spki' }))

/** Node finds out by failed tries that bytes are no key object: deep in a request the traces of those tries cost more than the import. */
function untraced<T>(work: () => T): T {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    return work()
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}
/** By way of JWK, which gives the bytes as they lie in the key: a DER export costs ten times as much. */
const rawPublic = (secret: KeyObject) =>
  new Uint8Array(Buffer.from(createPublicKey(secret).export({ format: 'jwk' }).x as string, 'base64url'))

/** Imported public keys by hex; `undefined` remembers a refused key. */
function cached(importKey: (key: Uint8Array) => KeyObject | undefined): (key: Uint8Array) => KeyObject | undefined {
  const keys = new Map<string, KeyObject | undefined>()
  return (key) => {
    const name = toHex(key)
    if (keys.has(name)) return keys.get(name)
    const imported = importKey(key)
    if (keys.size >= KEY_CACHE_MAX) keys.delete(keys.keys().next().value as string)
    keys.set(name, imported)
    return imported
  }
}

/** Importing and checking a key costs more than a verification. */
const verifyKey = cached((key) => (hasPrimeOrder(key) ? publicKey(ED25519_SPKI, key) : undefined))

/** What many messages are sealed for: mailbox keys, the long-term keys of peers. A key that is used once only pushes another one out. */
const agreementKey = cached((key) => (key.length === 32 ? publicKey(X25519_SPKI, key) : undefined))

/** R = [0]B: the equation can hold, yet some releases of OpenSSL refuse it and others do not, so noble decides. Honest signers never send it. */
const IDENTITY = Uint8Array.of(1, ...new Uint8Array(31))

/** Our own signing keys, by their seed's buffer: a seed that is let go takes its key object along. */
const signKeys = new WeakMap<Uint8Array, KeyObject>()

function signKey(seed: Uint8Array): KeyObject {
  let key = signKeys.get(seed)
  if (key === undefined) {
    key = privateKey(ED25519_PKCS8, seed)
    signKeys.set(seed, key)
  }
  return key
}

const x25519: X25519 = {
  publicKey: (secret) => rawPublic(privateKey(X25519_PKCS8, secret)),
  sharedSecret: (secret, key) => sharedSecret(privateKey(X25519_PKCS8, secret), key),
  exchange(secret, key) {
    const own = privateKey(X25519_PKCS8, secret)
    const shared = sharedSecret(own, key)
    return shared === undefined ? undefined : { own: rawPublic(own), shared }
  }
}

function sharedSecret(own: KeyObject, key: Uint8Array): Uint8Array | undefined {
  try {
    const other = agreementKey(key)
    if (other === undefined) return undefined
    const shared = diffieHellman({ privateKey: own, publicKey: other })
    return isZero(shared) ? undefined : new Uint8Array(shared)
  } catch {
    return undefined // OpenSSL refuses low-order points itself
  }
}

// a key object, as Node finds out by a failed try (and a second) that bytes are none: 30 µs a call
const hmac = (key: Uint8Array, ...parts: Uint8Array[]) => {
  const mac = createHmac('sha256', createSecretKey(key))
  for (const part of parts) mac.update(part)
  return new Uint8Array(mac.digest())
}

function seal(key: KeyObject, nonce: Uint8Array, aad: Uint8Array, plaintext: Uint8Array): Uint8Array {
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  cipher.setAAD(aad)
  const body = cipher.update(plaintext)
  cipher.final()
  const sealed = new Uint8Array(body.length + 16)
  sealed.set(body)
  sealed.set(cipher.getAuthTag(), body.length)
  return sealed
}

function open(key: KeyObject, nonce: Uint8Array, aad: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
  if (sealed.length < 16) return undefined
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: 16 })
  decipher.setAAD(aad)
  decipher.setAuthTag(sealed.subarray(sealed.length - 16))
  try {
    const plaintext = decipher.update(sealed.subarray(0, sealed.length - 16))
    decipher.final()
    return new Uint8Array(plaintext.buffer, plaintext.byteOffset, plaintext.length)
  } catch {
    return undefined
  }
}

const FIRST_BLOCK = Uint8Array.of(1)

/** The provider of a Node process: OpenSSL for speed, noble to judge keys (protocol/README.md §0 and §1). */
export const nodeCrypto: CryptoProvider = {
  sha256(...parts) {
    const [whole] = parts
    if (parts.length === 1 && whole !== undefined) return new Uint8Array(digest('sha256', whole, 'buffer'))
    const hash = createHash('sha256')
    for (const part of parts) hash.update(part)
    return new Uint8Array(hash.digest())
  },
  hmacSha256: hmac,
  hkdfExtract: (salt, ikm) => hmac(salt, ikm),
  hkdfExpand(prk, info, length) {
    if (length > 255 * 32) throw new RangeError(`HKDF gives at most 8160 bytes, not ${length}`)
    if (length <= 32) return hmac(prk, info, FIRST_BLOCK).subarray(0, length)
    const blocks: Uint8Array[] = []
    let last: Uint8Array = new Uint8Array(0)
    for (let i = 1; blocks.length * 32 < length; i++) {
      last = hmac(prk, last, info, Uint8Array.of(i))
      blocks.push(last)
    }
    return concat(blocks).slice(0, length)
  },
  ed25519: {
    publicKey: (seed) => rawPublic(signKey(seed)),
    sign: (seed, message) => new Uint8Array(sign(null, message, signKey(seed))),
    verify(key, message, signature) {
      if (key.length !== 32 || signature.length !== 64) return false
      if (equals(signature.subarray(0, 32), IDENTITY)) return nobleCrypto.ed25519.verify(key, message, signature)
      const imported = verifyKey(key)
      return imported !== undefined && verify(null, message, imported, signature)
    },
    isValidKey: (key) => key.length === 32 && verifyKey(key) !== undefined
  },
  x25519,
  aead: {
    seal: (key, nonce, aad, plaintext) => seal(createSecretKey(key), nonce, aad, plaintext),
    open: (key, nonce, aad, sealed) => open(createSecretKey(key), nonce, aad, sealed),
    keyed(key) {
      const imported = createSecretKey(key)
      return {
        seal: (nonce, aad, plaintext) => seal(imported, nonce, aad, plaintext),
        sealInPlace(nonce, aad, buffer) {
          const cipher = createCipheriv('aes-256-gcm', imported, nonce)
          cipher.setAAD(aad)
          buffer.set(cipher.update(buffer.subarray(0, -16)))
          cipher.final()
          buffer.set(cipher.getAuthTag(), buffer.length - 16)
        },
        open: (nonce, aad, sealed) => open(imported, nonce, aad, sealed)
      }
    }
  },
  get hpke() {
    return hpke
  }
}

const hpke = createHpkeBase(nodeCrypto)

/**
 * The primitives that the protocol stands on, handed in so that a node uses the fast ones of its platform and a browser noble's.
 * Both implementations pass one suite (`test/unit/crypto-providers.test.ts`). Nothing here draws randomness.
 */
export interface CryptoProvider {
  /** SHA-256 over the concatenation of `parts`. */
  sha256(...parts: Uint8Array[]): Uint8Array
  hmacSha256(key: Uint8Array, ...parts: Uint8Array[]): Uint8Array
  /** RFC 5869 extract: HMAC(salt, ikm). */
  hkdfExtract(salt: Uint8Array, ikm: Uint8Array): Uint8Array
  /** RFC 5869 expand, `length` at most 255 × 32 bytes. */
  hkdfExpand(prk: Uint8Array, info: Uint8Array, length: number): Uint8Array
  readonly ed25519: Ed25519
  readonly x25519: X25519
  readonly aead: Aead
  readonly hpke: Hpke
}

export interface Ed25519 {
  /** 32-byte public key of a 32-byte seed. */
  publicKey(seed: Uint8Array): Uint8Array
  /** Deterministic signature (RFC 8032), 64 bytes. */
  sign(seed: Uint8Array, message: Uint8Array): Uint8Array
  /**
   * The one rule that third parties must agree on (protocol/README.md §0 and §1): key canonical and of prime order, S < L, R equal to the bytes of
   * [S]B − [k]A. Never throws.
   */
  verify(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean
  /** Canonical encoding of a point of prime order. */
  isValidKey(publicKey: Uint8Array): boolean
}

export interface X25519 {
  publicKey(secret: Uint8Array): Uint8Array
  /** The 32-byte shared secret, or undefined where it is all zero (a low-order point) or the key is malformed. */
  sharedSecret(secret: Uint8Array, publicKey: Uint8Array): Uint8Array | undefined
  /** Both of the above under one secret, which is taken in once. */
  exchange(secret: Uint8Array, publicKey: Uint8Array): { own: Uint8Array; shared: Uint8Array } | undefined
}

/** AES-256-GCM: 32-byte key, 12-byte nonce, 16-byte tag at the end. */
export interface Aead {
  seal(key: Uint8Array, nonce: Uint8Array, aad: Uint8Array, plaintext: Uint8Array): Uint8Array
  /** The plaintext, or undefined when it does not open. */
  open(key: Uint8Array, nonce: Uint8Array, aad: Uint8Array, sealed: Uint8Array): Uint8Array | undefined
  /** The same under one key that serves many messages: importing a key can cost more than a small message. The bytes are copied. */
  keyed(key: Uint8Array): KeyedAead
}

/** {@link Aead} with its key taken in. The platform lets go of its copy when this is let go. */
export interface KeyedAead {
  seal(nonce: Uint8Array, aad: Uint8Array, plaintext: Uint8Array): Uint8Array
  /** Seals all but the last 16 bytes of `buffer` where they stand; the tag goes into those 16. */
  sealInPlace(nonce: Uint8Array, aad: Uint8Array, buffer: Uint8Array): void
  open(nonce: Uint8Array, aad: Uint8Array, sealed: Uint8Array): Uint8Array | undefined
}

/** RFC 9180 base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM; one message a context. */
export interface Hpke {
  /** `ephemeralSecret`: 32 random bytes, fresh for every call. */
  seal(input: {
    recipient: Uint8Array
    ephemeralSecret: Uint8Array
    info: Uint8Array
    aad: Uint8Array
    plaintext: Uint8Array
  }): Promise<{ enc: Uint8Array; ct: Uint8Array }>
  /** The plaintext, or undefined when it does not open. */
  open(input: { secret: Uint8Array; enc: Uint8Array; info: Uint8Array; aad: Uint8Array; ct: Uint8Array }): Promise<Uint8Array | undefined>
}

/** What signs for one EID: a seed in memory here, perhaps a key store elsewhere. */
export interface Signer {
  readonly publicKey: Uint8Array
  sign(message: Uint8Array): Uint8Array
}

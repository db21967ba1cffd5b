import { concat, Writer, wipe } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { context } from '../identity/contexts.ts'
import type { DirectionKeys, SessionKeys } from './established.ts'

const LABEL = {
  extract: context('pss-extract'),
  neg: context('pss-neg'),
  ack: context('pss-ack'),
  sigNeg: context('pss-sig-neg'),
  sigAck: context('pss-sig-ack'),
  i2rKey: context('pss-i2r-key'),
  i2rIv: context('pss-i2r-iv'),
  i2rChain: context('pss-i2r-chain'),
  r2iKey: context('pss-r2i-key'),
  r2iIv: context('pss-r2i-iv'),
  r2iChain: context('pss-r2i-chain'),
  export: context('pss-export'),
  session: context('session')
}

export const SESSION_ID_BYTES = 16
const KEY_BYTES = 32
const IV_BYTES = 12
/** Each handshake key seals one plaintext, so its nonce is zero and its associated data empty. */
const NONCE = new Uint8Array(IV_BYTES)
const NOTHING = new Uint8Array(0)

/** The libp2p ids of both hosts, binary, as the secured connection proved them. At most 65,535 bytes each. */
export interface PeerIds {
  readonly initiator: Uint8Array
  readonly responder: Uint8Array
}

/** H(u16 len ‖ PeerId_I ‖ u16 len ‖ PeerId_R ‖ INIT ‖ NEG's clear part) */
export function th1(crypto: CryptoProvider, peers: PeerIds, init: Uint8Array, negClear: Uint8Array): Uint8Array {
  const ids = new Writer(128).u16(peers.initiator.length).bytes(peers.initiator).u16(peers.responder.length).bytes(peers.responder).finish()
  return crypto.sha256(ids, init, negClear)
}

/** H(th1 ‖ EID_R ‖ ACK's clear part) */
export function th2(crypto: CryptoProvider, hash1: Uint8Array, eidR: Uint8Array, ackClear: Uint8Array): Uint8Array {
  return crypto.sha256(hash1, eidR, ackClear)
}

/** H(th2 ‖ ACK's AEAD): the session's epoch */
export function th3(crypto: CryptoProvider, hash2: Uint8Array, ackSealed: Uint8Array): Uint8Array {
  return crypto.sha256(hash2, ackSealed)
}

/** HKDF-Extract(salt = extract label, ikm = dh), 32 bytes */
export function handshakeSecret(crypto: CryptoProvider, dh: Uint8Array): Uint8Array {
  return crypto.hkdfExtract(LABEL.extract, dh)
}

/** Kneg = Expand(prk, neg ‖ th1) */
export function negKey(crypto: CryptoProvider, prk: Uint8Array, hash1: Uint8Array): Uint8Array {
  return crypto.hkdfExpand(prk, concat([LABEL.neg, hash1]), KEY_BYTES)
}

/** Kack = Expand(prk, ack ‖ th2) */
export function ackKey(crypto: CryptoProvider, prk: Uint8Array, hash2: Uint8Array): Uint8Array {
  return crypto.hkdfExpand(prk, concat([LABEL.ack, hash2]), KEY_BYTES)
}

/** Seals the one plaintext of a handshake key, then wipes the key. */
export function sealOnce(crypto: CryptoProvider, key: Uint8Array, plaintext: Uint8Array): Uint8Array {
  const sealed = crypto.aead.seal(key, NONCE, NOTHING, plaintext)
  wipe(key)
  return sealed
}

/** Opens the one ciphertext of a handshake key, then wipes the key. Undefined when it does not open. */
export function openOnce(crypto: CryptoProvider, key: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
  const plaintext = crypto.aead.open(key, NONCE, NOTHING, sealed)
  wipe(key)
  return plaintext
}

/** What sigR signs: sig-neg ‖ th1 ‖ EID_R */
export function negSigned(hash1: Uint8Array, eidR: Uint8Array): Uint8Array {
  return concat([LABEL.sigNeg, hash1, eidR])
}

/** What sigI signs: sig-ack ‖ th2 ‖ EID_I ‖ EID_R */
export function ackSigned(hash2: Uint8Array, eidI: Uint8Array, eidR: Uint8Array): Uint8Array {
  return concat([LABEL.sigAck, hash2, eidI, eidR])
}

/** Expand(prk, x ‖ th3) for each key; IVs 12 bytes, all else 32. */
export function sessionKeys(crypto: CryptoProvider, prk: Uint8Array, hash3: Uint8Array): SessionKeys {
  const expand = (label: Uint8Array, length = KEY_BYTES) => crypto.hkdfExpand(prk, concat([label, hash3]), length)
  const direction = (key: Uint8Array, iv: Uint8Array, chain: Uint8Array): DirectionKeys => ({
    key: expand(key),
    iv: expand(iv, IV_BYTES),
    chain: expand(chain)
  })
  return {
    i2r: direction(LABEL.i2rKey, LABEL.i2rIv, LABEL.i2rChain),
    r2i: direction(LABEL.r2iKey, LABEL.r2iIv, LABEL.r2iChain),
    export: expand(LABEL.export)
  }
}

/** H("rookery/v1/session" ‖ 0x00 ‖ th3)[0..16), of the session's first handshake */
export function sessionId(crypto: CryptoProvider, hash3: Uint8Array): Uint8Array {
  return crypto.sha256(LABEL.session, hash3).slice(0, SESSION_ID_BYTES)
}

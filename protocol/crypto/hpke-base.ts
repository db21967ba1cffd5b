import { concat, equals, utf8 } from '../bytes.ts'
import { lowOrder } from './hpke.ts'
import type { CryptoProvider, Hpke } from './provider.ts'

const VERSION = utf8('HPKE-v1')
const EMPTY = new Uint8Array(0)
/** DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. */
const KEM = concat([utf8('KEM'), Uint8Array.of(0, 0x20)])
const SUITE = concat([utf8('HPKE'), Uint8Array.of(0, 0x20, 0, 1, 0, 2)])
const MODE_BASE = 0
const KEY_BYTES = 32
const NONCE_BYTES = 12
const SECRET_BYTES = 32

type Primitives = Pick<CryptoProvider, 'hkdfExtract' | 'hkdfExpand' | 'x25519' | 'aead'>

/**
 * HPKE in base mode for one message a key (RFC 9180, §4.1, §5.1), out of a provider's own primitives and without a thread's detour: where those are native it is
 * several times as fast as the library that `createHpke` uses, which the tests hold it against.
 */
export function createHpkeBase({ hkdfExtract, hkdfExpand, x25519, aead }: Primitives): Hpke {
  const extract = (suite: Uint8Array, salt: Uint8Array, label: string, ikm: Uint8Array) =>
    hkdfExtract(salt, concat([VERSION, suite, utf8(label), ikm]))
  const expand = (suite: Uint8Array, prk: Uint8Array, label: string, info: Uint8Array, length: number) =>
    hkdfExpand(prk, concat([Uint8Array.of(length >> 8, length & 0xff), VERSION, suite, utf8(label), info]), length)
  const pskIdHash = extract(SUITE, EMPTY, 'psk_id_hash', EMPTY)
  let lastInfo: { info: Uint8Array; hash: Uint8Array } | undefined
  /** A caller's info is the same every time as a rule. */
  const infoHash = (info: Uint8Array) => {
    if (lastInfo === undefined || !equals(lastInfo.info, info))
      lastInfo = { info: info.slice(), hash: extract(SUITE, EMPTY, 'info_hash', info) }
    return lastInfo.hash
  }

  const schedule = (dh: Uint8Array, enc: Uint8Array, recipient: Uint8Array, info: Uint8Array) => {
    const shared = expand(KEM, extract(KEM, EMPTY, 'eae_prk', dh), 'shared_secret', concat([enc, recipient]), SECRET_BYTES)
    const context = concat([Uint8Array.of(MODE_BASE), pskIdHash, infoHash(info)])
    const secret = extract(SUITE, shared, 'secret', EMPTY)
    return { key: expand(SUITE, secret, 'key', context, KEY_BYTES), nonce: expand(SUITE, secret, 'base_nonce', context, NONCE_BYTES) }
  }

  return {
    async seal({ recipient, ephemeralSecret, info, aad, plaintext }) {
      const exchanged = x25519.exchange(ephemeralSecret, recipient)
      if (exchanged === undefined) throw lowOrder()
      const { own: enc, shared } = exchanged
      const { key, nonce } = schedule(shared, enc, recipient, info)
      return { enc, ct: aead.seal(key, nonce, aad, plaintext) }
    },
    async open({ secret, enc, info, aad, ct }) {
      const exchanged = x25519.exchange(secret, enc)
      if (exchanged === undefined) return undefined
      const { key, nonce } = schedule(exchanged.shared, enc, exchanged.own, info)
      return aead.open(key, nonce, aad, ct)
    }
  }
}

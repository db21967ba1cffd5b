import { concat, equals, utf8 } from '../bytes.ts'
import { lowOrder } from './hpke.ts'
import type { CryptoProvider, Hpke } from './provider.ts'

const VERSION = utf8('HPKE-v1')
const EMPTY = new Uint8Array(0)
/** DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. */
const KEM = concat([utf8('KEM'), Uint8Array.of(0, 0x20)])
const SUITE = concat([utf8('HPKE'), Uint8Array.of(0, 0x20, 0, 1, 0, 2)])
const MODE_BASE = Uint8Array.of(0)
const KEY_BYTES = 32
const NONCE_BYTES = 12
const SECRET_BYTES = 32

/** LabeledExtract's and LabeledExpand's texts (§4), which are the same for every message. */
const labelled = (suite: Uint8Array, label: string) => concat([VERSION, suite, utf8(label)])
const labelledFor = (length: number, suite: Uint8Array, label: string) => concat([Uint8Array.of(0, length), labelled(suite, label)])
const EAE_PRK = labelled(KEM, 'eae_prk')
const SHARED_SECRET = labelledFor(SECRET_BYTES, KEM, 'shared_secret')
const SECRET = labelled(SUITE, 'secret')
const KEY = labelledFor(KEY_BYTES, SUITE, 'key')
const BASE_NONCE = labelledFor(NONCE_BYTES, SUITE, 'base_nonce')

type Primitives = Pick<CryptoProvider, 'hkdfExtract' | 'hkdfExpand' | 'x25519' | 'aead'>

/**
 * HPKE in base mode for one message a key (RFC 9180, §4.1, §5.1), out of a provider's own primitives and without a thread's detour: where those are native it is
 * several times as fast as the library that `createHpke` uses, which the tests hold it against.
 */
export function createHpkeBase({ hkdfExtract, hkdfExpand, x25519, aead }: Primitives): Hpke {
  const pskIdHash = hkdfExtract(EMPTY, labelled(SUITE, 'psk_id_hash'))
  let lastInfo: { info: Uint8Array; hash: Uint8Array } | undefined
  /** A caller's info is the same every time as a rule. */
  const infoHash = (info: Uint8Array) => {
    if (lastInfo === undefined || !equals(lastInfo.info, info)) {
      lastInfo = { info: info.slice(), hash: hkdfExtract(EMPTY, concat([labelled(SUITE, 'info_hash'), info])) }
    }
    return lastInfo.hash
  }

  const schedule = (dh: Uint8Array, enc: Uint8Array, recipient: Uint8Array, info: Uint8Array) => {
    const shared = hkdfExpand(hkdfExtract(EMPTY, concat([EAE_PRK, dh])), concat([SHARED_SECRET, enc, recipient]), SECRET_BYTES)
    const secret = hkdfExtract(shared, SECRET)
    const context = concat([MODE_BASE, pskIdHash, infoHash(info)])
    return {
      key: hkdfExpand(secret, concat([KEY, context]), KEY_BYTES),
      nonce: hkdfExpand(secret, concat([BASE_NONCE, context]), NONCE_BYTES)
    }
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

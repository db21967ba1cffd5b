import { base58btc } from 'multiformats/bases/base58'
import { concat, toHex } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'

declare const brand: unique symbol
export type Brand<T, Name extends string> = T & { readonly [brand]: Name }

/** An agent's name: an Ed25519 public key, 32 bytes (protocol/README.md §1). */
export type Eid = Brand<Uint8Array, 'Eid'>
/** An EID in lower-case hex, for map and store keys. */
export type EidHex = Brand<string, 'EidHex'>
/** An EID's text form, `did:key:z6Mk…`. */
export type Did = Brand<string, 'Did'>

export const EID_BYTES = 32
const ED25519_MULTICODEC = Uint8Array.of(0xed, 0x01)
const DID_PREFIX = 'did:key:'
/** `did:key:` and base58btc of 34 bytes never exceed this. */
const DID_CHARS_MAX = 64

/**
 * The length is checked here, the curve point where it is first verified or by {@link checkedEid}.
 * @throws ProtocolError `KEY_INVALID`
 */
export function eid(bytes: Uint8Array): Eid {
  if (bytes.length !== EID_BYTES) throw new ProtocolError('KEY_INVALID', `an EID is ${EID_BYTES} bytes, not ${bytes.length}`)
  return bytes as Eid
}

/** @throws ProtocolError `KEY_INVALID` for anything but a canonical key of prime order */
export function checkedEid(crypto: CryptoProvider, bytes: Uint8Array): Eid {
  const value = eid(bytes)
  if (!crypto.ed25519.isValidKey(value)) throw new ProtocolError('KEY_INVALID', 'the EID is not a canonical Ed25519 key of prime order')
  return value
}

export function eidHex(value: Eid): EidHex {
  return toHex(value) as EidHex
}

export function eidToDid(value: Eid): Did {
  return (DID_PREFIX + base58btc.encode(concat([ED25519_MULTICODEC, value]))) as Did
}

/**
 * @throws ProtocolError `DID_INVALID`: other methods, other key types, other bases and odd spellings are refused
 */
export function eidFromDid(text: string): Eid {
  const shown = text.slice(0, 80)
  if (text.length > DID_CHARS_MAX || !text.startsWith(`${DID_PREFIX}z`)) {
    throw new ProtocolError('DID_INVALID', `"${shown}" is no did:key of an Ed25519 key (did:key:z6Mk…)`)
  }
  let bytes: Uint8Array
  try {
    bytes = base58btc.decode(text.slice(DID_PREFIX.length))
  } catch (cause) {
    throw new ProtocolError('DID_INVALID', `"${shown}" is not base58btc after did:key:`, { cause })
  }
  if (bytes.length !== 34 || bytes[0] !== 0xed || bytes[1] !== 0x01) {
    throw new ProtocolError('DID_INVALID', `"${shown}" names another kind of key than Ed25519 (multicodec 0xed01)`)
  }
  const value = eid(bytes.slice(2))
  if (eidToDid(value) !== text) throw new ProtocolError('DID_INVALID', `"${shown}" is not in its one canonical spelling`)
  return value
}

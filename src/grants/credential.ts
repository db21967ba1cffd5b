import { utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Random } from '../platform/random.ts'

/**
 * A grant's bearer credential: `rkg_` ‖ its id in 16 hex digits ‖ `_` ‖ 32 random bytes in base64url. The id finds the row, the rest proves it. With 256 random bits
 * a plain hash is as good as a slow one: there is nothing to guess.
 */
const CREDENTIAL = /^rkg_([0-9a-f]{16})_[A-Za-z0-9_-]{43}$/
const SECRET_BYTES = 32

export function newCredential(id: string, random: Random): string {
  return `rkg_${id}_${Buffer.from(random.bytes(SECRET_BYTES)).toString('base64url')}`
}

/** The grant that a credential says it is of; undefined for any other text. */
export function grantOfCredential(text: string): string | undefined {
  return CREDENTIAL.exec(text)?.[1]
}

/** What is stored in its place. */
export function credentialHash(crypto: CryptoProvider, text: string): Uint8Array {
  return crypto.sha256(utf8(`rookery/grant\0${text}`))
}

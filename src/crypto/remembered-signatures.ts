import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'

/** More than one search lists; the oldest goes first. About 3 MiB. */
const REMEMBERED_MAX = 16_384

/**
 * The same primitives, but a signature that was good is not checked again while it is remembered: a search that is repeated, and what several
 * registrars serve, costs a hash for each record instead of a verification. Refusals are not remembered: a stranger can make any number.
 */
export function rememberingSignatures(crypto: CryptoProvider, max = REMEMBERED_MAX): CryptoProvider {
  const good = new Set<string>()
  return {
    ...crypto,
    ed25519: {
      ...crypto.ed25519,
      verify(publicKey, message, signature) {
        // the lengths of key and signature are fixed, so no two different triples have one text; other lengths are refused below
        const isWhole = publicKey.length === 32 && signature.length === 64
        const name = isWhole ? toHex(crypto.sha256(publicKey, signature, message)) : ''
        if (good.has(name)) return true
        if (!crypto.ed25519.verify(publicKey, message, signature)) return false
        if (good.size >= max) good.delete(good.values().next().value as string)
        good.add(name)
        return true
      }
    }
  }
}

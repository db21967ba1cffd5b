import { concat, equals, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'

const SEED = utf8('rookery/sim/key\0')
const SIGNATURE = utf8('rookery/sim/signature\0')

/**
 * Signatures that cost a hash: whoever knows the public key can make one, so a model may only use it for nodes that do not forge. All else is the
 * platform's own.
 */
export const cheapCrypto: CryptoProvider = {
  ...nodeCrypto,
  ed25519: {
    publicKey: (seed) => nodeCrypto.sha256(SEED, seed),
    sign: (seed, message) => signature(nodeCrypto.sha256(SEED, seed), message),
    verify: (publicKey, message, signed) => equals(signed, signature(publicKey, message)),
    isValidKey: (key) => key.length === 32
  }
}

function signature(publicKey: Uint8Array, message: Uint8Array): Uint8Array {
  const half = nodeCrypto.sha256(SIGNATURE, publicKey, message)
  return concat([half, half])
}

import { base58btc } from 'multiformats/bases/base58'
import { concat } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'

/** The node's transport identity: the libp2p host key, never derived from an EID nor the other way round (protocol/README.md §1). */
export interface NodeKey {
  /** 32-byte Ed25519 seed */
  readonly seed: Uint8Array
  /** PeerId, text form */
  readonly peer: string
}

/** A key without a file, for nodes in memory. */
export function nodeKeyOf(seed: Uint8Array, crypto: CryptoProvider): NodeKey {
  return { seed, peer: peerIdText(crypto.ed25519.publicKey(seed)) }
}

/** libp2p's text form of an Ed25519 host key: base58btc of the identity multihash over the protobuf of the public key. */
export function peerIdText(publicKey: Uint8Array): string {
  return base58btc.baseEncode(concat([Uint8Array.of(0x00, 0x24, 0x08, 0x01, 0x12, 0x20), publicKey]))
}

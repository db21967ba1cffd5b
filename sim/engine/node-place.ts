import { concat } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { derivedBytes } from './seeds.ts'

/** A PeerId of an Ed25519 key: an identity multihash over the protobuf of the key. */
const PEER_ID_PREFIX = Uint8Array.of(0x00, 0x24, 0x08, 0x01, 0x12, 0x20)

/** Where the DHT puts a node: SHA-256 of its PeerId, 32 bytes. @param secret - the seed of its host key, 32 bytes */
export function placeOfSecret(secret: Uint8Array): Uint8Array {
  return nodeCrypto.sha256(concat([PEER_ID_PREFIX, nodeCrypto.ed25519.publicKey(secret)]))
}

/** Where a node of a run lies, in both engines. */
export function placeOfNode(seed: number, index: number): Uint8Array {
  return placeOfSecret(derivedBytes(seed, 'node-key', index))
}

import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { placeOfNode } from './node-place.ts'
import { derivedBytes } from './seeds.ts'

describe('the place of a node of a run', () => {
  it('is that of the PeerId with which the real engine starts it', async () => {
    for (const index of [0, 7]) {
      const id = peerIdFromPrivateKey(await generateKeyPairFromSeed('Ed25519', derivedBytes(3, 'node-key', index)))
      expect(placeOfNode(3, index)).toEqual(nodeCrypto.sha256(id.toMultihash().bytes))
    }
  })
})

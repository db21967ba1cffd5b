import { generateKeyPair } from '@libp2p/crypto/keys'
import type { PeerId } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { KademliaDht } from '../../src/net/dht.ts'

const newPeer = async (): Promise<PeerId> => peerIdFromPrivateKey(await generateKeyPair('Ed25519'))

describe('connected peers that miss in the routing table', () => {
  it('are put into it again, those that are in it are left in peace, and one that shows no sign of life holds nobody up', async () => {
    const [held, dead, missing] = [await newPeer(), await newPeer(), await newPeer()]
    const table = [held]
    const tried: string[] = []
    const routingTable = {
      get size() {
        return table.length
      },
      closestPeers: () => [...table],
      async add(peer: PeerId) {
        tried.push(peer.toString())
        if (peer === dead) throw new Error('no sign of life')
        table.push(peer)
      }
    }
    const connected = async (wanted: (peer: string) => boolean) => [held, dead, missing].filter((peer) => wanted(peer.toString()))
    const dht = new KademliaDht({ kad: { routingTable }, peer: await newPeer(), crypto: nodeCrypto, connected } as never)
    await dht.takeInConnected()
    expect(tried).toEqual([dead, missing].map(String))
    expect(dht.table()).toEqual([held, missing].map(String))
    await dht.takeInConnected()
    expect(tried.slice(2)).toEqual([dead.toString()])
  })
})

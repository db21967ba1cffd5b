import { afterEach, expect, it } from 'vitest'
import { concat, utf8 } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { startHost, stopHosts, until } from './host-fixture.ts'

afterEach(stopHosts)

/** A PeerId of an Ed25519 key: an identity multihash over the protobuf of the key. */
const PEER_ID_PREFIX = Uint8Array.of(0x00, 0x24, 0x08, 0x01, 0x12, 0x20)

/** Node keys whose places in the DHT begin with `prefix`, one for each way in which the two bits after these six can be. */
function neighbourhood(prefix: number): Uint8Array[] {
  const byLeaf = new Map<number, Uint8Array>()
  for (let i = 0; byLeaf.size < 4; i++) {
    const secret = nodeCrypto.sha256(utf8(`neighbour ${i}`))
    const [first = 0] = nodeCrypto.sha256(concat([PEER_ID_PREFIX, nodeCrypto.ed25519.publicKey(secret)]))
    if (first >> 2 === prefix && !byLeaf.has(first & 3)) byLeaf.set(first & 3, secret)
  }
  return [...byLeaf.values()]
}

it('a routing table has room for k peers of each eight bits: newcomers of a full neighbourhood of six bits are known too', async () => {
  const k = 1
  const dht = { kBucketSize: k, disjointPaths: 1 }
  const first = await startHost({ carrier: 'memory', init: { dht } })
  const bootstrap = [`${first.addresses()[0]}/p2p/${first.peer}`]
  const others = []
  for (const privateKey of neighbourhood(0b101010)) {
    others.push(await startHost({ carrier: 'memory', init: { privateKey, dht, bootstrap } }))
  }
  const table = () => first.dht.table().sort()
  await until(first, () => table().length === others.length)
  expect(table()).toEqual(others.map(({ peer }) => peer).sort())
})

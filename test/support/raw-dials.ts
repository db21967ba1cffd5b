import { quic } from '@chainsafe/libp2p-quic'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import type { PeerAddress } from '../../src/net/host.ts'

/** A libp2p of its own, without any bound of ours, that dials one address over and over and keeps what it gets: how many dials were answered. */
export async function rawDials(to: PeerAddress, count: number): Promise<{ libp2p: Libp2p; done: Promise<number> }> {
  const libp2p = await createLibp2p({
    addresses: { listen: [] },
    transports: [quic() as never],
    connectionManager: { maxConnections: 1_000 },
    connectionGater: { denyDialMultiaddr: () => false }
  })
  const addr = multiaddr(`${to.addrs[0]}/p2p/${to.peer}`)
  const dial = async () => {
    let answered = 0
    for (let i = 0; i < count; i++)
      await libp2p.dial(addr, { force: true }).then(
        () => answered++,
        () => {}
      )
    return answered
  }
  return { libp2p, done: dial() }
}

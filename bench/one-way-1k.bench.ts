/** How many live messages of 1 KiB does a session carry a second, beside a raw libp2p QUIC stream, hyperdht and iroh? */
import { carriers, contenders, question } from './carriers.ts'
import { compare } from './harness.ts'
import { startPeer } from './pair.ts'

const LOAD = { bytes: 1_024, count: 20_000 }

const peer = await startPeer()
const all = await carriers(peer.info)
await compare(
  { ...question(peer.placement), id: 'one-way-1k', question: 'One way, 1 KiB messages', unit: 'messages/s', rounds: 12 },
  contenders(all, async (carrier) => (LOAD.count / (await carrier.oneWay(LOAD))) * 1_000)
)
for (const carrier of all) await carrier.stop()
await peer.stop()

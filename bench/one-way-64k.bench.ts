/** How many bytes does a session carry in live messages of 64 KiB, beside a raw libp2p QUIC stream, hyperdht and iroh? */
import { carriers, contenders, question } from './carriers.ts'
import { compare } from './harness.ts'
import { startPeer } from './pair.ts'

const LOAD = { bytes: 65_536, count: 1_000 }

const peer = await startPeer()
const all = await carriers(peer.info)
await compare(
  { ...question(peer.placement), id: 'one-way-64k', question: 'One way, 64 KiB messages', unit: 'MB/s', rounds: 12 },
  contenders(all, async (carrier) => (LOAD.count * LOAD.bytes) / 1e3 / (await carrier.oneWay(LOAD)))
)
for (const carrier of all) await carrier.stop()
await peer.stop()

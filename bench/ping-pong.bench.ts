/** How many round trips of 1 KiB, one at a time, does a session make a second, beside a raw libp2p QUIC stream, hyperdht and iroh? */
import { carriers, contenders, question } from './carriers.ts'
import { compare } from './harness.ts'
import { startPeer } from './pair.ts'

const ROUND_TRIPS = 1_000

const peer = await startPeer()
const all = await carriers(peer.info)
await compare({ ...question(peer.placement), id: 'ping-pong-1k', question: 'Ping-pong, 1 KiB', unit: 'round trips/s', rounds: 12 }, [
  ...contenders(all, async (carrier) => (ROUND_TRIPS / (await carrier.pingPong(ROUND_TRIPS))) * 1_000),
  ...all.flatMap(({ sealedPingPong }) =>
    sealedPingPong === undefined
      ? []
      : [
          {
            name: 'floor: the raw stream, sealed and opened on both sides',
            sample: async () => (ROUND_TRIPS / (await sealedPingPong(ROUND_TRIPS))) * 1_000
          }
        ]
  )
])
for (const carrier of all) await carrier.stop()
await peer.stop()

/** How many live messages and bytes does a session carry, beside a raw libp2p QUIC stream as shipped? */
import { multiaddr } from '@multiformats/multiaddr'
import { eidFromDid } from '../protocol/identity/eid.ts'
import { CHANNEL, ECHO, LIVE, newAgent, ours, RAW_ECHO, RAW_SINK, reader, SINK, shipped, write } from './endpoints.ts'
import { compare } from './harness.ts'
import { startPeer } from './pair.ts'

const KIB = 1_024
const ROUNDS = 12
const SMALL = { bytes: KIB, count: 20_000 }
const LARGE = { bytes: 64 * KIB, count: 1_000 }
const PINGS = 1_000
/** items that wait at once; a session packs what waits into records */
const IN_FLIGHT = 256

const peer = await startPeer()
const raw = await shipped()
const connection = await raw.dial(peer.info.raw.map((addr) => multiaddr(addr)))
const sink = await connection.newStream(RAW_SINK)
const sinkRead = reader(sink)
const echo = await connection.newStream(RAW_ECHO)
const echoRead = reader(echo)

const agent = newAgent()
const { host, sessions } = await ours([agent])
const session = await sessions.open(agent, eidFromDid(peer.info.did), { peer: peer.info.peer, addrs: peer.info.addrs })
let answered: () => void = () => {}
session.onChannel(CHANNEL, async () => answered())
const answer = () => new Promise<void>((resolve) => (answered = resolve))

async function rawOneWay({ bytes, count }: { bytes: number; count: number }): Promise<number> {
  const message = new Uint8Array(bytes)
  const head = new Uint8Array(4)
  new DataView(head.buffer).setUint32(0, bytes * count)
  const startedMs = performance.now()
  await write(sink, head)
  for (let i = 0; i < count; i++) await write(sink, message)
  await sinkRead(1)
  return performance.now() - startedMs
}

async function pssOneWay({ bytes, count }: { bytes: number; count: number }): Promise<number> {
  const message = new Uint8Array(bytes)
  message[0] = SINK
  new DataView(message.buffer).setUint32(1, count)
  const done = answer()
  const startedMs = performance.now()
  const flying: Promise<void>[] = []
  for (let i = 0; i < count; i++) {
    await flying[i % IN_FLIGHT] // a channel keeps its order: the oldest is through first
    flying[i % IN_FLIGHT] = session.send(CHANNEL, LIVE, message)
  }
  await Promise.all(flying)
  await done
  return performance.now() - startedMs
}

const BASELINE = 'raw libp2p QUIC stream, as shipped'
const common = { better: 'higher' as const, placement: peer.placement, baseline: BASELINE, rounds: ROUNDS }

await compare({ ...common, id: 'one-way-1k', question: 'One way, 1 KiB messages', unit: 'messages/s' }, [
  { name: BASELINE, sample: async () => (SMALL.count / (await rawOneWay(SMALL))) * 1_000 },
  { name: 'PSS, live items', sample: async () => (SMALL.count / (await pssOneWay(SMALL))) * 1_000 }
])
await compare({ ...common, id: 'one-way-64k', question: 'One way, 64 KiB messages', unit: 'MB/s' }, [
  { name: BASELINE, sample: async () => (LARGE.count * LARGE.bytes) / 1e3 / (await rawOneWay(LARGE)) },
  { name: 'PSS, live items', sample: async () => (LARGE.count * LARGE.bytes) / 1e3 / (await pssOneWay(LARGE)) }
])
await compare({ ...common, id: 'ping-pong-1k', question: 'Ping-pong, 1 KiB', unit: 'round trips/s' }, [
  {
    name: BASELINE,
    async sample() {
      const message = new Uint8Array(KIB)
      const startedMs = performance.now()
      for (let i = 0; i < PINGS; i++) {
        await write(echo, message)
        await echoRead(KIB)
      }
      return (PINGS / (performance.now() - startedMs)) * 1_000
    }
  },
  {
    name: 'PSS, live items',
    async sample() {
      const message = new Uint8Array(KIB)
      message[0] = ECHO
      const startedMs = performance.now()
      for (let i = 0; i < PINGS; i++) {
        const back = answer()
        await session.send(CHANNEL, LIVE, message)
        await back
      }
      return (PINGS / (performance.now() - startedMs)) * 1_000
    }
  }
])

await sessions.stop()
await host.stop()
await raw.stop()
peer.stop()

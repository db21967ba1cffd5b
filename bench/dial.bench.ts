/** What does a session cost from nothing (dial, INIT, NEG, ACK, READY), beside a raw dial, stream and one round trip? */
import { multiaddr } from '@multiformats/multiaddr'
import { eidFromDid } from '../protocol/identity/eid.ts'
import { handshakeCrypto, newAgent, ours, RAW_ECHO, reader, shipped, write } from './endpoints.ts'
import { compare } from './harness.ts'
import { startPeer } from './pair.ts'

const BASELINE = 'raw libp2p QUIC: dial, new stream and 1 byte back'

const peer = await startPeer()
const remote = eidFromDid(peer.info.did)
const address = { peer: peer.info.peer, addrs: peer.info.addrs }
const targets = peer.info.raw.map((addr) => multiaddr(addr))

await compare(
  {
    id: 'dial',
    question: 'From no connection to an open session',
    unit: 'ms',
    better: 'lower',
    placement: peer.placement,
    baseline: BASELINE,
    rounds: 40
  },
  [
    {
      name: BASELINE,
      async sample() {
        const raw = await shipped()
        const startedMs = performance.now()
        const stream = await (await raw.dial(targets)).newStream(RAW_ECHO)
        const read = reader(stream)
        await write(stream, Uint8Array.of(1))
        await read(1)
        const ms = performance.now() - startedMs
        await raw.stop()
        return ms
      }
    },
    {
      name: 'floor: raw dial, new stream, two round trips, and a handshake’s signatures and key agreements',
      async sample() {
        const raw = await shipped()
        const startedMs = performance.now()
        const stream = await (await raw.dial(targets)).newStream(RAW_ECHO)
        const read = reader(stream)
        for (let trip = 0; trip < 2; trip++) {
          await write(stream, Uint8Array.of(1))
          await read(1)
        }
        handshakeCrypto()
        const ms = performance.now() - startedMs
        await raw.stop()
        return ms
      }
    },
    {
      name: 'PSS: dial and handshake',
      async sample() {
        const agent = newAgent()
        const { host, sessions } = await ours([agent])
        const startedMs = performance.now()
        const session = await sessions.open(agent, remote, address)
        const ms = performance.now() - startedMs
        await session.close()
        await sessions.stop()
        await host.stop()
        return ms
      }
    }
  ]
)
await peer.stop()

/** What does a session cost to open, beside a raw stream and one round trip, on a connection that is open already? */
import { multiaddr } from '@multiformats/multiaddr'
import { eidFromDid } from '../protocol/identity/eid.ts'
import { handshakeCrypto, newAgent, ours, RAW_ECHO, reader, shipped, write } from './endpoints.ts'
import { compare } from './harness.ts'
import { startPeer } from './pair.ts'

/** A responder takes at most 8 INITs a connection a minute. */
const HANDSHAKES_PER_CONNECTION = 7
const ROUNDS = 50

const peer = await startPeer()
const remote = eidFromDid(peer.info.did)
const address = { peer: peer.info.peer, addrs: peer.info.addrs }
const raw = await shipped()
const connection = await raw.dial(peer.info.raw.map((addr) => multiaddr(addr)))

let mine = await ours([newAgent()])
let opened = 0

await compare(
  {
    id: 'handshake',
    question: 'Open a session (INIT, NEG, ACK, READY) on an open connection',
    unit: 'ms',
    better: 'lower',
    placement: peer.placement,
    baseline: 'raw libp2p QUIC: new stream and 1 byte back',
    rounds: ROUNDS
  },
  [
    {
      name: 'raw libp2p QUIC: new stream and 1 byte back',
      async sample() {
        const startedMs = performance.now()
        const stream = await connection.newStream(RAW_ECHO)
        const read = reader(stream)
        await write(stream, Uint8Array.of(1))
        await read(1)
        const ms = performance.now() - startedMs
        await stream.close()
        return ms
      }
    },
    {
      name: 'floor: raw new stream, two round trips, and a handshake’s signatures and key agreements',
      async sample() {
        const startedMs = performance.now()
        const stream = await connection.newStream(RAW_ECHO)
        const read = reader(stream)
        for (let trip = 0; trip < 2; trip++) {
          await write(stream, Uint8Array.of(1))
          await read(1)
        }
        handshakeCrypto()
        const ms = performance.now() - startedMs
        await stream.close()
        return ms
      }
    },
    {
      name: 'PSS: handshake',
      async sample() {
        if (opened % HANDSHAKES_PER_CONNECTION === 0) {
          await mine.sessions.stop()
          await mine.host.stop()
          mine = await ours([newAgent()])
          const warm = await mine.host.openStream(address, '/rookery/pss/1.0.0')
          warm.reset(new Error('only the connection was wanted'))
        }
        opened++
        const agent = newAgent()
        const startedMs = performance.now()
        const session = await mine.sessions.open(agent, remote, address)
        const ms = performance.now() - startedMs
        await session.close()
        return ms
      }
    }
  ]
)

await mine.sessions.stop()
await mine.host.stop()
await raw.stop()
await peer.stop()

/** The other side of the benchmarks, as a process of its own: answers raw streams, sessions, hyperdht and iroh until its parent goes. */
import type { Session } from '../src/sessions/session.ts'
import { CHANNEL, ECHO, LIVE, newAgent, ours, RAW_ECHO, RAW_SINK, SINK, shipped, write } from './endpoints.ts'
import { serveOthers } from './others.ts'

const agent = newAgent()
const { host, sessions } = await ours([agent])
sessions.onSession((session) => serve(session))

/** Sink items say in bytes 1 to 4 how many come in all; the last one is answered. */
function serve(session: Session): void {
  let counted = 0
  session.onChannel(CHANNEL, async ({ kind, payload }) => {
    if (kind !== LIVE) return
    if (payload[0] === ECHO) return session.send(CHANNEL, LIVE, payload)
    if (payload[0] !== SINK) return
    counted++
    if (counted < new DataView(payload.buffer, payload.byteOffset).getUint32(1)) return
    counted = 0
    await session.send(CHANNEL, LIVE, payload.subarray(0, 8))
  })
}

const raw = await shipped()
await raw.handle(RAW_ECHO, (stream) => {
  stream.addEventListener('remoteCloseWrite', () => void stream.close())
  stream.addEventListener('message', (event) => void write(stream, event.data.subarray()))
})
await raw.handle(RAW_SINK, (stream) => {
  let left = -1
  stream.addEventListener('message', (event) => {
    let chunk = event.data.subarray()
    if (left === -1) {
      left = new DataView(chunk.buffer, chunk.byteOffset).getUint32(0)
      chunk = chunk.subarray(4)
    }
    left -= chunk.length
    if (left === 0) {
      left = -1
      void write(stream, Uint8Array.of(1))
    }
  })
})

const others = await serveOthers()
process.send?.({ ...others, did: agent.did, peer: host.peer, addrs: host.addresses(), raw: raw.getMultiaddrs().map(String) })
process.on('disconnect', () => process.exit(0))

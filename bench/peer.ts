/** The other side of the benchmarks, as a process of its own: answers raw streams, sessions, hyperdht and iroh until its parent goes. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Inbound, Session } from '../src/sessions/session.ts'
import { openStore } from '../src/store/open-store.ts'
import { bytesCodec } from '../src/store/store.ts'
import { CHANNEL, DURABLE, ECHO, LIVE, newAgent, ours, RAW_ECHO, RAW_SINK, SINK, shipped, write } from './endpoints.ts'
import { serveOthers } from './others.ts'

const agent = newAgent()
const dir = mkdtempSync(join(tmpdir(), 'rookery-bench-peer-'))
const store = await openStore(dir, { software: 'bench' })
const kept = store.table('bench', bytesCodec)
let keptCount = 0
const { host, sessions } = await ours([agent], { store })
sessions.onSession((session) => serve(session))

/** Sink items say in bytes 1 to 4 how many come in all; the last one is answered. */
function serve(session: Session): void {
  let counted = 0
  session.onChannel(CHANNEL, async (item) => {
    const { kind, payload } = item
    if (kind === DURABLE) return keep(item)
    if (kind !== LIVE) return
    if (payload[0] === ECHO) return session.send(CHANNEL, LIVE, payload)
    if (payload[0] !== SINK) return
    counted++
    if (counted < new DataView(payload.buffer, payload.byteOffset).getUint32(1)) return
    counted = 0
    await session.send(CHANNEL, LIVE, payload.subarray(0, 8))
  })
}

/** The effect of a durable message and where it stands in its session, in one synced batch. */
function keep(item: Inbound): Promise<void> {
  return store.commit([kept.put(String(keptCount++).padStart(12, '0'), item.payload), ...item.position()])
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
process.on('disconnect', () => {
  rmSync(dir, { recursive: true, force: true })
  process.exit(0)
})

import { createHash } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { PeerAddress } from '../../src/net/host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { acceptStream, openStream } from '../../src/sessions/byte-channel.ts'
import { openChannel } from '../../src/sessions/channel.ts'
import type { Session } from '../../src/sessions/session.ts'
import { openStore } from '../../src/store/open-store.ts'
import { agentOf, nodeOn } from '../unit/sessions/memory-net.ts'
import { addressOf, startHost } from './host-fixture.ts'

/**
 * A node of its own: `node channel-process.ts <dir> <agent byte> <role>`. `writer` sends {@link contentOf} as one durable byte stream whenever it is
 * told where to; `reader` appends what comes to a file, synced chunk by chunk; `stalled` reads live messages of channel 16 only when told to.
 */
export type ChannelOrder =
  | { do: 'write'; to: number; address: PeerAddress; bytes: number }
  | { do: 'locator'; of: number; address: PeerAddress }
  | { do: 'read' }
export type ChannelReport =
  | { kind: 'listening'; address: PeerAddress }
  | { kind: 'held'; bytes: number }
  | { kind: 'bytes'; bytes: number }
  | { kind: 'done'; sha256: string }
  | { kind: 'failed'; error: string }
  | { kind: 'memory'; rssBytes: number; received: number }

const ID = new Uint8Array(16).fill(0x51)
const MEMORY_MS = 100

/** The same content for everyone: no byte repeats at a distance that a chunk has. */
export function* contentOf(bytes: number): Generator<Uint8Array> {
  const block = Uint8Array.from({ length: 65_521 }, (_, i) => (i * i) % 257)
  for (let at = 0; at < bytes; at += block.length) yield block.subarray(0, Math.min(block.length, bytes - at))
}

if (process.argv[2] !== undefined && process.send !== undefined)
  await run(process.argv[2], Number(process.argv[3]), process.argv[4] as string)

async function run(dir: string, own: number, role: string): Promise<void> {
  const tell = (report: ChannelReport) => process.send?.(report)
  const failed = (error: unknown) =>
    tell({ kind: 'failed', error: error instanceof Error ? `${error.name} ${error.message}` : String(error) })
  const local = agentOf(own)
  const host = await startHost({ init: { privateKey: new Uint8Array(32).fill(own) } })
  const store = await openStore(join(dir, 'store'), { software: 'test' })
  const node = await nodeOn(host, systemClock, [local], { store, reconnectMsMax: 500, channels: [] }, process.pid)
  const go = Promise.withResolvers<void>()
  node.manager.onSession((session) => {
    if (role === 'reader') read(session).catch(failed)
    if (role === 'stalled') stall(session).catch(failed)
  })

  async function read(session: Session): Promise<void> {
    const file = join(dir, 'content')
    const stored = existsSync(file) ? readFileSync(file) : new Uint8Array(0)
    const reader = await acceptStream(session, { held: async () => ({ bytes: stored.length, content: () => [stored] }) })
    const sink = openSync(file, 'a')
    for await (const chunk of reader) {
      writeSync(sink, chunk)
      fsyncSync(sink)
      tell({ kind: 'bytes', bytes: reader.position })
    }
    closeSync(sink)
    tell({ kind: 'done', sha256: createHash('sha256').update(readFileSync(file)).digest('hex') })
  }

  async function write(to: number, address: PeerAddress, bytes: number): Promise<void> {
    const session = await node.manager.open(local, agentOf(to).eid, address)
    const writer = await openStream(session, { mode: 'durable', id: ID, length: bytes, label: 'content' })
    tell({ kind: 'held', bytes: writer.held })
    for (const chunk of contentOf(bytes)) await writer.write(chunk)
    await writer.close()
    tell({ kind: 'done', sha256: '' })
  }

  async function stall(session: Session): Promise<void> {
    const channel = openChannel(session, 16, { mode: 'live' })
    let received = 0
    const report = setInterval(() => tell({ kind: 'memory', rssBytes: process.memoryUsage.rss(), received }), MEMORY_MS)
    await go.promise
    for await (const item of channel) received += item.payload.length
    clearInterval(report)
    tell({ kind: 'memory', rssBytes: process.memoryUsage.rss(), received })
    tell({ kind: 'done', sha256: '' })
  }

  process.on('message', (order: ChannelOrder) => {
    if (order.do === 'write') write(order.to, order.address, order.bytes).catch(failed)
    if (order.do === 'locator') node.manager.locatorSeen(agentOf(order.of).eid, order.address)
    if (order.do === 'read') go.resolve()
  })
  process.on('disconnect', () => process.exit(0))
  tell({ kind: 'listening', address: addressOf(host) })
}

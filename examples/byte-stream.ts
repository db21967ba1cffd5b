/**
 * 64 MiB from one agent to another as a byte stream: live, then durable. The writer waits for the reader, and both know at the end that length and
 * SHA-256 agree.
 *
 *   node examples/byte-stream.ts
 *
 * In a program of your own: `import { … } from 'rookery'`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  acceptStream,
  createNode,
  initDataDir,
  nodeCrypto,
  openStream,
  type RookeryNode,
  type Session,
  systemClock,
  systemRandom
} from '../src/index.ts'

const MIB = 1_048_576
const BYTES = 64 * MIB
const LIMIT_MS = 120_000
const say = (line: string) => process.stdout.write(`${line}\n`)
const folder = mkdtempSync(join(tmpdir(), 'rookery-example-'))
const signal = AbortSignal.timeout(LIMIT_MS)

async function start(name: string, bootstrap: string[]): Promise<RookeryNode> {
  const dataDir = join(folder, name)
  initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
  return await createNode({ dataDir, bootstrap, listen: ['/ip4/127.0.0.1/udp/0/quic-v1'], http: { enabled: false } })
}

/** Reads two streams, one after the other. Asking for the next chunk says that the one before is done with. */
async function read(session: Session): Promise<void> {
  for (let i = 0; i < 2; i++) {
    const reader = await acceptStream(session, { signal })
    let chunks = 0
    for await (const _ of reader) chunks += 1
    say(`read ${reader.label}: ${reader.position / MIB} MiB in ${chunks} chunks, whole`)
  }
}

try {
  await using there = await start('there', [])
  await using here = await start(
    'here',
    there.host.addresses().map((address) => `${address}/p2p/${there.peer}`)
  )
  while ([here, there].some(({ host }) => host.dht.routingTableSize() === 0)) await systemClock.sleep(20, { signal })
  const bob = await there.addAgent({ name: 'bob' })
  const alice = await here.addAgent({ name: 'alice' })
  const reading = Promise.withResolvers<void>()
  there.sessions.onSession((session) => read(session).then(reading.resolve, reading.reject))

  await using session = await here.openSession(alice, bob.eid, { signal })
  const block = systemRandom.bytes(MIB)
  for (const mode of ['live', 'durable'] as const) {
    const startedMs = systemClock.monotonicMs()
    const writer = await openStream(session, { mode, length: BYTES, label: mode, signal })
    for (let at = 0; at < BYTES; at += block.length) await writer.write(block, { signal })
    await writer.close({ signal })
    const seconds = (systemClock.monotonicMs() - startedMs) / 1_000
    say(`wrote ${mode}: ${(BYTES / MIB / seconds).toFixed(0)} MiB/s`)
  }
  await reading.promise
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** What does a set of 10,000 members cost a registrar, and how fast are they listed, verified included and not? */
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Level } from 'level'
import { dsId } from '../protocol/discovery/names.ts'
import { encodeListResponse, type ListResponse } from '../protocol/discovery/registry-messages.ts'
import { nonceBytes, putSeed, workBits } from '../protocol/discovery/work.ts'
import { eid } from '../protocol/identity/eid.ts'
import { buildRecord } from '../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, joinType } from '../protocol/records/join.ts'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'
import { systemClock } from '../src/platform/clock.ts'
import { silentLogger } from '../src/platform/logger.ts'
import { systemRandom } from '../src/platform/random.ts'
import { EntryUnion } from '../src/spaces/entry-union.ts'
import { openRegistryStore, type RegistryStore } from '../src/spaces/registry-store.ts'
import { Store } from '../src/store/store.ts'
import { quantile, writeFigures } from './harness.ts'

const MEMBERS = 10_000
const ROUNDS = 5
/** The full work of the protocol would take days here; what is asked rises from 1 bit to 2, so every path is taken. */
const WORK_BITS = { first: 1, full: 2 }
const MIB = 1_048_576

const key = dsId(nodeCrypto, { ns: 'org.agentnet', topic: 'marketplace.energy', version: 1 })
const curator = eid(nodeCrypto.ed25519.publicKey(systemRandom.bytes(32)))
const heap = () => {
  globalThis.gc?.()
  return process.memoryUsage()
}

function joinOf(i: number): Uint8Array {
  const seed = systemRandom.bytes(32)
  const publicKey = nodeCrypto.ed25519.publicKey(seed)
  const nowMs = systemClock.nowMs()
  const ts = Math.floor(nowMs / 1_000)
  const payload = {
    dsid: key,
    eid: eid(publicKey),
    curator,
    tags: ['energy', 'solar', `region-${i % 50}`],
    mode: 'always_on' as const,
    seq: nowMs,
    ts,
    exp: ts + JOIN_TTL_SEC
  }
  const signer = { publicKey, sign: (bytes: Uint8Array) => nodeCrypto.ed25519.sign(seed, bytes) }
  return Uint8Array.from(buildRecord(nodeCrypto, joinType, payload, signer).bytes)
}

function solved(record: Uint8Array): Uint8Array {
  const seed = putSeed(nodeCrypto, key, record)
  for (let nonce = 0n; ; nonce++) if (workBits(seed, nonceBytes(nonce)) >= WORK_BITS.full) return nonceBytes(nonce)
}

/** All pages, as a reader asks for them, each encoded as it goes out. */
async function listAll(registry: RegistryStore, limit: number): Promise<{ records: Uint8Array[]; bytes: number }> {
  const records: Uint8Array[] = []
  let bytes = 0
  let cursor: Uint8Array | undefined = new Uint8Array(0)
  while (cursor !== undefined) {
    const page: ListResponse = await registry.list({ verb: 'list', set: 'members', key, cursor, limit })
    bytes += encodeListResponse(page).length
    records.push(...page.records)
    cursor = page.next
  }
  return { records, bytes }
}

async function timed(work: () => Promise<unknown> | unknown): Promise<number> {
  const startedMs = systemClock.monotonicMs()
  await work()
  return systemClock.monotonicMs() - startedMs
}

const folder = mkdtempSync(join(tmpdir(), 'rookery-registrar-'))
const level = new Level<string, Uint8Array>(folder, { keyEncoding: 'utf8', valueEncoding: 'view' })
await level.open()
const store = new Store(level)
const loadBefore = loadavg()
try {
  const registry = await openRegistryStore({ store, clock: systemClock, crypto: nodeCrypto, logger: silentLogger }, { workBits: WORK_BITS })
  const before = heap()
  let signMs = 0
  let putMs = 0
  for (let i = 0; i < MEMBERS; i += 100) {
    let batch: { record: Uint8Array; pow: Uint8Array }[] = []
    signMs += await timed(() => {
      batch = Array.from({ length: 100 }, (_, j) => joinOf(i + j)).map((record) => ({ record, pow: solved(record) }))
    })
    putMs += await timed(() =>
      Promise.all(batch.map(({ record, pow }) => registry.put({ verb: 'put', set: 'members', key, record, pow }, { kind: 'self' })))
    )
  }
  const after = heap()
  const { entries, bytes: counted } = registry.stats()
  const listMs: number[] = []
  let wireBytes = 0
  let records: Uint8Array[] = []
  for (let round = 0; round < ROUNDS; round++) {
    listMs.push(
      await timed(async () => {
        const listed = await listAll(registry, 100)
        wireBytes = listed.bytes
        records = listed.records
      })
    )
  }
  const verifyMs: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const union = new EntryUnion(nodeCrypto, { set: 'members', key }, systemClock.nowMs())
    verifyMs.push(
      await timed(() => {
        for (const record of records) union.add(record, 'registrar')
      })
    )
  }
  await registry.stop()
  const loadMs = await timed(async () => {
    const again = await openRegistryStore({ store, clock: systemClock, crypto: nodeCrypto, logger: silentLogger }, { workBits: WORK_BITS })
    await again.stop()
  })
  const mib = (bytes: number) => Math.round((bytes / MIB) * 100) / 100
  const figures = {
    members: entries,
    countedMib: mib(counted),
    heapGrowthMib: mib(after.heapUsed - before.heapUsed),
    rssGrowthMib: mib(after.rss - before.rss),
    putsPerSecond: Math.round((MEMBERS / putMs) * 1_000),
    listedPerSecond: Math.round((MEMBERS / quantile(listMs, 0.5)) * 1_000),
    listAllMs: Math.round(quantile(listMs, 0.5)),
    wireMib: mib(wireBytes),
    verifiedPerSecond: Math.round((MEMBERS / quantile(verifyMs, 0.5)) * 1_000),
    startMs: Math.round(loadMs),
    signedPerSecond: Math.round((MEMBERS / signMs) * 1_000),
    load: { before: loadBefore, after: loadavg() }
  }
  console.log(`\n${MEMBERS.toLocaleString('en')} members at one registrar, LevelDB on disk, pages of 100`)
  console.dir(figures)
  writeFigures('registrar', { question: 'a set of 10,000 members at one registrar', figures })
} finally {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
}

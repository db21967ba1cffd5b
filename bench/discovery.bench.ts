/** What do a look-up, a join and a listing cost among 20, 100 and 300 real nodes in this process: time, hops, messages? How fast is a space of 10,000 listed? */
import { MemoryLevel } from 'memory-level'
import { dsId, memberKey } from '../protocol/discovery/names.ts'
import { eid } from '../protocol/identity/eid.ts'
import { buildRecord } from '../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, joinType } from '../protocol/records/join.ts'
import { RealEngine } from '../sim/engine/real-engine.ts'
import { derivedBytes, derivedRandom } from '../sim/engine/seeds.ts'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'
import { createNode, type RookeryNode } from '../src/node.ts'
import { systemClock } from '../src/platform/clock.ts'
import { silentLogger } from '../src/platform/logger.ts'
import { openRegistryStore } from '../src/spaces/registry-store.ts'
import { Store } from '../src/store/store.ts'
import { quantile, writeFigures } from './harness.ts'

const SEED = 1
const SIZES = (process.env.NODES ?? '20,100,300')
  .split(',')
  .filter((text) => text !== '')
  .map(Number)
/** of each kind, one after the other, each from another node */
const SAMPLES = 30
const NAME = 'org.agentnet/marketplace.energy@1'
const SPACE = { ns: 'org.agentnet', topic: 'marketplace.energy', version: 1 }
const MEMBERS = Number(process.env.MEMBERS ?? 10_000)
const PARTS = (process.env.PARTS ?? '1,4')
  .split(',')
  .filter((text) => text !== '')
  .map(Number)

interface Cost {
  /** processor time of all nodes together, for each: what stands on a machine that others use too */
  cpuMs: number
  ms: { median: number; p90: number }
  hops?: { median: number; max: number }
  /** writes to streams that all nodes made meanwhile, for each */
  messages: number
}

for (const size of SIZES) await network(size)
for (const parts of PARTS) await bigSpace(parts)
process.exit(0)

async function network(size: number): Promise<void> {
  const engine = new RealEngine({ nodes: size, seed: SEED, signal: new AbortController().signal })
  await engine.boot(() => {})
  await engine.settle(() => {})
  const random = derivedRandom(SEED, 'bench', size)
  const nodes = engine.nodes.slice(1)
  const at = (i: number) => nodes[(i * 7) % nodes.length] as (typeof nodes)[number]
  const first = engine.node(0)
  await first.node.spaces.announce({ name: NAME, curator: first.agent })
  const samples = Math.min(SAMPLES, nodes.length)
  const lookUp = await cost(engine, samples, async (i) => {
    const peers = await at(i).node.host.dht.closestPeers(random.bytes(32), {})
    return Math.max(0, ...peers.map(({ hops }) => hops ?? 0))
  })
  const join = await cost(engine, samples, async (i) => {
    await at(i).node.spaces.join({ name: NAME, agent: at(i).agent })
    return undefined
  })
  const list = await cost(engine, samples, async (i) => {
    const { members, registrars } = await at(i + 3).node.spaces.find({ name: NAME })
    if (members.length !== samples) throw new Error(`${members.length} of ${samples} members were found`)
    return registrars.hops
  })
  await engine.stop()
  const figures = { nodes: size, members: samples, lookUp, join, list }
  console.log(`\n${size} nodes (${samples} of each, one after the other)`)
  for (const [what, { cpuMs: cpu, ms, hops, messages }] of Object.entries({ 'look-up': lookUp, join, list })) {
    const path = hops === undefined ? '' : `, hops ${hops.median} (at most ${hops.max})`
    console.log(
      `  ${what.padEnd(8)} ${ms.median.toFixed(1)} ms (90 %: ${ms.p90.toFixed(1)}), ${cpu.toFixed(1)} ms of processor${path}, ${messages.toFixed(0)} messages`
    )
  }
  writeFigures(`discovery-${size}`, { question: `Look-ups, joins and lists among ${size} nodes`, figures })
}

async function cost(engine: RealEngine, samples: number, work: (i: number) => Promise<number | undefined>): Promise<Cost> {
  const sent = () => engine.nodes.reduce((sum, { traffic }) => sum + traffic.sent().reduce((all, one) => all + one.messages, 0), 0)
  const times: number[] = []
  const paths: number[] = []
  const before = sent()
  const cpuBefore = process.cpuUsage()
  for (let i = 0; i < samples; i++) {
    const startedMs = systemClock.monotonicMs()
    const hops = await work(i)
    times.push(systemClock.monotonicMs() - startedMs)
    if (hops !== undefined) paths.push(hops)
  }
  return {
    cpuMs: cpuMs(cpuBefore) / samples,
    ms: { median: quantile(times, 0.5), p90: quantile(times, 0.9) },
    ...(paths.length === 0 ? {} : { hops: { median: quantile(paths, 0.5), max: Math.max(...paths) } }),
    messages: (sent() - before) / samples
  }
}

/** Two registrars that hold all members already, and a reader that has seen none of their keys. */
async function bigSpace(shards: number): Promise<void> {
  const curatorSeed = derivedBytes(SEED, 'curator')
  const curator = eid(nodeCrypto.ed25519.publicKey(curatorSeed))
  const dsid = dsId(nodeCrypto, SPACE)
  const levels = [level(), level()]
  const nowMs = systemClock.nowMs()
  const ts = Math.floor(nowMs / 1_000)
  const stores = await Promise.all(levels.map((one) => openRegistryStore(parts(new Store(one)), { membersMax: 4 * MEMBERS })))
  for (let i = 0; i < MEMBERS; i++) {
    const seed = derivedBytes(SEED, 'member', i)
    const own = eid(nodeCrypto.ed25519.publicKey(seed))
    const payload = { dsid, eid: own, curator, tags: ['seller'], mode: 'always_on' as const, seq: nowMs, ts, exp: ts + JOIN_TTL_SEC }
    const signer = { publicKey: own, sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
    const record = Uint8Array.from(buildRecord(nodeCrypto, joinType, payload, signer).bytes)
    const key = memberKey(nodeCrypto, dsid, own, shards)
    for (const store of stores) {
      const { status } = await store.put({ verb: 'put', set: 'members', key, record }, { kind: 'self' })
      if (status !== 'ok') throw new Error(`a join was answered ${status}`)
    }
  }
  for (const store of stores) await store.stop()
  const a = await start(0, levels[0] as ReturnType<typeof level>)
  const b = await start(1, levels[1] as ReturnType<typeof level>, a)
  const c = await start(2, level(), a)
  for (const node of [a, b, c]) while (node.host.dht.routingTableSize() < 2) await systemClock.sleep(20)
  const agent = await a.addAgent({ name: 'curator', seed: curatorSeed })
  await a.spaces.announce({ name: NAME, curator: agent, shards })
  const rates: number[] = []
  const cpuRates: number[] = []
  for (let round = 0; round < 3; round++) {
    const startedMs = systemClock.monotonicMs()
    const cpuBefore = process.cpuUsage()
    const { members, complete } = await c.spaces.find({ name: NAME })
    if (members.length !== MEMBERS || !complete) throw new Error(`${members.length} of ${MEMBERS} members were found`)
    rates.push((members.length / (systemClock.monotonicMs() - startedMs)) * 1_000)
    cpuRates.push((members.length / cpuMs(cpuBefore)) * 1_000)
  }
  for (const node of [c, b, a]) await node.stop()
  const [first = 0, ...later] = rates
  const [cpuFirst = 0, ...cpuLater] = cpuRates
  const figures = {
    members: MEMBERS,
    shards,
    perSecond: { first, later: quantile(later, 0.5) },
    /** registrars and reader are this one process */
    perProcessorSecond: { first: cpuFirst, later: quantile(cpuLater, 0.5) }
  }
  const text = (rate: number) => Math.round(rate).toLocaleString('en')
  console.log(
    `\n${text(MEMBERS)} members in ${shards} part(s), two registrars: ${text(first)} a second at first, ${text(figures.perSecond.later)} once their keys are known; for a second of processor ${text(cpuFirst)} and ${text(figures.perProcessorSecond.later)}`
  )
  writeFigures(`discovery-list-${shards}`, { question: `Members listed a second from ${MEMBERS} in ${shards} parts`, figures })
}

function cpuMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1_000
}

function level() {
  return new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
}

function parts(store: Store) {
  return { store, clock: systemClock, crypto: nodeCrypto, logger: silentLogger }
}

async function start(index: number, own: ReturnType<typeof level>, through?: RookeryNode): Promise<RookeryNode> {
  return await createNode(
    {
      bootstrap: through === undefined ? [] : through.host.addresses().map((addr) => `${addr}/p2p/${through.peer}`),
      http: { enabled: false },
      logs: { level: 'silent' }
    },
    { level: own, nodeSeed: derivedBytes(SEED, 'node', index), transport: 'memory', http: 'off', locators: 'on-demand', records: 'leave' }
  )
}

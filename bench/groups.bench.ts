/**
 * How long do ten members of a group take to agree again after a minute in two halves, in which each wrote 1,000 changes?
 *
 * Ten nodes in one process, real sessions over QUIC on loopback, stores in memory. `node bench/groups.bench.ts [members] [changes] [seconds]`.
 * Last answer (2 cores, shared): see protocol/README.md §6, Groups.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'
import { RookeryError } from '../src/errors.ts'
import type { Group } from '../src/groups/groups.ts'
import { createHost } from '../src/net/node-host.ts'
import { systemClock } from '../src/platform/clock.ts'
import { silentLogger } from '../src/platform/logger.ts'
import { systemRandom } from '../src/platform/random.ts'
import type { DurableSession } from '../src/sessions/durable-session.ts'
import { GroupNodes, groupAt, memoryStore } from '../test/support/group-nodes.ts'
import { newAgent } from './endpoints.ts'

const [members = 10, changes = 1_000, seconds = 60] = process.argv.slice(2).map(Number)
const world = new GroupNodes()
for (let i = 0; i < members; i++) {
  const store = memoryStore()
  const host = await createHost(
    {
      clock: systemClock,
      random: systemRandom,
      crypto: nodeCrypto,
      logger: silentLogger,
      store,
      validator: { validate() {}, select: () => 'held', expiresAtMs: () => 0 },
      traffic: undefined
    },
    {
      privateKey: systemRandom.bytes(32),
      listen: ['/ip4/127.0.0.1/udp/0/quic-v1'],
      mdns: false,
      profile: 'quic',
      network: 'lan',
      dht: { mode: 'server' }
    }
  )
  const open = host.openStream.bind(host)
  host.openStream = async (target, ...rest) => {
    const j = world.nodes.findIndex((node) => node.host.peer === target.peer)
    if (!world.mayDial(i, j)) throw new RookeryError('DIAL_FAILED', 'the network is in two halves', { kind: 'unavailable' })
    return await open(target, ...rest)
  }
  await world.add(host, { peer: host.peer, addrs: host.addresses() }, newAgent(), { store })
}
const [first, ...others] = world.nodes
if (first === undefined) throw new Error('no node')
const own = await first.groups.create(first.agent, { name: 'bench' })
for (const { agent } of others) await own.invite(agent.eid)
const groups: Group[] = [own, ...(await Promise.all(others.map((node) => groupAt(node, 'bench'))))]
/** Cheap enough to be asked often: hashes are compared once, at the end. */
const hasAll = (group: Group) => {
  const last = [...group.everyones(`key-${(changes - 1) % 200}`).values()] as { n: number }[]
  return last.length === members && last.every(({ n }) => n === changes - 1)
}
const states = () => new Set(groups.map((group) => group.hash())).size
const ready = (count: number) => groups.every((group) => group.view().members.filter(({ linked }) => linked).length >= count)
while (!ready(members - 1)) await systemClock.sleep(100)
console.log(`${members} members, all linked to all`)

const half = (i: number) => (i < members / 2 ? 'left' : 'right')
world.mayDial = (a, b) => half(a) === half(b)
for (const [i, { sessions }] of world.nodes.entries()) {
  for (const { id, remote } of sessions.list()) {
    const j = world.nodes.findIndex(({ agent }) => agent.did === remote)
    if (half(i) === half(j)) continue
    const session = (await sessions.get(id)) as DurableSession | undefined
    session?.epoch?.connection.abort(new Error('the network is in two halves'))
  }
}
const startedMs = performance.now()
for (let n = 0; n < changes; n++) {
  await Promise.all(groups.map((group, i) => group.set(`key-${n % 200}`, { n, by: i })))
  const dueMs = startedMs + (seconds * 1_000 * (n + 1)) / changes
  if (dueMs > performance.now()) await systemClock.sleep(dueMs - performance.now())
}
const writtenMs = performance.now() - startedMs
const links = groups.map((group) => group.view().members.filter(({ linked }) => linked).length)
console.log(`${(writtenMs / 1_000).toFixed(1)} s in two halves, links of each: ${links.join(' ')}; ${states()} states`)

world.mayDial = () => true
const healedMs = performance.now()
const cpu = process.cpuUsage()
while (!groups.every(hasAll)) await systemClock.sleep(20)
const agreedMs = performance.now() - healedMs
if (states() !== 1) throw new Error(`the members hold ${states()} states`)
const { user, system } = process.cpuUsage(cpu)
const answer = {
  members,
  changes,
  seconds,
  writtenMs,
  agreedMs,
  cpuMs: (user + system) / 1_000,
  rssMiB: process.memoryUsage.rss() / 2 ** 20
}
console.log(
  `agree ${(agreedMs / 1_000).toFixed(2)} s after the halves can reach each other again; CPU ${(answer.cpuMs / 1_000).toFixed(1)} s`
)
const out = fileURLToPath(new URL('./out/', import.meta.url))
mkdirSync(out, { recursive: true })
writeFileSync(`${out}groups.json`, `${JSON.stringify({ id: 'groups', node: process.version, ...answer }, undefined, 2)}\n`)
await world.stop()
process.exit(0)

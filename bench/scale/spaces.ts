/** How many spaces one node keeps up: announced by one of its agents and joined by another, at a registrar on another node over real QUIC. */
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import type { RookeryNode } from '../../src/rookery-node.ts'
import { Child } from './child.ts'
import type { Said, ScaleFigures, ScaleOrder } from './figures.ts'
import { inLanes, Measurement, serveKind, times } from './measurement.ts'
import { NodeUnderTest } from './node-under-test.ts'

const LANES = 8
const SAMPLES = 20
const METRICS = /^rookery_(space|bound)/
const STATUS = ['spaces']
const RAISED = { registry: { bytesMax: 2 ** 33, putsPerMinuteMax: 1_000_000 } }
/** of the default 32 puts a minute, an announcement takes several */
const AT_DEFAULT = 12
/** the pace shows by then */
const ROUND_MS_MAX = 60_000
/** a join is put every quarter of its hour, an announcement every quarter of its day */
const PUTS_PER_HOUR = { join: 4, announcement: 1 / 6 }

/** One namespace for ten topics: a set of children takes 1,000 entries, and asks for work from 500. */
const nameOf = (i: number) => `n${Math.floor(i / 10)}.scale/topic-${i}@1`

class Spaces {
  readonly #node: RookeryNode
  readonly #curator: HostedAgent
  readonly #member: HostedAgent
  made = 0
  /** records that fewer registrars took than there are */
  partial = 0

  constructor(node: RookeryNode, curator: HostedAgent, member: HostedAgent) {
    this.#node = node
    this.#curator = curator
    this.#member = member
  }

  async announce(i: number): Promise<void> {
    this.#count(await this.#node.spaces.announce({ name: nameOf(i), curator: this.#curator, description: 'one of many' }))
  }

  async join(i: number): Promise<void> {
    this.#count(await this.#node.spaces.join({ name: nameOf(i), agent: this.#member, tags: ['bench'] }))
  }

  #count({ registrars, stored }: { registrars: number; stored: number }): void {
    if (registrars < 2 || stored < registrars) this.partial++
  }

  async next(): Promise<void> {
    const i = this.made++
    await this.announce(i)
    await this.join(i)
  }

  /** Some more of them, one after the other. */
  async sample(): Promise<Record<string, number[]>> {
    const from = this.made
    this.made += SAMPLES
    return {
      announce: await times(SAMPLES, (i) => this.announce(from + i)),
      join: await times(SAMPLES, (i) => this.join(from + i)),
      find: await times(SAMPLES, (i) => this.#node.spaces.find({ name: nameOf(from + i) }))
    }
  }
}

async function agentsOf(node: RookeryNode): Promise<[HostedAgent, HostedAgent]> {
  return [await node.addAgent({ name: 'curator' }), await node.addAgent({ name: 'member' })]
}

async function connected(node: RookeryNode): Promise<void> {
  while (node.host.peers().length === 0 || node.host.dht.routingTableSize() === 0) await new Promise((resolve) => setTimeout(resolve, 50))
}

/** After a start all records are put once more: how long it takes, and what processor. */
async function putRound(run: Measurement, node: RookeryNode): Promise<void> {
  const { user, system } = process.cpuUsage()
  const startedMs = performance.now()
  const first = node.spaces.upkeep()
  for (let left = first; left.waiting > 0 && performance.now() - startedMs < ROUND_MS_MAX; left = node.spaces.upkeep()) {
    run.progress(`${left.waiting.toLocaleString('en')} records wait to be put again`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  await new Promise((resolve) => setTimeout(resolve, 100))
  const { waiting, records } = node.spaces.upkeep()
  const put = first.waiting - waiting
  const seconds = (performance.now() - startedMs) / 1_000
  const cpu = process.cpuUsage()
  const cpuMsEach = (cpu.user - user + cpu.system - system) / 1_000 / Math.max(1, put)
  run.fact('put again after the start', put, 'records')
  run.fact('that round', seconds, 's')
  run.fact('put again a second', put / seconds, 'records')
  run.fact('processor for each', cpuMsEach, 'ms')
  const hourly = (records / 2) * (PUTS_PER_HOUR.join + PUTS_PER_HOUR.announcement)
  run.fact('processor an hour of refreshing, from that', (hourly * cpuMsEach) / 1_000, 's')
  run.fact('records that could be kept up at that pace, joins all of them', (put / seconds) * (3_600 / PUTS_PER_HOUR.join), 'records')
  if (hourly > (put / seconds) * 3_600)
    run.gave(records / 2, 'more puts fall due in an hour than are done: records expire before their turn')
}

/** A registrar with its default budget, and a node that announces more than that. */
async function atTheBound(run: Measurement, folder: string, registrar: Child): Promise<void> {
  run.step('at a registrar with default bounds')
  const { addresses } = await registrar.ask<{ addresses: string[] }>('start', { folder, name: 'default', config: {} })
  const { node, operator } = await new NodeUnderTest(folder, 'bounded').start({ bootstrap: addresses })
  await connected(node)
  const spaces = new Spaces(node, ...(await agentsOf(node)))
  await inLanes(AT_DEFAULT, 1, async () => {
    const before = spaces.partial
    await spaces.next()
    if (before === 0 && spaces.partial > 0)
      run.gave(
        spaces.made,
        'a registrar took no more of this node: 32 new or changed entries a minute (registry.putsPerMinuteMax), of which a space takes three and a join one'
      )
  })
  run.said({
    where: 'caller',
    words: `of ${2 * AT_DEFAULT} announcements and joins, ${spaces.partial} were stored at fewer registrars than there are`
  })
  run.said(...(await operator.look(node, run, { at: 'of a node above the budget of its registrar', metrics: METRICS, status: STATUS })))
  run.said(...(await registrar.ask<Said[]>('look')))
  await node.stop()
  await registrar.ask('stop')
}

async function measure(order: ScaleOrder): Promise<ScaleFigures> {
  const under = new NodeUnderTest(order.folder, 'node')
  const run = new Measurement(order, under.dataDir)
  const registrar = new Child('./spaces-registrar.ts')
  const place = { folder: order.folder, name: 'registrar', config: RAISED }
  const { addresses } = await registrar.ask<{ addresses: string[] }>('start', place)
  const config = { ...RAISED, bootstrap: addresses }
  const { node, operator } = await under.start(config)
  await connected(node)
  const spaces = new Spaces(node, ...(await agentsOf(node)))
  run.begin()
  for (const at of [0, order.size / 2, order.size].map(Math.round)) {
    await inLanes(at - spaces.made, LANES, async () => {
      await spaces.next()
      run.progress(`${spaces.made.toLocaleString('en')} spaces`)
    })
    await run.stage(at, () => spaces.sample())
  }
  run.fact('records that fewer registrars took than there are', spaces.partial, 'records')
  const held = await registrar.ask<Record<string, number>>('stats')
  for (const name of ['keys', 'entries'] as const) run.fact(`at the registrar, ${name}`, held[name] ?? 0, name)
  run.fact('at the registrar, RSS', held.rssMib ?? 0, 'MiB')
  run.said(...(await operator.look(node, run, { at: `with ${spaces.made} spaces`, metrics: METRICS, status: STATUS })))
  run.step('starting again')
  await run.timed('stop with them', () => node.stop())
  run.said(...operator.lines().filter(({ words }) => words.includes('withdrawal')))
  const again = await run.timed('start with them', () => under.start(config))
  await putRound(run, again.node)
  run.said(...again.operator.lines())
  await again.node.stop()
  run.fact('stop of the registrar', (await registrar.ask<number>('stop')) / 1_000, 's')
  run.fact('start of the registrar with them', (await registrar.ask<{ ms: number }>('start', place)).ms / 1_000, 's')
  await registrar.ask('stop')
  await atTheBound(run, order.folder, registrar)
  await registrar.stop()
  run.note(
    'Two records a space, an announcement and a join. Two registrars: the node itself and one on another node, which by default takes 32 new or changed entries a minute of one node; for the growing that was raised (registry.putsPerMinuteMax).'
  )
  return run.done()
}

await serveKind(measure)

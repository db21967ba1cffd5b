/** How many sessions one node holds: opened by the node to agents on other nodes, over real QUIC, each kept in its LevelDB. */
import { eidFromDid } from '../../protocol/identity/eid.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import type { RookeryNode } from '../../src/rookery-node.ts'
import type { Session } from '../../src/sessions/session.ts'
import { CHANNEL, ECHO, LIVE } from '../endpoints.ts'
import { Child } from './child.ts'
import type { ScaleFigures, ScaleOrder } from './figures.ts'
import { inLanes, Measurement, serveKind, times } from './measurement.ts'
import { NodeUnderTest } from './node-under-test.ts'
import { refusal } from './operator.ts'
import type { EndsHost } from './sessions-ends.ts'

const ENDS_PROCESSES = 2
/** 450 sessions and their channels stay below the 512 streams that a connection carries. */
const AGENTS = { ofNode: 25, ofEnd: 18 }
const LANES = 16
const PINGS = 100
const SESSIONS_MAX_DEFAULT = 1_000
const RESUME_MS_MAX = 120_000
const METRICS = /^rookery_(sessions|peers|bound)/
const STATUS = ['sessions', 'sessionsMax']

interface Pair {
  from: HostedAgent
  host: EndsHost
  did: string
}

async function agentsOf(node: RookeryNode): Promise<HostedAgent[]> {
  for (let i = node.agents.list().length; i < AGENTS.ofNode; i++) await node.addAgent({ name: `agent-${i}` })
  return node.agents.list()
}

/** Enough agents on other nodes for so many sessions. */
async function pairsFor(size: number, agents: readonly HostedAgent[], ends: readonly Child[]): Promise<Pair[]> {
  const pairs: Pair[] = []
  for (let i = 0; pairs.length < size; i++) {
    const wanted = Math.min(AGENTS.ofEnd, Math.ceil((size - pairs.length) / agents.length))
    const host = await (ends[i % ends.length] as Child).ask<EndsHost>('open', { agents: wanted })
    for (const did of host.dids) for (const from of agents) pairs.push({ from, host, did })
  }
  return pairs.slice(0, size)
}

const opened = (node: RookeryNode, { from, host, did }: Pair) => node.sessions.open(from, eidFromDid(did), host.address)

/** One message there and back. */
function pinger(session: Session): () => Promise<void> {
  let back: () => void = () => {}
  session.onChannel(CHANNEL, async () => back())
  return async () => {
    const answered = new Promise<void>((resolve) => {
      back = resolve
    })
    await session.send(CHANNEL, LIVE, Uint8Array.of(ECHO, 1, 2, 3))
    await answered
  }
}

async function grow(run: Measurement, node: RookeryNode, pairs: readonly Pair[], stages: readonly number[]): Promise<number> {
  let count = 0
  let ended: unknown
  let ping: (() => Promise<void>) | undefined
  run.begin()
  for (const at of stages) {
    const first = count
    await inLanes(
      at - first,
      LANES,
      async (i) => {
        const session = await opened(node, pairs[first + i] as Pair).catch((error: unknown) => {
          ended ??= error
        })
        if (session === undefined) return
        ping ??= pinger(session)
        count++
        run.progress(`${count.toLocaleString('en')} sessions`)
      },
      () => ended !== undefined
    )
    const sample = ping
    await run.stage(count, async () => ({ 'message and answer': sample === undefined ? [] : await times(PINGS, sample) }))
    if (ended === undefined) continue
    run.gave(count, 'a session more was refused')
    run.said(refusal(ended))
    break
  }
  return count
}

async function resume(run: Measurement, under: NodeUnderTest, sessionsMax: number, count: number): Promise<RookeryNode> {
  run.step('starting again')
  const { node } = await run.timed('start with them', () => under.start({ sessionsMax }))
  const startedMs = performance.now()
  const held = () => node.sessions.held().sessions
  while (held() < count && performance.now() - startedMs < RESUME_MS_MAX) {
    run.progress(`${held().toLocaleString('en')} of ${count.toLocaleString('en')} sessions taken up again`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  run.fact('until all were taken up again', (performance.now() - startedMs) / 1_000, 's')
  run.fact('taken up again', held(), 'sessions')
  if (held() < count) run.gave(held(), `not all of ${count} sessions were taken up again within ${RESUME_MS_MAX / 1_000} s of the start`)
  return node
}

/** A node with the default bound, or its share: filled by its own calls, then called by others and calling once more. */
async function atTheBound(run: Measurement, folder: string, ends: readonly Child[]): Promise<void> {
  run.step('a node at its bound')
  const bound = Math.max(10, Math.round(SESSIONS_MAX_DEFAULT * run.order.part))
  const under = new NodeUnderTest(folder, 'bounded')
  const { node, operator } = await under.start(bound === SESSIONS_MAX_DEFAULT ? {} : { sessionsMax: bound })
  const agents = await agentsOf(node)
  const pairs = await pairsFor(Math.floor(bound * 1.1) + 1, agents, ends)
  await inLanes(bound, LANES, async (i) => {
    await opened(node, pairs[i] as Pair)
  })
  const address = { peer: node.host.peer, addrs: node.host.addresses() }
  const said = await (ends[0] as Child).ask('call', { did: agents[0]?.did, address })
  run.note(`The bound of the node below is sessionsMax ${bound}; a tenth more is for calls of its own agents.`)
  run.said({ where: 'caller', words: `another node's agent, at ${bound}: ${said === undefined ? 'let in' : JSON.stringify(said)}` })
  for (const pair of pairs.slice(bound)) {
    try {
      await opened(node, pair)
    } catch (error) {
      run.said({ where: 'caller', words: `an agent of its own, at ${node.sessions.held().sessions}: ${refusal(error).words}` })
      break
    }
  }
  run.said(...(await operator.look(node, run, { at: 'at the bound', metrics: METRICS, status: STATUS })))
  await node.stop()
}

async function measure(order: ScaleOrder): Promise<ScaleFigures> {
  const under = new NodeUnderTest(order.folder, 'node')
  const run = new Measurement(order, under.dataDir)
  const ends = Array.from({ length: order.size < AGENTS.ofNode * AGENTS.ofEnd ? 1 : ENDS_PROCESSES }, () => new Child('./sessions-ends.ts'))
  const sessionsMax = Math.max(SESSIONS_MAX_DEFAULT, 2 * order.size)
  const { node, operator } = await under.start({ sessionsMax })
  const agents = await agentsOf(node)
  run.step('opening the other ends')
  const pairs = await pairsFor(order.size, agents, ends)
  const stages = [0, order.size / 10, order.size / 2, order.size].map(Math.round)
  const count = await grow(run, node, pairs, stages)
  await operator.look(node, run, { at: `with ${count} sessions`, metrics: METRICS, status: STATUS })
  await run.timed('stop with them', () => node.stop())
  run.said(...operator.lines())
  const again = await resume(run, under, sessionsMax, count)
  run.step('closing')
  const all = (await Promise.all(again.sessions.list().map(({ id }) => again.sessions.get(id)))).filter((one) => one !== undefined)
  await run.timed('close all', () =>
    inLanes(all.length, LANES, async (i) => {
      await all[i]?.close()
    })
  )
  await again.stop()
  await atTheBound(run, order.folder, ends)
  for (const end of ends) await end.stop()
  run.note(
    `Memory is of the node's own process, one end of each session. The node calls: a peer takes 16 new sessions a minute of one PeerId by default, so the other ends had that bound raised.`
  )
  return run.done()
}

await serveKind(measure)

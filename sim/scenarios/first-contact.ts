import { equals, utf8 } from '../../protocol/bytes.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { RookeryError } from '../../src/errors.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Session } from '../../src/sessions/session.ts'
import { eachOf } from '../engine/each-of.ts'
import { type FirstContactPlan, planFirstContact } from './first-contact-plan.ts'
import type { Scenario, ScenarioRun } from './scenario.ts'

const TOPIC = 'org.agentnet/marketplace.energy@1'
const PARENT = 'org.agentnet/marketplace'
/** Nodes that join the space at the same time */
const JOINS_AT_ONCE = 4
/** Searches and sessions come one after the other, at most one in this time, so that a machine that keeps up measures each alone. */
const PACE_MS = 100
const STEP_TIMEOUT_MS = 30_000
/** A channel that the node itself serves for nothing */
const ECHO_CHANNEL = 32

/** One announces, all others join, some search by topic and by parent topic, pairs talk. */
export const firstContact: Scenario = {
  name: 'first-contact',
  description:
    'One node announces a space, all others join it, 20 search it by topic and by parent topic, 20 pairs open a session and echo an item.',
  nodes: { min: 2, max: 1_000, default: 100 },

  wanted(nodes, seed) {
    const plan = planFirstContact(nodes, seed)
    return {
      join: { wanted: plan.joiners.length, latenciesMs: [] },
      discovery: { wanted: plan.searches.length, members: plan.joiners.length, latenciesMs: [], hops: [], membersFound: [] },
      sessions: { wanted: plan.sessions.length, opened: 0, handshakesMs: [], roundTripsMs: [] }
    }
  },

  async run(run, seed) {
    const plan = planFirstContact(run.engine.nodes.length, seed)
    await announce(run, plan)
    await join(run, plan)
    await run.measure(() => search(run, plan))
    await publishLocators(run, plan)
    await run.measure(() => talk(run, plan))
  }
}

async function announce({ engine, log, signal }: ScenarioRun, { announcer }: FirstContactPlan): Promise<void> {
  await log.phase('announce the space', 1, async (done) => {
    const { node, agent } = engine.node(announcer)
    await node.spaces.announce({ name: TOPIC, curator: agent }, { signal })
    done()
  })
}

async function join(run: ScenarioRun, { joiners }: FirstContactPlan): Promise<void> {
  await run.log.phase('join the space', joiners.length, (done) =>
    eachOf(joiners, JOINS_AT_ONCE, async (index) => {
      const { node, agent } = run.engine.node(index)
      await attempt(run, 'join', index, async (signal) => {
        const startedMs = systemClock.monotonicMs()
        const { stored } = await node.spaces.join({ name: TOPIC, agent }, { signal })
        if (stored === 0) throw new RookeryError('SIM_NOT_STORED', 'no registrar took the join', { kind: 'unavailable' })
        run.measured.join.latenciesMs.push(systemClock.monotonicMs() - startedMs)
      })
      done()
    })
  )
}

async function search(run: ScenarioRun, { searches, joiners }: FirstContactPlan): Promise<void> {
  const { engine, log, measured } = run
  const honest = new Set<string>(joiners.map((index) => engine.node(index).agent.did))
  await log.phase('search it', searches.length, (done) =>
    paced(searches, run.signal, async ({ node: index, by }) => {
      await attempt(run, `search by ${by}`, index, async (signal) => {
        const startedMs = systemClock.monotonicMs()
        const result = await engine.node(index).node.spaces.find({ name: by === 'topic' ? TOPIC : PARENT }, { signal })
        const found = new Set(result.members.map(({ did }) => did).filter((did) => honest.has(did))).size
        if (found === 0) throw new RookeryError('SIM_NOTHING_FOUND', 'the search found no member', { kind: 'notFound' })
        measured.discovery.latenciesMs.push(systemClock.monotonicMs() - startedMs)
        measured.discovery.hops.push(result.registrars.hops)
        measured.discovery.membersFound.push(found)
      })
      done()
    })
  )
}

/** Only those that somebody will look for: what the others' locators cost is the same for each. */
async function publishLocators(run: ScenarioRun, { sessions }: FirstContactPlan): Promise<void> {
  const targets = [...new Set(sessions.map(({ to }) => to))]
  await run.log.phase('publish locators', targets.length, (done) =>
    eachOf(targets, JOINS_AT_ONCE, async (index) => {
      const { node, agent } = run.engine.node(index)
      await attempt(run, 'publish a locator', index, async (signal) => void (await node.locators.publish(agent, { signal })))
      done()
    })
  )
}

async function talk(run: ScenarioRun, { sessions }: FirstContactPlan): Promise<void> {
  for (const { node } of run.engine.nodes) node.sessions.onSession(echo)
  await run.log.phase('open sessions', sessions.length, (done) =>
    paced(sessions, run.signal, async ({ from, to }) => {
      await attempt(run, `session with node ${to}`, from, (signal) => openAndEcho(run, from, to, signal))
      done()
    })
  )
}

async function openAndEcho({ engine, measured }: ScenarioRun, from: number, to: number, signal: AbortSignal): Promise<void> {
  const caller = engine.node(from)
  const target = engine.node(to).agent
  const { address } = await caller.node.locators.resolve(target.eid, { signal, fresh: true })
  const session = await caller.node.sessions.open(caller.agent, target.eid, address, { signal })
  const echoed = Promise.withResolvers<Uint8Array>()
  session.onChannel(ECHO_CHANNEL, async ({ payload }) => echoed.resolve(payload.slice()))
  const sent = utf8(`node ${from} greets node ${to}`)
  const startedMs = systemClock.monotonicMs()
  await session.send(ECHO_CHANNEL, ITEM_KINDS.live, sent, { signal })
  const got = await Promise.race([echoed.promise, whenAborted(signal)])
  if (!equals(got, sent)) throw new RookeryError('SIM_ECHO_WRONG', 'what came back is not what was sent', { kind: 'internal' })
  measured.sessions.opened++
  measured.sessions.handshakesMs.push(session.info().handshakeMs)
  measured.sessions.roundTripsMs.push(systemClock.monotonicMs() - startedMs)
}

/** The called side sends back what it gets; the caller puts its own handler in place of this one. */
function echo(session: Session): void {
  session.onChannel(ECHO_CHANNEL, async ({ kind, payload }) => {
    await session.send(ECHO_CHANNEL, kind, payload.slice())
  })
}

/** A step that fails is told in the report and the run goes on; only the run's own signal ends it. */
async function attempt(run: ScenarioRun, what: string, node: number, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  run.signal.throwIfAborted()
  const late = new AbortController()
  const cancel = systemClock.after(STEP_TIMEOUT_MS, () =>
    late.abort(new RookeryError('SIM_STEP_TIMEOUT', `not done within ${STEP_TIMEOUT_MS} ms`, { kind: 'timeout' }))
  )
  try {
    await work(AbortSignal.any([run.signal, late.signal]))
  } catch (error) {
    run.signal.throwIfAborted()
    run.log.failed(what, node, error)
  } finally {
    cancel()
  }
}

async function paced<T>(items: readonly T[], signal: AbortSignal, work: (item: T) => Promise<void>): Promise<void> {
  for (const item of items) {
    const startedMs = systemClock.monotonicMs()
    await work(item)
    await systemClock.sleep(Math.max(0, startedMs + PACE_MS - systemClock.monotonicMs()), { signal })
  }
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

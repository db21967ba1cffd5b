import { RookeryError } from '../../src/errors.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { eachOf } from '../engine/each-of.ts'
import type { Plan, PlannedStage, SimAction, SimEvent } from '../scenario/events.ts'
import type { Attacks } from './attacks.ts'
import type { EngineRun, RunContext, Sent } from './engine.ts'
import type { NodeAction, NodePool } from './node-pool.ts'

/** An action that takes longer has failed; an attack takes as long as it takes. */
const STEP_TIMEOUT_MS = 120_000
/** Work that a node has taken may still be under way when the run ends. */
const LAST_WORK_MS = 10_000
const LAST_WORK_LOOK_MS = 250
const PUBLISH_AT_ONCE = 8
/** Between two looks at all queues while a stage lasts */
const AUDIT_EVERY_MS = 5_000
const TOPOLOGY_NODES_MAX = 400
/** What nodes have not noticed yet still goes wrong for so long. */
const AFTERMATH_MS = 10_000
/** By which the heap of an idle node may grow between two looks: caches that fill, samples of the watch. */
const IDLE_SLACK_BYTES = 64 * 1024
/** A stage that lasts begins to be judged for its memory after this part of it. */
const IDLE_SETTLES = 0.3
/** and so often in each half of the rest */
const IDLE_LOOKS = 3

export interface RealRunInit {
  pool: NodePool
  plan: Plan
  context: RunContext
  attacks: Attacks | undefined
  lastWorkMs?: number | undefined
  /** watches the loop while a measured stage runs */
  measure<T>(work: () => Promise<T>): Promise<T>
  failed(what: string, node: number, error: unknown): void
}

/** A plan on real nodes. */
export class RealRun implements EngineRun {
  readonly kind = 'real'
  readonly #pool: NodePool
  readonly #plan: Plan
  readonly #c: RunContext
  readonly #init: RealRunInit
  readonly #published = new Set<number>()
  readonly #joined = new Map<string, Set<number>>()
  readonly #down = new Set<number>()
  readonly #acked = new Set<number>()
  readonly #notified = new Set<number>()
  #isApart = false
  /** when nodes or links were last taken away or given back */
  #disturbedMs = Number.NEGATIVE_INFINITY
  #sent: Sent = { messages: [], bytes: [], byProtocol: [] }
  #beganMs = systemClock.monotonicMs()

  constructor(init: RealRunInit) {
    this.#init = init
    this.#pool = init.pool
    this.#plan = init.plan
    this.#c = init.context
  }

  get #nowMs(): number {
    return systemClock.monotonicMs() - this.#beganMs
  }

  async boot(step: (count: number) => void): Promise<void> {
    let count = 0
    await this.#pool.boot(() => step(++count))
  }

  async settle(progress: (settled: number) => void): Promise<void> {
    await this.#pool.settle(progress)
    this.#beganMs = systemClock.monotonicMs()
  }

  async stage(stage: PlannedStage, done: (count: number) => void): Promise<void> {
    const run = () => this.#stage(stage, done)
    await (stage.measured ? this.#init.measure(run) : run())
  }

  async #stage(stage: PlannedStage, done: (count: number) => void): Promise<void> {
    const { signal } = this.#c
    const startedMs = systemClock.monotonicMs()
    let count = 0
    const ended = new AbortController()
    const isIdle = stage.lanes.every(({ events }) => events.length === 0) && stage.lastsMs > 0
    const watching = stage.lastsMs > AUDIT_EVERY_MS && !isIdle ? this.#watch(ended.signal) : undefined
    try {
      if (isIdle) return await this.#idle(stage.lastsMs)
      await Promise.all(stage.lanes.map((lane) => this.#lane(lane, startedMs, () => done(++count))))
      const restMs = startedMs + stage.lastsMs - systemClock.monotonicMs()
      if (restMs > 0) await systemClock.sleep(restMs, { signal })
    } finally {
      ended.abort()
      await watching?.catch(() => {})
    }
  }

  async #lane({ events, paceMs, atOnce }: PlannedStage['lanes'][number], startedMs: number, step: () => void): Promise<void> {
    const { signal } = this.#c
    let nextAtMs = Number.NEGATIVE_INFINITY
    const begin = async (event: SimEvent) => {
      const atMs = Math.max(startedMs + event.atMs, nextAtMs)
      nextAtMs = Math.max(atMs, systemClock.monotonicMs()) + paceMs
      const waitMs = atMs - systemClock.monotonicMs()
      if (waitMs > 0) await systemClock.sleep(waitMs, { signal })
      await this.#attempt(event)
      step()
    }
    await eachOf(events, atOnce ?? events.length, begin)
  }

  /** An action that fails is told in the report and the run goes on; only the run's own signal ends it. */
  async #attempt(action: SimAction): Promise<void> {
    const { signal, recorder, log } = this.#c
    signal.throwIfAborted()
    const node = 'node' in action ? action.node : 0
    const late = new AbortController()
    const cancel = systemClock.after(STEP_TIMEOUT_MS, () =>
      late.abort(new RookeryError('SIM_STEP_TIMEOUT', `not done within ${STEP_TIMEOUT_MS} ms`, { kind: 'timeout' }))
    )
    try {
      if (action.do === 'attack') {
        await this.#init.attacks?.run(action)
        recorder.done({ action }, this.#nowMs)
      } else if (action.do === 'partition' || action.do === 'heal') {
        this.#isApart = action.do === 'partition'
        this.#disturbedMs = systemClock.monotonicMs()
        await this.#pool.partition(action.do === 'partition' ? action.islands : undefined)
        recorder.done({ action }, this.#nowMs)
      } else await this.#perform(action, AbortSignal.any([signal, late.signal]))
      log(`${Math.round(this.#nowMs)} ${action.do} ${node} ok`)
    } catch (error) {
      signal.throwIfAborted()
      const code = error instanceof RookeryError ? error.code : 'INTERNAL'
      recorder.done({ action, error: { code, message: error instanceof Error ? error.message : String(error) } }, this.#nowMs)
      log(`${Math.round(this.#nowMs)} ${action.do} ${node} ${code}`)
      // while nodes or links are taken away by plan, what others miss is no failure of the network
      if (!this.#isExcused(action) && !this.#isDisturbed()) this.#init.failed(action.do, node, error)
    } finally {
      cancel()
    }
  }

  #isExcused(action: SimAction): boolean {
    if ('node' in action && this.#down.has(action.node)) return true
    return 'to' in action && this.#down.has(action.to)
  }

  #isDisturbed(): boolean {
    return this.#down.size > 0 || this.#isApart || systemClock.monotonicMs() - this.#disturbedMs < AFTERMATH_MS
  }

  async #perform(action: NodeAction, signal: AbortSignal): Promise<void> {
    const { recorder, invariants } = this.#c
    if (this.#isExcused(action) && action.do !== 'restart') return
    if (action.do === 'kill') this.#down.add(action.node)
    if (action.do === 'kill' || action.do === 'restart') this.#disturbedMs = systemClock.monotonicMs()
    if ((action.do === 'openSession' || action.do === 'send') && !this.#published.has(action.to)) {
      await this.#pool.perform({ do: 'publish', node: action.to }, signal)
      this.#published.add(action.to)
    }
    const before = action.do === 'discover' ? this.#membersOf(action) : []
    recorder.wanted(action)
    const { outcome, facts, found } = await this.#pool.perform(action, signal)
    for (const fact of facts) {
      if (fact.fact === 'acked') this.#acked.add(fact.id)
      invariants.see(fact, this.#nowMs)
    }
    // at every ack: what both ends hold now
    if (action.do === 'send' || action.do === 'openSession') {
      for (const fact of await this.#pool.chains([action.node, action.to])) invariants.see(fact, this.#nowMs)
    }
    if (action.do === 'publish') this.#published.add(action.node)
    if (action.do === 'restart') this.#down.delete(action.node)
    if (action.do === 'join' || action.do === 'leave') this.#membership(action)
    if (action.do === 'wake') recorder.woke(this.#nowMs)
    if (action.do === 'discover' && found !== undefined) {
      const honest = this.#judgeSearch(action, found, before)
      if (honest === 0 && before.length === 0) {
        // there was nobody to find when it began: it says nothing of the network
        recorder.measured.discovery.wanted--
        const error = { code: 'SIM_NOTHING_FOUND', message: 'nobody had joined yet' }
        return recorder.done({ action, error }, this.#nowMs)
      }
      if (honest === 0) throw new RookeryError('SIM_NOTHING_FOUND', 'the search found no member', { kind: 'notFound' })
      return recorder.done({ ...outcome, membersFound: honest }, this.#nowMs)
    }
    recorder.done(outcome, this.#nowMs)
  }

  #membership({ do: verb, node, space }: Extract<NodeAction, { do: 'join' | 'leave' | 'announce' }>): void {
    const members = this.#joined.get(space) ?? new Set()
    this.#joined.set(space, members)
    if (verb === 'join') members.add(node)
    else members.delete(node)
    this.#c.recorder.measured.discovery.members = Math.max(this.#c.recorder.measured.discovery.members, members.size)
  }

  /** Honest members of a space other than who searches it, now. */
  #membersOf({ node, space }: Extract<NodeAction, { do: 'discover' }>): number[] {
    return [...(this.#joined.get(space) ?? [])].filter((index) => index !== node && this.#isHonest(index))
  }

  /** @param before - the honest members when the search began */
  #judgeSearch({ node, space }: Extract<NodeAction, { do: 'discover' }>, found: readonly number[], before: readonly number[]): number {
    const members = this.#joined.get(space) ?? new Set()
    const honestFound = found.filter((index) => members.has(index) && this.#isHonest(index)).length
    const hostile = this.#plan.nodes.filter(({ group }) => group.behaviour === 'hostile').length
    if (before.length > 0 && this.#isHonest(node) && !this.#isDisturbed()) {
      this.#c.invariants.see({ fact: 'searched', node, honestFound, hostileShare: hostile / this.#plan.nodes.length }, this.#nowMs)
    }
    return honestFound
  }

  #isHonest(index: number): boolean {
    return this.#plan.nodes[index]?.group.behaviour === 'honest'
  }

  /** Work under way adds to a heap for a moment, a leak for good: the least of the first looks is set against the least of the last. */
  async #idle(lastsMs: number): Promise<void> {
    const { signal, invariants } = this.#c
    const everyMs = (lastsMs * (1 - IDLE_SETTLES)) / (2 * IDLE_LOOKS)
    await systemClock.sleep(lastsMs * IDLE_SETTLES, { signal })
    const looks: number[] = []
    while (looks.length < 2 * IDLE_LOOKS) {
      await systemClock.sleep(everyMs, { signal })
      looks.push(await this.#pool.heapBytes())
    }
    const before = Math.min(...looks.slice(0, IDLE_LOOKS))
    const after = Math.min(...looks.slice(IDLE_LOOKS))
    invariants.see({ fact: 'idle', nodes: this.#plan.nodes.length, before, after, slackEach: IDLE_SLACK_BYTES }, this.#nowMs)
  }

  async #watch(signal: AbortSignal): Promise<void> {
    for (;;) {
      await systemClock.sleep(AUDIT_EVERY_MS, { signal })
      await this.#audit('as-it-is')
    }
  }

  async #audit(awake: 'woken' | 'as-it-is'): Promise<void> {
    const { facts, queued, queuedMost } = await this.#pool.audit(awake, this.#c.signal)
    this.#c.recorder.queued(this.#nowMs, queued, queuedMost)
    for (const fact of facts) {
      if (fact.fact === 'notified') this.#notified.add(fact.id)
      if (fact.fact === 'waiting' && awake === 'as-it-is') continue
      if (fact.fact === 'blacklisted') {
        this.#c.invariants.see(
          { ...fact, victimIs: this.#isHonest(fact.victim) && !this.#init.attacks?.isLiar(fact.victim) ? 'honest' : 'hostile' },
          this.#nowMs
        )
      } else this.#c.invariants.see(fact, this.#nowMs)
    }
  }

  async finish(): Promise<void> {
    await this.#init.attacks?.end()
    const asleep = [...this.#down]
    await eachOf(asleep, PUBLISH_AT_ONCE, async (node) => void (await this.#pool.perform({ do: 'restart', node }, this.#c.signal)))
    this.#down.clear()
    const untilMs = systemClock.monotonicMs() + (this.#init.lastWorkMs ?? LAST_WORK_MS)
    await this.#audit('woken')
    while (!this.#allHanded() && systemClock.monotonicMs() < untilMs) {
      await systemClock.sleep(LAST_WORK_LOOK_MS, { signal: this.#c.signal })
      await this.#audit('woken')
    }
  }

  #allHanded(): boolean {
    for (const id of this.#acked) if (!this.#notified.has(id)) return false
    return true
  }

  async draw(label: string): Promise<void> {
    const edges = await this.#pool.links(TOPOLOGY_NODES_MAX)
    const nodes = this.#plan.nodes.map(({ index, region, group }) => ({
      index,
      region,
      state:
        group.behaviour === 'hostile'
          ? ('hostile' as const)
          : this.#down.has(index)
            ? ('down' as const)
            : group.reachability === 'always_on'
              ? ('up' as const)
              : ('asleep' as const)
    }))
    this.#c.recorder.drew({ atMs: Math.round(this.#nowMs), label, nodes, edges })
  }

  sent(): Sent {
    return this.#sent
  }

  async stop(step: (count: number) => void): Promise<void> {
    const sent = await this.#pool.sent()
    const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0)
    this.#sent = {
      messages: sent.map((list) => sum(list.map(({ messages }) => messages))),
      bytes: sent.map((list) => sum(list.map(({ bytes }) => bytes))),
      byProtocol: sent.flat()
    }
    let count = 0
    await this.#pool.stop(() => step(++count))
  }
}

import { derivedBytes } from '../engine/seeds.ts'
import type { EngineRun, RunContext, Sent } from '../run/engine.ts'
import type { Fact } from '../run/facts.ts'
import type { Outcome } from '../run/recorder.ts'
import type { Plan, PlannedStage, SimAction, SimEvent } from '../scenario/events.ts'
import type { Bug } from './bugs.ts'
import { EventQueue } from './event-queue.ts'
import { ModelMail } from './model-mail.ts'
import { locatorPlace, ModelNetwork } from './model-network.ts'
import type { ModelNode } from './model-node.ts'
import { hashesAgree, runSession } from './model-session.ts'
import { ModelSpaces } from './model-spaces.ts'
import { FastRandom } from './random.ts'

/** The model's wall clock begins here, at a full hour: 2026-01-01T00:00:00Z. */
const EPOCH_MS = 1_767_225_600_000
/** Nodes start one after the other, this far apart, as real ones do in virtual time; the last has looked itself up again when the run begins. */
const BOOT_EACH_MS = 20
const LAST_LOOK_UP_MS = 2_000
/**
 * A node looks itself up after these pauses from its start on, each half as long to half as long again, and a random place beside while it knows fewer
 * than k; once it knows them, or learns of nobody any more, after the last (`src/net/table-care.ts`).
 */
const CARE_PAUSES_MS = [1_000, 4_000, 15_000, 60_000, 300_000] as const
/** A join is renewed at half its life (as the product's refresher does), a table refreshed as often as kad-dht does, sets swept each minute. */
const RENEW_MS = 1_800_000
const REFRESH_MS = 300_000
const SWEEP_MS = 60_000
/** Between two looks at all queues */
const LOOK_MS = 60_000
/** A node that does not answer is given up after this. */
const GIVE_UP_MS = 4_000
/** Entries by which an idle node may differ between two looks: peers that come into its table. */
const IDLE_SLACK = 16
const AHEAD = 1

/** Tens of thousands of modelled nodes on one event queue: the same seed gives the same log, byte for byte. */
export class ModelEngine implements EngineRun {
  readonly kind = 'model'
  readonly #plan: Plan
  readonly #c: RunContext
  readonly #queue = new EventQueue()
  readonly #random: FastRandom
  readonly #network: ModelNetwork
  readonly #spaces: ModelSpaces
  readonly #mail: ModelMail
  readonly #bug: Bug | undefined
  readonly #seed: number
  readonly #joined = new Map<number, Set<string>>()
  /** members by space */
  readonly #memberCounts = new Map<string, number>()
  readonly #hostileShare: number
  readonly #order: number[] = []
  #sessions = 0
  #beganMs = 0

  constructor(plan: Plan, context: RunContext, { seed, bug }: { seed: number; bug?: Bug | undefined }) {
    this.#plan = plan
    this.#c = context
    this.#seed = seed
    this.#bug = bug
    this.#hostileShare = plan.nodes.filter(({ group }) => group.behaviour === 'hostile').length / plan.nodes.length
    this.#random = new FastRandom(new DataView(derivedBytes(seed, 'model').buffer).getUint32(0))
    this.#network = new ModelNetwork(plan.nodes, context.definition.network, seed, this.#random)
    const tell = (fact: Fact) => this.#tell(fact)
    this.#spaces = new ModelSpaces(this.#network, { epochMs: EPOCH_MS, bug })
    this.#mail = new ModelMail({ epochMs: EPOCH_MS, bug, tell })
  }

  /** things that happened: events of the queue, and RPCs inside of look-ups */
  get events(): number {
    return this.#queue.happened + this.#network.rpcs
  }

  get nowMs(): number {
    return this.#queue.nowMs
  }

  #tell(fact: Fact): void {
    this.#c.invariants.see(fact, this.#queue.nowMs)
  }

  #log(text: string): void {
    this.#c.log(`${this.#queue.nowMs.toFixed(3)} ${text}`)
  }

  async boot(step: (count: number) => void): Promise<void> {
    for (const { index } of this.#plan.nodes) {
      this.#queue.at(index * BOOT_EACH_MS, () => {
        const node = this.#network.node(index)
        this.#mail.open(node)
        this.#network.join(index, this.#order)
        this.#order.push(index)
        this.#begin(node)
      })
    }
    const total = this.#plan.nodes.length
    for (let done = 0; done < total; ) {
      done = Math.min(total, done + 500)
      this.#queue.runUntil(done * BOOT_EACH_MS)
      step(done)
      await this.#c.breathe()
    }
    this.#queue.runUntil(total * BOOT_EACH_MS + LAST_LOOK_UP_MS)
    this.#log(`booted ${total}`)
    this.#look()
    this.#beganMs = this.#queue.nowMs
  }

  /** What a node does by itself from its start on. */
  #begin(node: ModelNode): void {
    const life = node.life
    const again = (ms: number, work: () => void) => {
      const next = () =>
        this.#queue.after(ms, () => {
          if (!node.isUp || node.life !== life) return
          work()
          next()
        })
      this.#queue.after(this.#random.fraction() * ms, () => {
        if (!node.isUp || node.life !== life) return
        work()
        next()
      })
    }
    const care = (next: number) => {
      const last = CARE_PAUSES_MS.length - 1
      this.#queue.after((CARE_PAUSES_MS[next] as number) * (0.5 + this.#random.fraction()), () => {
        if (!node.isUp || node.life !== life) return
        const before = node.table.size
        this.#network.lookUp(node.index, this.#network.placeOf(node.index))
        if (node.table.size < this.#network.k) this.#network.lookUp(node.index, this.#network.drawnPlace())
        const isFutile = node.table.size <= before && next > 0
        care(node.table.size >= this.#network.k || isFutile ? last : Math.min(next + 1, last))
      })
    }
    care(0)
    again(REFRESH_MS, () => this.#network.refresh(node.index))
    again(SWEEP_MS, () => {
      this.#spaces.sweep(node, this.#queue.nowMs)
      if (this.#bug === 'never-forgets') for (let i = 0; i < IDLE_SLACK; i++) node.hoard.push(i)
    })
    this.#scheduleWake(node, life)
  }

  #scheduleWake(node: ModelNode, life: number): void {
    const atMs = this.#mail.nextWakeMs(node, this.#queue.nowMs)
    if (atMs === undefined) return
    this.#queue.at(atMs, () => {
      if (!node.isUp || node.life !== life) return
      this.#woke(node, 'by itself')
      this.#scheduleWake(node, life)
    })
  }

  #woke(node: ModelNode, how: 'by itself' | 'by order'): void {
    const { nowMs } = this.#queue
    const drained = this.#mail.drain(node, nowMs)
    this.#c.recorder.woke(nowMs, how === 'by itself' ? this.#mail.secondOfPeriod(node, nowMs) : undefined)
    if (drained > 0) this.#log(`woke ${node.index} drained ${drained}`)
  }

  /** Queues and idle nodes, from time to time. */
  #look(): void {
    let all = 0
    let most = 0
    for (const { queue } of this.#network.nodes) {
      all += queue.length
      most = Math.max(most, queue.length)
    }
    this.#c.recorder.queued(this.#queue.nowMs, all, most)
    this.#queue.after(LOOK_MS, () => this.#look())
  }

  async stage(stage: PlannedStage, done: (count: number) => void): Promise<void> {
    const startMs = this.#queue.nowMs
    const total = stage.lanes.reduce((sum, { events }) => sum + events.length, 0)
    const counts = { done: 0 }
    const idle = total === 0 ? this.#entries() : undefined
    for (const lane of stage.lanes) this.#runLane(lane, startMs, counts)
    const endMs = startMs + stage.lastsMs
    this.#log(`stage ${stage.name}`)
    for (;;) {
      const pauseAt = this.events + 50_000
      const more = () => this.events < pauseAt && (counts.done < total || this.#nextDue(endMs))
      const left = this.#queue.runWhile(more)
      done(total === 0 ? 0 : counts.done)
      this.#c.signal.throwIfAborted()
      if (!left || (counts.done >= total && !this.#nextDue(endMs))) break
      await this.#c.breathe()
    }
    this.#queue.runUntil(Math.max(endMs, this.#queue.nowMs))
    if (idle !== undefined && stage.lastsMs > 0) {
      this.#tell({ fact: 'idle', nodes: this.#network.nodes.length, before: idle, after: this.#entries(), slackEach: IDLE_SLACK })
    }
  }

  #nextDue(endMs: number): boolean {
    return this.#queue.nextAtMs <= endMs
  }

  #entries(): number {
    return this.#network.nodes.reduce((sum, { entries }) => sum + entries, 0)
  }

  #runLane({ events, paceMs, atOnce }: PlannedStage['lanes'][number], startMs: number, counts: { done: number }) {
    let next = 0
    let under = 0
    let lastMs = Number.NEGATIVE_INFINITY
    let isWaiting = false
    const pump = () => {
      while (next < events.length && (atOnce === undefined || under < atOnce)) {
        const event = events[next] as SimEvent
        const atMs = Math.max(startMs + event.atMs, lastMs + paceMs)
        if (atMs > this.#queue.nowMs) {
          if (!isWaiting) {
            isWaiting = true
            this.#queue.at(atMs, () => {
              isWaiting = false
              pump()
            })
          }
          return
        }
        next++
        under++
        lastMs = this.#queue.nowMs
        this.#perform(event, () => {
          under--
          counts.done++
          if (atOnce !== undefined) pump()
        })
      }
    }
    pump()
  }

  #perform(action: SimAction, ended: () => void) {
    this.#c.recorder.wanted(action)
    const finish = (tookMs: number, outcome: Omit<Outcome, 'action'>) => {
      this.#queue.after(tookMs, () => {
        this.#c.recorder.done({ action, ...outcome }, this.#queue.nowMs)
        this.#log(`${said(action)} ${outcome.error?.code ?? 'ok'}${outcome.hops === undefined ? '' : ` ${outcome.hops} hops`}`)
        ended()
      })
    }
    const fail = (tookMs: number, code: string, message: string) => finish(tookMs, { error: { code, message } })
    if ('node' in action && !this.#network.isUp(action.node) && action.do !== 'restart') {
      return fail(AHEAD, 'SIM_NODE_DOWN', `node ${action.node} is down`)
    }
    const { nowMs } = this.#queue
    switch (action.do) {
      case 'announce': {
        const { stored, tookMs } = this.#spaces.announce(this.#network.node(action.node), action.space, nowMs)
        return stored === 0 ? fail(tookMs, 'SIM_NOT_STORED', 'no registrar took it') : finish(tookMs, { latencyMs: tookMs })
      }
      case 'join':
        return this.#join(action.node, action.space, finish, fail)
      case 'leave': {
        if (this.#joined.get(action.node)?.delete(action.space) === true) {
          this.#memberCounts.set(action.space, (this.#memberCounts.get(action.space) ?? 1) - 1)
        }
        const { tookMs } = this.#spaces.leave(this.#network.node(action.node), action.space, nowMs)
        return finish(tookMs, { latencyMs: tookMs })
      }
      case 'discover':
        return this.#discover(action, finish, fail)
      case 'publish': {
        const { tookMs } = this.#network.lookUp(action.node, locatorPlace(this.#network.node(action.node).eid))
        return finish(tookMs, { latencyMs: tookMs })
      }
      case 'openSession':
        return this.#openSession(action.node, action.to, finish, fail)
      case 'send':
        return this.#send(action, finish, fail)
      case 'sleep': {
        const node = this.#network.node(action.node)
        const untilMs = action.forMs === undefined ? undefined : EPOCH_MS + nowMs + action.forMs
        node.reachability = { mode: 'sleep', ...(untilMs === undefined ? {} : { untilMs }) }
        if (action.forMs !== undefined) this.#queue.after(action.forMs, () => this.#wake(node))
        return finish(AHEAD, {})
      }
      case 'wake':
        this.#wake(this.#network.node(action.node))
        return finish(AHEAD, {})
      case 'kill': {
        const node = this.#network.node(action.node)
        node.isUp = false
        node.life++
        node.sessions.clear()
        node.responder = undefined
        return finish(AHEAD, {})
      }
      case 'restart': {
        const node = this.#network.node(action.node)
        if (!node.isUp) {
          this.#network.joinAgain(node.index, this.#order)
          this.#spaces.takeOver(node)
          this.#begin(node)
          for (const space of this.#joined.get(node.index) ?? []) this.#spaces.join(node, space, nowMs, 'again')
          const state = node.reachability
          if (state.mode === 'always_on') this.#mail.drain(node, nowMs)
        }
        return finish(AHEAD, {})
      }
      case 'partition':
        this.#network.link.partition(action.islands)
        return finish(AHEAD, {})
      case 'heal':
        this.#network.link.heal()
        return finish(AHEAD, {})
      case 'attack':
        return fail(AHEAD, 'SIM_ATTACK_UNSUPPORTED', 'attacks run in the real engine')
    }
  }

  #wake(node: ModelNode): void {
    if (!node.isUp) return
    node.reachability = { mode: 'always_on' }
    this.#woke(node, 'by order')
  }

  #join(index: number, space: string, finish: Finish, fail: Fail) {
    const node = this.#network.node(index)
    const { stored, tookMs } = this.#spaces.join(node, space, this.#queue.nowMs, 'first')
    if (stored === 0) return fail(tookMs, 'SIM_NOT_STORED', 'no registrar took the join')
    const spaces = this.#joined.get(index) ?? new Set()
    this.#joined.set(index, spaces)
    if (!spaces.has(space)) {
      spaces.add(space)
      this.#memberCounts.set(space, (this.#memberCounts.get(space) ?? 0) + 1)
      const { discovery } = this.#c.recorder.measured
      discovery.members = Math.max(discovery.members, this.#joined.size)
      const renew = () =>
        this.#queue.after(RENEW_MS, () => {
          if (!spaces.has(space)) return
          if (node.isUp) this.#spaces.join(node, space, this.#queue.nowMs, 'again')
          renew()
        })
      renew()
    }
    finish(tookMs, { latencyMs: tookMs })
  }

  #discover({ node: index, space, by }: Extract<SimAction, { do: 'discover' }>, finish: Finish, fail: Fail) {
    const { nowMs } = this.#queue
    const { members, hops, tookMs, expiresAtMs } = this.#spaces.search(this.#network.node(index), space, by, nowMs)
    if (members > 0) this.#tell({ fact: 'served', node: index, expiresAtMs, nowMs: EPOCH_MS + nowMs })
    const hasMembers = (this.#memberCounts.get(space) ?? 0) > 0
    if (hasMembers) this.#tell({ fact: 'searched', node: index, honestFound: members, hostileShare: this.#hostileShare })
    if (members === 0) return fail(tookMs, 'SIM_NOTHING_FOUND', 'the search found no member')
    finish(tookMs, { latencyMs: tookMs, hops, membersFound: members })
  }

  #openSession(from: number, to: number, finish: Finish, fail: Fail) {
    const a = this.#network.node(from)
    const b = this.#network.node(to)
    const locate = this.#network.lookUp(from, locatorPlace(b.eid))
    const way = this.#network.link.medianMs(from, to)
    if (!b.isUp || !this.#network.link.mayDial(from, to))
      return fail(locate.tookMs + GIVE_UP_MS, 'DIAL_FAILED', `node ${to} does not answer`)
    const facts = runSession(a, b, {
      seed: this.#seed,
      number: this.#sessions++,
      nowMs: Math.floor(this.#queue.nowMs),
      bug: this.#bug,
      onStep: (step) => {
        if (step === 'established') b.sessions.set(from, 'whole')
        else if (this.#bug === 'state-at-init') b.sessions.set(from, 'half')
        const held = b.sessions.get(from)
        if (held !== undefined) this.#tell({ fact: 'session-state', node: to, cookie: held === 'whole' ? 'valid' : 'none' })
      }
    })
    const tookMs = locate.tookMs + way * (2 + facts.handshakeWays + facts.itemWays)
    if (!facts.established) return fail(tookMs, 'HANDSHAKE_FAILED', facts.error ?? 'no session')
    this.#tell({
      fact: 'hashes',
      node: from,
      to,
      agree: hashesAgree(facts),
      detail: facts.error ?? `${facts.sent?.seq} sent, ${facts.received?.seq} received`
    })
    finish(tookMs, { latencyMs: tookMs, handshakeMs: way * facts.handshakeWays, roundTripMs: way * facts.itemWays })
  }

  #send({ node: from, to, bytes, id }: Extract<SimAction, { do: 'send' }>, finish: Finish, fail: Fail) {
    const sender = this.#network.node(from)
    const receiver = this.#network.node(to)
    let tookMs = 0
    if (!sender.located.has(to)) {
      tookMs += this.#network.lookUp(from, locatorPlace(receiver.eid)).tookMs
      sender.located.add(to)
    }
    tookMs += this.#network.link.delayMs(from, to, bytes)
    this.#queue.after(tookMs, () => {
      if (!receiver.isUp || !this.#network.link.mayDial(from, to))
        return fail(GIVE_UP_MS, 'AGENT_UNREACHABLE', `node ${to} does not answer`)
      const told = this.#mail.deposit(receiver, { id, from, bytes }, this.#queue.nowMs)
      if (receiver.blacklist.size > 0)
        for (const victim of receiver.blacklist) this.#tell({ fact: 'blacklisted', node: to, victim, victimIs: 'honest' })
      const backMs = this.#network.link.delayMs(to, from, 100)
      if (told === 'asleep' || told === 'full')
        return fail(backMs, told === 'full' ? 'QUEUE_FULL' : 'AGENT_ASLEEP', 'the message was not taken')
      finish(backMs, { latencyMs: tookMs + backMs })
    })
  }

  /** Everybody wakes and what waits is handed over; then the last facts. */
  async finish(): Promise<void> {
    for (const node of this.#network.nodes) {
      if (node.blacklist.size > 0)
        for (const victim of node.blacklist) this.#tell({ fact: 'blacklisted', node: node.index, victim, victimIs: 'honest' })
      this.#tell({ fact: 'waiting', node: node.index, ids: node.queue.map(({ id }) => id) })
    }
    this.#log('end')
  }

  async draw(label: string): Promise<void> {
    const hostile = (node: ModelNode) => node.planned.group.behaviour === 'hostile'
    const nodes = this.#network.nodes.map((node) => ({
      index: node.index,
      region: node.planned.region,
      state: hostile(node)
        ? ('hostile' as const)
        : !node.isUp
          ? ('down' as const)
          : node.reachability.mode === 'always_on'
            ? ('up' as const)
            : ('asleep' as const)
    }))
    const edges = this.#network.nodes.slice(0, 400).flatMap(({ index, table }) =>
      table
        .closest(this.#network.places.hi[index] as number, this.#network.places.lo[index] as number, 4)
        .filter((peer) => peer > index)
        .map((peer): [number, number] => [index, peer])
    )
    this.#c.recorder.drew({ atMs: Math.round(this.#queue.nowMs - this.#beganMs), label, nodes, edges })
  }

  sent(): Sent {
    return { messages: [...this.#network.sentMessages], bytes: [...this.#network.sentBytes], byProtocol: [] }
  }

  async stop(): Promise<void> {}
}

type Finish = (tookMs: number, outcome: Omit<Outcome, 'action'>) => void
type Fail = (tookMs: number, code: string, message: string) => void

function said(action: SimAction): string {
  switch (action.do) {
    case 'openSession':
    case 'send':
      return `${action.do} ${action.node} ${action.to}`
    case 'partition':
    case 'heal':
    case 'attack':
      return action.do
    default:
      return `${action.do} ${action.node}`
  }
}

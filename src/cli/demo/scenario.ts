import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { AgentView } from '../../api/methods.ts'
import { RookeryError } from '../../errors.ts'
import { asleepOf, DemoA2aClient } from './a2a-client.ts'
import { ProcessNode, tokenOf } from './process-node.ts'

export const DEMO_SPACE = 'org.agentnet/marketplace.energy@1'
const PARENT_TOPIC = 'org.agentnet/marketplace'
const DAY_MS = 86_400_000
const FILE_BYTES = 256 * 1_024
const TO_CAROL = 'tonight, please'

export interface DemoStep {
  name: string
  ms: number
  detail: string
}

/** What `rookery demo --json` prints; every value is read off the nodes. */
export interface DemoReport {
  transport: string
  found: number
  session: string
  handshakeMs: number
  asleep: { status: number; queued: boolean }
  deliveredAfterKill: boolean
  replayRefused: boolean
  steps: DemoStep[]
}

export interface DemoProgress {
  begin(name: string): void
  end(step: DemoStep): void
}

/** Refuses to go on when what a node answered is not what the step shows. */
function check(holds: boolean, expected: string, got: unknown): asserts holds {
  if (!holds) throw new RookeryError('DEMO_CHECK', `expected ${expected}, got ${JSON.stringify(got)?.slice(0, 600)}`, { kind: 'internal' })
}

/** The three nodes of the main job, and its steps in order. Each step names itself, is timed, and fails by itself. */
export class DemoScenario {
  readonly a: ProcessNode
  readonly b: ProcessNode
  readonly c: ProcessNode
  readonly #signal: AbortSignal
  readonly #progress: DemoProgress
  readonly #steps: DemoStep[] = []
  current = ''

  constructor(folder: string, signal: AbortSignal, progress: DemoProgress) {
    this.a = new ProcessNode('A', join(folder, 'a'))
    this.b = new ProcessNode('B', join(folder, 'b'))
    this.c = new ProcessNode('C', join(folder, 'c'))
    this.#signal = signal
    this.#progress = progress
  }

  get nodes(): ProcessNode[] {
    return [this.a, this.b, this.c]
  }

  get #options(): { signal: AbortSignal } {
    return { signal: this.#signal }
  }

  async #step<T>(name: string, work: () => Promise<{ value: T; detail: string }>): Promise<T> {
    this.#signal.throwIfAborted()
    this.current = name
    this.#progress.begin(name)
    const startedMs = performance.now()
    const { value, detail } = await work()
    const step = { name, ms: Math.round((performance.now() - startedMs) * 10) / 10, detail }
    this.#steps.push(step)
    this.#progress.end(step)
    return value
  }

  async run(): Promise<DemoReport> {
    await this.#step('start three nodes', () => this.#startNodes())
    const { alice, bob, carol } = await this.#step('add an agent to each', () => this.#addAgents())
    await this.#step('A announces the space', () => this.#announce())
    await this.#step('B and C join it', () => this.#join())
    const found = await this.#step('A finds both by topic and by parent topic', () => this.#find(bob, carol))
    await this.#step('A asks B and C to be let in, and their owners approve', () =>
      this.#letIn(alice, [
        [this.b, bob],
        [this.c, carol]
      ])
    )
    const session = await this.#step('A opens a session to B', () => this.#openSession(bob))
    const token = await tokenOf(alice)
    await this.#step('A sends B a text and a file', () => this.#sendFile(alice, bob, token))
    await this.#step('C goes to sleep', () => this.#sleep())
    const toCarol = await DemoA2aClient.connect(edgeUrl(alice, carol), token)
    const messageId = randomUUID()
    const asleep = await this.#step('A sends to C while it sleeps', () => this.#sendAsleep(toCarol, messageId))
    await this.#step("C's process is killed and started again", () => this.#killAndRestart())
    const deliveredAfterKill = await this.#step('C wakes: handled once', () => this.#wake(carol))
    const replayRefused = await this.#step('the identical object again is a replay', () => this.#replay(carol, messageId))
    return {
      transport: session.transport,
      found,
      session: session.state,
      handshakeMs: session.handshakeMs,
      asleep,
      deliveredAfterKill,
      replayRefused,
      steps: this.#steps
    }
  }

  async #startNodes(): Promise<{ value: undefined; detail: string }> {
    await this.a.configure([])
    const first = await this.a.start(this.#options)
    const bootstrap = first.addresses.filter((address) => address.includes('/quic')).map((address) => withPeer(address, first.node.peer))
    await Promise.all([this.b, this.c].map((node) => node.configure(bootstrap)))
    await Promise.all([this.b, this.c].map((node) => node.start(this.#options)))
    await this.#met()
    return { value: undefined, detail: `processes ${this.nodes.map((node) => node.pid).join(', ')}; each knows the other two` }
  }

  /** Waits until every node has the other two in its routing table. */
  async #met(): Promise<void> {
    const untilMs = performance.now() + 20_000
    for (;;) {
      const statuses = await Promise.all(this.nodes.map((node) => node.call('status', {}, this.#options)))
      if (statuses.every((status) => status.peers >= 2 && status.routingTableSize >= 2)) return
      check(
        performance.now() < untilMs,
        'three nodes that know each other within 20 s',
        statuses.map((status) => [status.peers, status.routingTableSize])
      )
      await pause(100, this.#signal)
    }
  }

  async #addAgents(): Promise<{ value: { alice: AgentView; bob: AgentView; carol: AgentView }; detail: string }> {
    const [alice, bob, carol] = await Promise.all([
      this.a.call('agent.add', { name: 'alice', description: 'buys power', handler: 'manual' }, this.#options),
      this.b.call('agent.add', { name: 'bob', description: 'hashes files', handler: 'digest' }, this.#options),
      this.c.call('agent.add', { name: 'carol', description: 'hashes files, when awake', handler: 'digest' }, this.#options)
    ])
    return { value: { alice, bob, carol }, detail: [alice, bob, carol].map((agent) => `${agent.name} ${short(agent.did)}`).join(', ') }
  }

  async #announce(): Promise<{ value: undefined; detail: string }> {
    const space = await this.a.call('space.announce', { name: DEMO_SPACE, description: 'who buys and sells power' }, this.#options)
    return { value: undefined, detail: `${space.name}, at ${space.stored} of ${space.registrars} registrars` }
  }

  async #join(): Promise<{ value: undefined; detail: string }> {
    const joins = await Promise.all([
      this.b.call('space.join', { name: DEMO_SPACE, tags: ['seller'] }, this.#options),
      this.c.call('space.join', { name: DEMO_SPACE, tags: ['seller', 'solar'] }, this.#options)
    ])
    return { value: undefined, detail: `announcement verified, curator ${short(joins[0].curator)}` }
  }

  async #find(bob: AgentView, carol: AgentView): Promise<{ value: number; detail: string }> {
    const expected = [bob.did, carol.did].sort()
    const details: string[] = []
    let found = 0
    for (const name of [DEMO_SPACE, PARENT_TOPIC]) {
      const result = await this.a.call('find', { name }, this.#options)
      const dids = result.members.map((member) => member.did).sort()
      check(JSON.stringify(dids) === JSON.stringify(expected), `bob and carol under ${name}`, result)
      found = dids.length
      details.push(`${name}: ${dids.length} in ${Math.round(result.elapsedMs)} ms`)
    }
    return { value: found, detail: details.join('; ') }
  }

  /** Being found gives no right: A asks, and the owner of each of the other two says yes, for a day. */
  async #letIn(alice: AgentView, others: readonly [ProcessNode, AgentView][]): Promise<{ value: undefined; detail: string }> {
    const details: string[] = []
    for (const [node, agent] of others) {
      const asked = await this.a.call('friends.request', { did: agent.did, note: 'power for tonight' }, this.#options)
      check(asked.state === 'pending', 'a request that waits for a person', asked)
      const { grant } = await node.call('friends.approve', { did: alice.did, ttlMs: DAY_MS }, this.#options)
      check(grant !== undefined, 'a grant for alice', grant)
      await this.#hasGrant(agent, grant.id)
      details.push(`${agent.name} approved: grant ${grant.id}`)
    }
    return { value: undefined, detail: details.join(', ') }
  }

  /** Waits until A was told. */
  async #hasGrant(of: AgentView, id: string): Promise<void> {
    const untilMs = performance.now() + 10_000
    for (;;) {
      const { friends } = await this.a.call('friends.list', {}, this.#options)
      if (friends.some((one) => one.did === of.did && one.grant?.id === id)) return
      check(performance.now() < untilMs, `the grant of ${of.name} told to A within 10 s`, friends)
      await pause(50, this.#signal)
    }
  }

  async #openSession(bob: AgentView): Promise<{ value: { transport: string; state: string; handshakeMs: number }; detail: string }> {
    const info = await this.a.call('session.open', { did: bob.did }, this.#options)
    check(info.state === 'established' && info.transport === 'quic', 'an established session over quic', info)
    const cookies = `cookies ${info.cookies.initiator.slice(0, 8)}… and ${info.cookies.responder.slice(0, 8)}…`
    return {
      value: info,
      detail: `over ${info.transport}, ${info.roundTrips} round trips in ${info.handshakeMs.toFixed(1)} ms, ${cookies}`
    }
  }

  async #sendFile(alice: AgentView, bob: AgentView, token: string): Promise<{ value: undefined; detail: string }> {
    const file = randomBytes(FILE_BYTES)
    const sha256 = createHash('sha256').update(file).digest('hex')
    const client = await DemoA2aClient.connect(edgeUrl(alice, bob), token)
    const outcome = await client.send(
      {
        messageId: randomUUID(),
        parts: [
          { text: 'what is the digest of this file?' },
          { raw: file.toString('base64'), filename: 'meter.bin', mediaType: 'application/octet-stream' }
        ]
      },
      this.#signal
    )
    check(outcome.kind === 'task', 'a task', outcome)
    const text = JSON.stringify(outcome.task.artifacts ?? [])
    check(
      (outcome.task.status as { state?: string }).state === 'TASK_STATE_COMPLETED' && text.includes(sha256),
      `a completed task with ${sha256}`,
      outcome.task
    )
    return { value: undefined, detail: `${FILE_BYTES / 1_024} KiB; the completed task holds its SHA-256 ${sha256.slice(0, 16)}…` }
  }

  async #sleep(): Promise<{ value: undefined; detail: string }> {
    const view = await this.c.call('sleep', {}, this.#options)
    check(view.mode === 'sleep', 'mode sleep', view)
    return { value: undefined, detail: `${view.name}: mode ${view.mode}` }
  }

  async #sendAsleep(client: DemoA2aClient, messageId: string): Promise<{ value: { status: number; queued: boolean }; detail: string }> {
    const outcome = await client.send({ messageId, parts: [{ text: TO_CAROL }] }, this.#signal)
    check(outcome.kind === 'refused', 'a refusal', outcome)
    const { asleep, queued } = asleepOf(outcome.body)
    check(asleep && queued && outcome.httpStatus === 503, 'HTTP 503 agent_asleep with queued: true', outcome)
    return { value: { status: outcome.httpStatus, queued }, detail: `HTTP ${outcome.httpStatus} agent_asleep, queued: ${queued}` }
  }

  async #killAndRestart(): Promise<{ value: undefined; detail: string }> {
    const before = this.c.pid
    await this.c.kill()
    await this.c.start(this.#options)
    await this.#met()
    const queue = await this.c.call('queue.list', {}, this.#options)
    check(queue.length === 1, 'one queued object after the kill', queue)
    return { value: undefined, detail: `SIGKILL to ${before}, now ${this.c.pid}; ${queue.length} object still queued` }
  }

  async #wake(carol: AgentView): Promise<{ value: boolean; detail: string }> {
    const { drain } = await this.c.call('wake', {}, this.#options)
    check(drain.accepted === 1 && drain.discarded === 0, 'one object handed over', drain)
    const handled = await this.#settledTasks()
    check(handled === 1, `one finished task at ${carol.name}`, handled)
    return { value: true, detail: 'signature, purpose, end date and replay cache checked again; 1 task done' }
  }

  /** The edge would answer the same messageId with the finished task, so the kept object itself goes straight to the mailbox again. */
  async #replay(carol: AgentView, messageId: string): Promise<{ value: boolean; detail: string }> {
    await this.c.call('sleep', {}, this.#options)
    const again = await this.a.call('send', { to: carol.did, text: TO_CAROL, messageId, via: 'mailbox' }, this.#options)
    check(again.outcome === 'queued', 'the object taken by the mailbox', again)
    const { drain } = await this.c.call('wake', {}, this.#options)
    check(drain.accepted === 0 && drain.events.some((event) => event.outcome === 'replayed'), 'the object refused as a replay', drain)
    const handled = await this.#settledTasks()
    check(handled === 1, `still one task at ${carol.name}`, handled)
    return { value: true, detail: 'same bytes, refused; still 1 task' }
  }

  /** How many tasks carol has, once none is unfinished. */
  async #settledTasks(): Promise<number> {
    const untilMs = performance.now() + 10_000
    for (;;) {
      const entries = await this.c.call('inbox.list', {}, this.#options)
      if (entries.every((entry) => entry.state === 'done')) return entries.length
      check(performance.now() < untilMs, 'tasks that end within 10 s', entries)
      await pause(50, this.#signal)
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()))
  }
}

/** A remote agent under our own node's edge. */
function edgeUrl(local: AgentView, remote: AgentView): string {
  check(local.url !== undefined, 'an A2A endpoint', local)
  return `${new URL(local.url).origin}/agents/${remote.did}`
}

function withPeer(address: string, peer: string): string {
  return address.includes('/p2p/') ? address : `${address}/p2p/${peer}`
}

function short(did: string): string {
  return `${did.slice(0, 18)}…`
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms)
    function done() {
      signal.removeEventListener('abort', aborted)
      resolve()
    }
    function aborted() {
      clearTimeout(timer)
      reject(signal.reason)
    }
    signal.addEventListener('abort', aborted, { once: true })
  })
}

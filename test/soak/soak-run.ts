import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { initDataDir } from '../../src/identity/init.ts'
import { createNode } from '../../src/node.ts'
import type { Health } from '../../src/ops/health.ts'
import { randomFraction, seededRandom, systemRandom } from '../../src/platform/random.ts'
import { freePort } from '../support/free-port.ts'
import { SoakAccounts } from './soak-accounts.ts'
import { repeat, SoakClient } from './soak-clients.ts'
import { lineOf, ruleFor, type SoakLine, shownLine } from './soak-logs.ts'
import { CALLER, SLEEPING_AGENT, SOAK_NODES, type SoakName, type SoakOrder, type SoakReport, WORKER } from './soak-orders.ts'
import { type ProcessMore, SoakProcess, type WithoutId, within } from './soak-process.ts'
import { type SoakSample, type Trend, trendsOf } from './soak-verdict.ts'

const MIN = 60_000
/** After a node came back the others may still speak of it. */
const CHURN_ECHO_MS = MIN
/** All that was accepted has arrived so long after the load ended. */
const QUIET_MS = 4 * MIN
const STOP_MS = 60_000
const HEALTH_MS = 5_000
const LINES_KEPT_MAX = 200
/** Whatever a fault leads to, and its mending, is seen within this. */
const FAULT_PATIENCE_MS = 3 * MIN

export interface SoakOptions {
  lengthMs: number
  seed: number
  signal?: AbortSignal
  onProgress?: (progress: SoakProgress) => void
  keep?: boolean
  /** in place of hours, churn and the verdict on curves */
  faults?: FaultPlan
}

/** Faults that are brought upon the nodes while there is load. */
export interface FaultPlan {
  more?: Partial<Record<SoakName, ProcessMore>>
  /** @throws Error that tells which promise was not kept */
  run(hands: SoakHands): Promise<void>
}

export interface SoakHands {
  pid(name: SoakName): number
  /** what it said at warn and above since it was asked last */
  lines(name: SoakName): string[]
  health(name: SoakName): Promise<Health>
  /** opens a connection of its own, and lets go of it */
  knock(name: SoakName): Promise<void>
  tell(name: SoakName, order: SoakOrder): void
  ask(name: SoakName, order: WithoutId<SoakOrder>): Promise<SoakReport | undefined>
  /** resolves when the process has ended */
  ended(name: SoakName): Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** starts it anew */
  begin(name: SoakName): Promise<void>
  /** told while its clients and audits are to leave it alone */
  away(name: SoakName | undefined): void
  /** Whatever goes to the node and from it arrives, from now on. @throws Error where it does not in time */
  works(name: SoakName): Promise<void>
  until(what: string, holds: () => Promise<boolean>): Promise<void>
  /** message ids that were accepted and whose task has not ended */
  mailWaiting(): string[]
  audit(): Promise<void>
}

export interface SoakProgress {
  elapsedMs: number
  text: string
}

export interface SoakResult {
  seed: number
  lengthMs: number
  /** how long there was load: shorter where it was interrupted */
  ranMs: number
  interrupted: boolean
  verdict: 'flat' | 'violations' | 'interrupted'
  violations: string[]
  figures: { items: number; mail: number; tasks: number; tasksChecked: number; hours: number; restarts: number; kills: number }
  /** acts that succeeded, and that failed, by what and code */
  acts: Record<string, number>
  failures: Record<string, number>
  trends: Trend[]
  /** lines at warn and above, by the rule that explains them */
  lines: Record<string, number>
  samples: SoakSample[]
  /** data folders, where they were kept */
  directory: string | undefined
}

/** How often things are done, by the length of the soak: an hour of it has twelve "hours", and so have three minutes. */
function scheduleOf(lengthMs: number) {
  const between = (least: number, value: number, most: number) => Math.min(most, Math.max(least, value))
  return {
    sampleMs: between(2_000, lengthMs / 240, 15_000),
    auditMs: between(8_000, lengthMs / 60, 30_000),
    hourMs: between(15_000, lengthMs / 12, 60 * MIN),
    churnMs: between(40_000, lengthMs / 12, 30 * MIN),
    retentionMs: between(MIN, lengthMs / 6, 60 * MIN),
    taskMs: 1_000,
    pace: { itemMs: 400, stateMs: 700, findMs: between(3_000, lengthMs / 300, 15_000), mailMs: between(1_500, lengthMs / 300, 20_000) }
  }
}

export async function runSoak(options: SoakOptions): Promise<SoakResult> {
  const soak = new Soak(options)
  try {
    return await soak.run()
  } finally {
    soak.end()
  }
}

class Soak {
  readonly #options: SoakOptions
  readonly #schedule: ReturnType<typeof scheduleOf>
  readonly #directory = mkdtempSync(join(tmpdir(), 'rookery-soak-'))
  readonly #nodes = new Map<SoakName, SoakProcess>()
  readonly #clients = new Map<SoakName, SoakClient>()
  readonly #opsUrls = new Map<SoakName, string>()
  readonly #newLines = new Map<SoakName, string[]>()
  /** acknowledged items from a node, and to it */
  readonly #moved = new Map<string, number>()
  readonly #configs = new Map<SoakName, ConfigInput>()
  /** DIDs by node and agent */
  readonly #dids = new Map<SoakName, Record<string, string>>()
  readonly #accounts: SoakAccounts
  readonly #samples: SoakSample[] = []
  readonly #acts: Record<string, number> = {}
  readonly #failures: Record<string, number> = {}
  readonly #lines: Record<string, number> = {}
  readonly #unexplained: SoakLine[] = []
  readonly #figures = { hours: 0, restarts: 0, kills: 0 }
  readonly #random: () => number
  /** no further load */
  readonly #over = new AbortController()
  #startedMs = 0
  #life = 0
  #away: SoakName | undefined
  /** the start is the first of it */
  #churnUntilMs = Number.POSITIVE_INFINITY

  constructor(options: SoakOptions) {
    this.#options = options
    const schedule = scheduleOf(options.lengthMs)
    this.#schedule =
      options.faults === undefined ? schedule : { ...schedule, taskMs: 2_000, pace: { ...schedule.pace, itemMs: 1_000, stateMs: 2_000 } }
    this.#accounts = new SoakAccounts({ taskKeptMs: this.#schedule.retentionMs / 2 })
    const source = seededRandom(options.seed)
    this.#random = () => randomFraction(source)
  }

  async run(): Promise<SoakResult> {
    const { lengthMs, signal } = this.#options
    const interrupted = () => this.#over.abort()
    signal?.addEventListener('abort', interrupted, { once: true })
    let ranMs = 0
    try {
      this.#say('three nodes start')
      await this.#prepare()
      if (signal?.aborted !== true) {
        this.#startedMs = performance.now()
        this.#churnUntilMs = this.#startedMs + CHURN_ECHO_MS
        this.#load('on')
        await (this.#options.faults === undefined ? this.#go(lengthMs) : this.#faulted(this.#options.faults))
        ranMs = this.#elapsed()
      }
      await this.#finish()
    } catch (error) {
      if (signal?.aborted !== true) this.#accounts.violations.push(error instanceof Error ? error.message : String(error))
    } finally {
      signal?.removeEventListener('abort', interrupted)
    }
    return this.#result(ranMs)
  }

  end(): void {
    for (const node of this.#nodes.values()) node.signal('SIGKILL')
  }

  // ── start ──

  async #prepare(): Promise<void> {
    const addresses = new Map<SoakName, string>()
    for (const name of SOAK_NODES) {
      const dataDir = this.#path(name)
      mkdirSync(dataDir, { recursive: true })
      const { peer } = initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
      const node = await createNode(
        { dataDir, listen: ['/ip4/127.0.0.1/udp/0/quic-v1'], http: { enabled: false } },
        { locators: 'on-demand' }
      )
      const dids: Record<string, string> = { [CALLER]: (await node.addAgent({ name: CALLER })).did }
      dids[WORKER] = (await node.addAgent({ name: WORKER, handler: 'echo' })).did
      if (name === 'sleeper') {
        const dozer = await node.addAgent({ name: SLEEPING_AGENT, handler: 'echo' })
        dids[SLEEPING_AGENT] = dozer.did
        await node.sleep(dozer)
      }
      await node.stop()
      this.#dids.set(name, dids)
      addresses.set(name, `/ip4/127.0.0.1/udp/${await freePort('udp')}/quic-v1/p2p/${peer}`)
    }
    const retention = `${Math.round(this.#schedule.retentionMs / 1_000)}s`
    const sleepers = Object.values(this.#dids.get('sleeper') ?? {})
    for (const name of SOAK_NODES) {
      this.#configs.set(name, {
        listen: [(addresses.get(name) as string).replace(/\/p2p\/.*/, '')],
        bootstrap: SOAK_NODES.filter((one) => one !== name).map((one) => addresses.get(one) as string),
        http: { port: await freePort('tcp') },
        ops: { port: 0 },
        grants: { peers: 'anyone', sendBurst: 10_000, sendPerMin: 60_000 },
        queue: { messagesPerPeerMax: 500 },
        // a clock that steps makes everything old: what is looked up again must still be there
        ...(this.#options.faults === undefined ? { retention: { tasks: retention, outbox: retention } } : {}),
        logs: { level: 'warn' },
        ...(name === 'rock' ? { keeper: { for: sleepers, messagesPerPeerMax: 500 } } : {}),
        ...(name === 'sleeper' ? { keepers: [this.#did('rock', CALLER)] } : {})
      })
    }
    for (const name of SOAK_NODES) this.#begin(name)
    await Promise.all(SOAK_NODES.map((name) => this.#isUp(name)))
    for (const name of SOAK_NODES)
      await until(3 * MIN, `${name} in the space`, async () => (await this.#node(name).ask({ kind: 'space' })) !== undefined)
    await this.#allFound(3 * MIN)
  }

  #begin(name: SoakName): void {
    const heard = (report: SoakReport) => this.#heard(name, report)
    const said = (text: string) => this.#said(lineOf(name, this.#elapsed(), text))
    const workers = SOAK_NODES.filter((one) => one !== name).map((one) => ({ name: one, did: this.#did(one, WORKER) }))
    const order = {
      name,
      directory: this.#path(name),
      config: this.#configs.get(name) ?? {},
      workers,
      dozer: this.#did('sleeper', SLEEPING_AGENT),
      pace: this.#schedule.pace,
      life: this.#life++
    }
    this.#nodes.set(name, new SoakProcess(order, heard, said, this.#options.faults?.more?.[name]))
  }

  async #isUp(name: SoakName): Promise<void> {
    const { httpUrl, opsUrl, token } = await this.#node(name).isUp()
    this.#opsUrls.set(name, opsUrl)
    this.#clients.set(name, new SoakClient({ url: httpUrl, token }))
  }

  // ── the load ──

  #load(state: 'on' | 'off'): void {
    for (const node of this.#nodes.values()) node.tell({ kind: 'load', state })
  }

  async #go(lengthMs: number): Promise<void> {
    const { signal } = this.#over
    const { sampleMs, auditMs, hourMs, churnMs, taskMs } = this.#schedule
    const end = setTimeout(() => this.#over.abort(), lengthMs)
    const loops = [
      repeat(
        () => sampleMs,
        signal,
        () => this.#guarded(() => this.#sample())
      ),
      repeat(
        () => auditMs,
        signal,
        () => this.#guarded(() => this.#audit())
      ),
      repeat(
        () => hourMs,
        signal,
        () => this.#guarded(() => this.#hour('asleep'))
      ),
      repeat(
        () => churnMs,
        signal,
        () => this.#guarded(() => this.#churn(lengthMs))
      ),
      ...SOAK_NODES.map((name) =>
        repeat(
          () => taskMs * (0.5 + this.#random()),
          signal,
          () => this.#task(name)
        )
      )
    ]
    try {
      await Promise.all(loops)
    } finally {
      clearTimeout(end)
    }
  }

  /** Load, tasks and audits go on while the plan is carried out. */
  async #faulted(plan: FaultPlan): Promise<void> {
    const { signal } = this.#over
    const { auditMs, taskMs } = this.#schedule
    const loops = [
      repeat(
        () => auditMs,
        signal,
        () => this.#guarded(() => this.#audit())
      ),
      ...SOAK_NODES.map((name) =>
        repeat(
          () => taskMs * (0.5 + this.#random()),
          signal,
          () => this.#task(name)
        )
      )
    ]
    try {
      await plan.run(this.#hands())
    } catch (error) {
      this.#accounts.violations.push(error instanceof Error ? error.message : String(error))
    } finally {
      this.#away = undefined
      this.#over.abort()
      await Promise.all(loops)
    }
  }

  #hands(): SoakHands {
    const count = (way: string) => this.#moved.get(way) ?? 0
    return {
      pid: (name) => this.#node(name).pid,
      lines: (name) => {
        const lines = this.#newLines.get(name) ?? []
        this.#newLines.delete(name)
        return lines
      },
      health: async (name) => {
        const answer = await fetch(`${this.#opsUrls.get(name)}/readyz`, { signal: AbortSignal.timeout(HEALTH_MS) })
        const { status, checks } = (await answer.json()) as { status: string; checks: Health['checks'] }
        return { live: true, ready: status === 'ok', checks }
      },
      knock: async (name) => {
        const socket = connect(Number(new URL(this.#opsUrls.get(name) as string).port), '127.0.0.1')
        socket.on('error', () => {})
        await Promise.race([once(socket, 'close').catch(() => {}), sleep(300)])
        socket.destroy()
      },
      tell: (name, order) => this.#node(name).tell(order),
      ask: (name, order) => this.#node(name).ask(order),
      ended: (name) => this.#node(name).ended,
      begin: async (name) => {
        this.#begin(name)
        await this.#isUp(name)
        this.#node(name).tell({ kind: 'load', state: 'on' })
      },
      away: (name) => {
        this.#away = name
      },
      works: async (name) => {
        const before = { from: count(`from ${name}`), to: count(`to ${name}`) }
        await until(
          FAULT_PATIENCE_MS,
          `item from and to ${name}`,
          async () => count(`from ${name}`) > before.from + 1 && count(`to ${name}`) > before.to + 1
        )
        await until(FAULT_PATIENCE_MS, `task at ${name}`, async () => {
          const id = await (this.#clients.get(name) as SoakClient).task(this.#did(name, WORKER))
          this.#accounts.taskAccepted(name, id, performance.now())
          return true
        })
      },
      until: (what, holds) => until(FAULT_PATIENCE_MS, what, holds),
      mailWaiting: () => this.#accounts.mailWaiting(),
      audit: () => this.#audit()
    }
  }

  /** What fails because a node is away is no finding; else it is one. */
  async #guarded(act: () => Promise<void>): Promise<void> {
    const before = this.#figures.kills + this.#figures.restarts
    try {
      await act()
    } catch (error) {
      if (this.#away !== undefined || before !== this.#figures.kills + this.#figures.restarts) return
      this.#accounts.violations.push(error instanceof Error ? error.message : String(error))
    }
  }

  /** By the node's own edge: its own worker, or one of another node by a session. */
  async #task(name: SoakName): Promise<void> {
    if (this.#away === name) return
    const on = this.#random() < 0.5 ? name : (SOAK_NODES[Math.floor(this.#random() * SOAK_NODES.length)] as SoakName)
    if (this.#away === on) return
    const what = on === name ? 'task' : 'task of another node'
    try {
      const id = await (this.#clients.get(name) as SoakClient).task(this.#did(on, WORKER))
      this.#accounts.taskAccepted(on, id, performance.now())
      this.#succeeded(what)
    } catch (error) {
      this.#failed(what, error instanceof Error ? error.message.slice(0, 80) : String(error))
    }
  }

  async #sample(): Promise<void> {
    await Promise.all(SOAK_NODES.map((name) => this.#sampleOf(name)))
    this.#say(this.#state())
  }

  async #sampleOf(name: SoakName): Promise<void> {
    const node = this.#node(name)
    if (this.#away === name || node.isOver) return
    const sample = await node.sample()
    if (sample === undefined || node.isOver) return
    this.#samples.push({
      node: name,
      atMs: this.#elapsed(),
      ageMs: performance.now() - node.startedMs,
      ...sample,
      handles: handlesOf(node.pid),
      diskBytes: bytesBelow(this.#path(name))
    })
  }

  async #audit(): Promise<void> {
    for (const [name, node] of this.#nodes) {
      if (this.#away === name || node.isOver) continue
      const due = this.#accounts.ackedOf(name)
      const asked = this.#accounts.tasksOn(name, performance.now())
      const audit = await node.audit(asked)
      if (audit === undefined) continue
      const items = this.#accounts.audited(name, audit, { due, asked })
      if ((await node.ask({ kind: 'forget', items })) !== undefined) this.#accounts.forgot(items)
    }
  }

  async #hour(after: 'asleep' | 'awake'): Promise<void> {
    this.#figures.hours++
    for (const [name, node] of this.#nodes) if (this.#away !== name && !node.isOver) await node.ask({ kind: 'hour', after })
  }

  /** None begins in the last quarter, so that what is judged has room. */
  async #churn(lengthMs: number): Promise<void> {
    if (this.#elapsed() > lengthMs * 0.75) return
    const count = this.#figures.kills + this.#figures.restarts
    const name: SoakName = count % 2 === 0 ? 'leaver' : 'sleeper'
    const isKill = count % 4 >= 2
    const node = this.#node(name)
    this.#churnUntilMs = Number.POSITIVE_INFINITY
    this.#away = name
    if (isKill) this.#figures.kills++
    else this.#figures.restarts++
    await this.#stop(name, node, isKill ? 'SIGKILL' : 'SIGTERM')
    await sleep(1_000 + this.#random() * 6_000, undefined, { signal: this.#over.signal }).catch(() => {})
    this.#begin(name)
    await this.#isUp(name)
    this.#node(name).tell({ kind: 'load', state: 'on' })
    this.#away = undefined
    this.#churnUntilMs = performance.now() + CHURN_ECHO_MS
  }

  async #stop(name: SoakName, node: SoakProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    node.signal(signal)
    const end = await within(node.ended, STOP_MS, `end of ${name}`)
    if (signal === 'SIGTERM' && end.code !== 0)
      this.#accounts.violations.push(`${name} was told to stop and ended with ${end.signal ?? end.code}`)
  }

  // ── the end ──

  /** No load any more: everything that was accepted arrives, the nodes stop as they should. */
  async #finish(): Promise<void> {
    const patience = this.#options.signal?.aborted === true ? MIN : QUIET_MS
    this.#load('off')
    this.#say('waiting until all has arrived')
    for (const name of SOAK_NODES) if (this.#node(name).isOver) this.#begin(name)
    await Promise.all(SOAK_NODES.map((name) => this.#isUp(name)))
    await until(patience, 'acknowledgement of all items', async () => {
      for (const name of SOAK_NODES) if ((await this.#node(name).audit([]))?.underWay !== 0) return false
      return true
    }).catch((error: Error) => this.#accounts.violations.push(error.message))
    await until(patience, 'end of all mail', async () => {
      await this.#hour('awake')
      await this.#audit()
      return this.#accounts.mailWaiting().length === 0
    }).catch(() => {
      const waiting = this.#accounts.mailWaiting()
      this.#accounts.violations.push(`${waiting.length} messages were accepted and not handled: ${waiting.slice(0, 5).join(', ')}`)
    })
    await until(patience, 'agreement of all states', () => this.#statesAgree()).catch((error: Error) =>
      this.#accounts.violations.push(error.message)
    )
    await this.#allFound(patience).catch((error: Error) => this.#accounts.violations.push(error.message))
    await this.#audit()
    const left = this.#accounts.itemsWaiting()
    if (left > 0) this.#accounts.violations.push(`${left} items were acknowledged and are nowhere`)
    this.#churnUntilMs = Number.POSITIVE_INFINITY
    for (const name of SOAK_NODES) await this.#stop(name, this.#node(name), 'SIGTERM')
  }

  /** What each side of a session wrote is what the other's mirror has. */
  async #statesAgree(): Promise<boolean> {
    const sides = new Map<string, { own: number | undefined; peer: number | undefined }[]>()
    for (const name of SOAK_NODES) {
      const audit = await this.#node(name).audit([])
      for (const { session, own, peer } of audit?.states ?? []) sides.set(session, [...(sides.get(session) ?? []), { own, peer }])
    }
    const pairs = [...sides.values()].filter((pair) => pair.length === 2)
    return pairs.length > 0 && pairs.every(([a, b]) => a?.own === b?.peer && b?.own === a?.peer)
  }

  async #allFound(patienceMs: number): Promise<void> {
    for (const name of SOAK_NODES) {
      await until(patienceMs, `search of ${name} that finds all`, async () => {
        const report = await this.#node(name).ask({ kind: 'members' })
        return report?.kind === 'members' && report.count === SOAK_NODES.length
      })
    }
  }

  #result(ranMs: number): SoakResult {
    const { lengthMs, seed, signal, keep } = this.#options
    const interrupted = signal?.aborted === true
    const isSoak = this.#options.faults === undefined
    const trends = interrupted || !isSoak ? [] : trendsOf(this.#samples, lengthMs)
    const violations = [...this.#accounts.violations]
    for (const { node, metric, rise, allowed, flat } of trends)
      if (!flat) violations.push(`${node}: ${metric} rose by ${Math.round(rise)} over the second half, ${Math.round(allowed)} are allowed`)
    if (!interrupted && isSoak && !trends.some(({ node }) => node === 'rock')) violations.push('too few samples for a verdict')
    for (const line of this.#unexplained.slice(0, 20)) violations.push(shownLine(line))
    if (this.#unexplained.length > 20) violations.push(`… and ${this.#unexplained.length - 20} lines more that the churn does not explain`)
    if (!interrupted && isSoak)
      for (const what of ['item', 'state', 'find', 'mail', 'task', 'task of another node'])
        if ((this.#acts[what] ?? 0) === 0) violations.push(`not one ${what} succeeded`)
    const isKept = keep === true || violations.length > 0
    if (!isKept) rmSync(this.#directory, { recursive: true, force: true })
    return {
      seed,
      lengthMs,
      ranMs,
      interrupted,
      verdict: violations.length > 0 ? 'violations' : interrupted ? 'interrupted' : 'flat',
      violations,
      figures: { ...this.#accounts.figures, ...this.#figures },
      acts: this.#acts,
      failures: this.#failures,
      trends,
      lines: this.#lines,
      samples: this.#samples,
      directory: isKept ? this.#directory : undefined
    }
  }

  // ── what the nodes tell ──

  #heard(from: SoakName, report: SoakReport): void {
    switch (report.kind) {
      case 'acked':
        this.#accounts.ackedItem(report.to, report.item)
        for (const way of [`from ${from}`, `to ${report.to}`]) this.#moved.set(way, (this.#moved.get(way) ?? 0) + 1)
        return
      case 'mailed':
        this.#accounts.mailed(report.messageId)
        return
      case 'did':
        this.#succeeded(report.what)
        return
      case 'failed':
        if (report.code.startsWith('APPLIED_TWICE')) this.#accounts.violations.push(report.code)
        this.#failed(report.what, report.code)
        return
      case 'warning':
        this.#accounts.violations.push(`a warning of Node: ${report.name}: ${report.message}`)
    }
  }

  #said(line: SoakLine): void {
    this.#newLines.set(line.node as SoakName, [...(this.#newLines.get(line.node as SoakName) ?? []), line.text].slice(-LINES_KEPT_MAX))
    if (this.#options.faults !== undefined) return
    const rule = ruleFor(line, performance.now() < this.#churnUntilMs)
    if (rule === undefined) {
      if (this.#unexplained.length < LINES_KEPT_MAX) this.#unexplained.push(line)
    } else this.#lines[rule.name] = (this.#lines[rule.name] ?? 0) + 1
  }

  #succeeded(what: string): void {
    this.#acts[what] = (this.#acts[what] ?? 0) + 1
  }

  #failed(what: string, code: string): void {
    const name = `${what}: ${code}`
    this.#failures[name] = (this.#failures[name] ?? 0) + 1
  }

  #say(text: string): void {
    this.#options.onProgress?.({ elapsedMs: this.#startedMs === 0 ? 0 : this.#elapsed(), text })
  }

  #state(): string {
    const { items, mail, tasks } = this.#accounts.figures
    const { hours, restarts, kills } = this.#figures
    const rock = this.#samples.findLast(({ node }) => node === 'rock')
    const memory = rock === undefined ? '' : `, rock ${Math.round(rock.heapBytes / 1_048_576)} MiB heap, ${rock.handles} handles`
    const wrong = this.#accounts.violations.length + this.#unexplained.length
    return `${items} items, ${tasks} tasks, ${mail} mails, ${hours} wakes, ${restarts + kills} restarts${memory}${wrong === 0 ? '' : `, ${wrong} findings`}`
  }

  #elapsed(): number {
    return performance.now() - this.#startedMs
  }

  #node(name: SoakName): SoakProcess {
    const node = this.#nodes.get(name)
    if (node === undefined) throw new Error(`${name} was never started`)
    return node
  }

  #did(name: SoakName, agent: string): string {
    return this.#dids.get(name)?.[agent] as string
  }

  #path(name: SoakName): string {
    return join(this.#directory, name)
  }
}

async function until(patienceMs: number, what: string, holds: () => Promise<boolean>): Promise<void> {
  const untilMs = performance.now() + patienceMs
  let last: unknown
  for (;;) {
    try {
      if (await holds()) return
    } catch (error) {
      last = error
    }
    if (performance.now() > untilMs)
      throw new Error(
        `no ${what} within ${patienceMs} ms${last === undefined ? '' : ` (${last instanceof Error ? last.message : String(last)})`}`
      )
    await sleep(500)
  }
}

/** Open file descriptors, where the system tells; else 0, which is flat. */
function handlesOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    return 0
  }
}

function bytesBelow(directory: string): number {
  let bytes = 0
  for (const entry of readdirSync(directory, { withFileTypes: true, recursive: true })) {
    try {
      if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name)).size
    } catch {
      // compacted away meanwhile
    }
  }
  return bytes
}

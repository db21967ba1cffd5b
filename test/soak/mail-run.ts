import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { initDataDir } from '../../src/identity/init.ts'
import { createNode } from '../../src/node.ts'
import { randomFraction, seededRandom, systemRandom } from '../../src/platform/random.ts'
import type { Fault } from '../support/faulty-level.ts'
import { freePort } from '../support/free-port.ts'
import { MailJudge } from './mail-judge.ts'
import { type MailNodeOrder, type MailReport, messageIdOf, ROLES, type Role } from './mail-orders.ts'
import { MailProcess } from './mail-process.ts'

/** What a cycle does; cycle seeds take turns through them. */
export const MAIL_CYCLE_KINDS = [
  'the sender dies as it posts',
  'the sleeper is off, then back',
  'the keeper dies as it takes mail',
  'the sleeper dies as it takes its mail',
  'all die in their writes',
  'a sleeper’s clock jumps',
  'a sender’s clock jumps',
  'the keeper’s disk fills',
  'the sleeper’s disk fills',
  'the sender’s disk fills'
] as const
export type MailCycleKind = (typeof MAIL_CYCLE_KINDS)[number]

/** All that was accepted is handled within this of the mending. */
const QUIET_MS = 120_000
const POLL_MS = 100
const FAULT_MS = 1_500
/** Attempts that nothing hinders are over by then. */
const TRY_MS = 2_500
const POST_MS = 20_000

export interface MailCycle {
  cycle: number
  seed: number
  kind: MailCycleKind
  ms: number
  /** from the mending to the last message handled */
  recoveryMs: number
  accepted: number
  violations: string[]
}

export interface MailResult {
  seed: number
  cycles: MailCycle[]
  kills: number
  accepted: number
  /** posts that were answered with an error: nothing was promised */
  failed: number
  /** messages of which the sender was told that a keeper holds them */
  kept: number
  handled: number
  directory: string | undefined
}

export interface MailOptions {
  cycles: number
  seed: number
  /** no further cycle begins after so long */
  budgetMs?: number
  signal?: AbortSignal
  onCycle?: (result: MailCycle) => void
  keep?: boolean
}

/** Runs a sender, a keeper and a sleeper through crashes, lost clocks and full disks, and judges them after each. Ends at the first cycle with a violation. */
export async function runMailCrash({
  cycles,
  seed,
  budgetMs = Number.POSITIVE_INFINITY,
  signal,
  onCycle,
  keep
}: MailOptions): Promise<MailResult> {
  const directory = mkdtempSync(join(tmpdir(), 'rookery-mail-'))
  const trio = new MailTrio(directory)
  const results: MailCycle[] = []
  const stop = () => void trio.stop()
  signal?.addEventListener('abort', stop, { once: true })
  const isAborted = () => signal?.aborted === true
  try {
    await trio.start()
    const untilMs = performance.now() + budgetMs
    for (let cycle = 0; cycle < cycles && !isAborted() && performance.now() < untilMs; cycle++) {
      const result = await trio.cycle(cycle, (seed + cycle) >>> 0)
      if (isAborted()) break
      results.push(result)
      onCycle?.(result)
      if (result.violations.length > 0) break
    }
  } catch (error) {
    if (!isAborted()) throw error
  } finally {
    signal?.removeEventListener('abort', stop)
    await trio.stop()
  }
  const failed = results.some(({ violations }) => violations.length > 0)
  if (!failed && keep !== true) rmSync(directory, { recursive: true, force: true })
  return { seed, cycles: results, ...trio.figures(), directory: failed || keep === true ? directory : undefined }
}

type Chance = { below(n: number): number; one<T>(of: readonly T[]): T }

class MailTrio {
  readonly #directory: string
  readonly #nodes: Partial<Record<Role, MailProcess>> = {}
  readonly #configs: Partial<Record<Role, ConfigInput>> = {}
  readonly #judge = new MailJudge()
  #to = ''
  #next = 1
  #kills = 0

  constructor(directory: string) {
    this.#directory = directory
  }

  figures() {
    return { kills: this.#kills, ...this.#judge.figures() }
  }

  async start(): Promise<void> {
    const dids: Partial<Record<Role, string>> = {}
    const peers: Partial<Record<Role, string>> = {}
    for (const role of ROLES) {
      const dataDir = this.#path(role)
      const { peer } = initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
      const node = await createNode({ dataDir, listen: ['/ip4/127.0.0.1/tcp/0'], http: { enabled: false } }, { locators: 'on-demand' })
      dids[role] = (await node.addAgent({ name: role, handler: 'echo' })).did
      await node.stop()
      const address = `/ip4/127.0.0.1/tcp/${await freePort('tcp')}`
      peers[role] = `${address}/p2p/${peer}`
      this.#configs[role] = { listen: [address], http: { enabled: false }, grants: { peers: 'anyone' } }
    }
    this.#to = dids.sleeper as string
    for (const role of ROLES) {
      const bootstrap = ROLES.filter((one) => one !== role).map((one) => peers[one] as string)
      const mail: ConfigInput =
        role === 'keeper'
          ? { keeper: { for: [this.#to], messagesPerPeerMax: 500 } }
          : role === 'sleeper'
            ? { keepers: [dids.keeper as string] }
            : {}
      this.#configs[role] = { ...this.#configs[role], bootstrap, ...mail }
    }
    for (const role of ROLES) this.#begin(role)
    await Promise.all(ROLES.map((role) => this.#node(role).isUp()))
    await this.#post(1)
    const violations = await this.#quiet()
    if (violations.length > 0) throw new Error(`mail does not flow before anything went wrong: ${violations.join('; ')}`)
  }

  async stop(): Promise<void> {
    await Promise.all(ROLES.map((role) => this.#nodes[role]?.kill()))
  }

  async cycle(cycle: number, seed: number): Promise<MailCycle> {
    const kind = MAIL_CYCLE_KINDS[seed % MAIL_CYCLE_KINDS.length] as MailCycleKind
    const source = seededRandom(seed)
    const below = (n: number) => Math.floor(randomFraction(source) * n)
    const random: Chance = { below, one: <T>(of: readonly T[]) => of[below(of.length)] as T }
    const startedMs = performance.now()
    const before = this.#judge.figures().accepted
    const first = messageIdOf(this.#next)
    let recoveryMs = 0
    let violations: string[] = []
    try {
      await this.#spoil(kind, random)
      const spoiltMs = performance.now()
      violations = await this.#quiet(kind.includes('clock') ? undefined : first)
      recoveryMs = performance.now() - spoiltMs
    } catch (error) {
      violations = [error instanceof Error ? error.message : String(error)]
    }
    return {
      cycle,
      seed,
      kind,
      ms: performance.now() - startedMs,
      recoveryMs,
      accepted: this.#judge.figures().accepted - before,
      violations
    }
  }

  async #spoil(kind: MailCycleKind, random: Chance): Promise<void> {
    const count = 2 + random.below(8)
    const dieIn = (role: Role, table?: string) =>
      this.#node(role).tell({ kind: 'fault', fault: deathIn(random, table === undefined ? {} : { table }) })
    switch (kind) {
      case 'the sender dies as it posts':
        dieIn('sender', random.one([undefined, 'outbox', 'outgoing']))
        await this.#post(count)
        return await this.#dead('sender')
      case 'the sleeper is off, then back':
        await this.#kill('sleeper')
        await this.#post(count)
        return await this.#try('sender')
      case 'the keeper dies as it takes mail':
        await this.#kill('sleeper')
        dieIn('keeper', random.one(['kept-mail', undefined]))
        await this.#post(count)
        await this.#try('sender')
        return await this.#dead('keeper')
      case 'the sleeper dies as it takes its mail':
        await this.#kill('sleeper')
        await this.#post(count)
        await this.#try('sender')
        this.#begin('sleeper', { fault: deathIn(random, random.one([{}, { table: 'asleep-queue' }, { table: 'replay' }])) })
        await Promise.race([this.#node('sleeper').up.catch(() => {}), this.#node('sleeper').ended])
        await this.#try('sleeper')
        return await this.#dead('sleeper')
      case 'all die in their writes':
        if (random.below(2) === 0) this.#node('sleeper').tell({ kind: 'agent', state: 'asleep' })
        for (const role of ROLES) dieIn(role)
        await this.#post(count)
        await Promise.all(ROLES.map((role) => this.#dead(role)))
        return
      case 'a sleeper’s clock jumps':
      case 'a sender’s clock jumps': {
        const role = kind === 'a sender’s clock jumps' ? 'sender' : 'sleeper'
        this.#node(role).tell({ kind: 'clock', ms: random.one([-3_600_000, -90_000, 90_000, 1_800_000, 86_400_000]) })
        if (random.below(2) === 0) this.#node('sleeper').tell({ kind: 'agent', state: 'asleep' })
        await this.#post(count)
        await this.#try('sender')
        return
      }
      case 'the keeper’s disk fills':
        await this.#kill('sleeper')
        this.#node('keeper').tell({ kind: 'disk', state: 'full' })
        await this.#post(count)
        return await this.#try('sender')
      case 'the sleeper’s disk fills':
        this.#node('sleeper').tell({ kind: 'disk', state: 'full' })
        await this.#post(count)
        return await this.#try('sender')
      case 'the sender’s disk fills':
        this.#node('sender').tell({ kind: 'disk', state: 'full' })
        await this.#post(1)
        this.#node('sender').tell({ kind: 'disk', state: 'roomy' })
        return await this.#post(count)
    }
  }

  /**
   * Everybody is back and well; resolves with what is wrong once nothing moves any more.
   * @param first - from which message on the order is judged
   */
  async #quiet(first?: string): Promise<string[]> {
    for (const role of ROLES) if (this.#nodes[role]?.isOver === true) this.#begin(role)
    await Promise.all(ROLES.map((role) => this.#node(role).isUp()))
    await Promise.all(ROLES.map((role) => this.#node(role).done('mend')))
    const untilMs = performance.now() + QUIET_MS
    for (;;) {
      await this.#push('sleeper')
      await this.#push('sender')
      const { accepted } = this.#judge.claims()
      const sender = await this.#node('sender').view()
      const { told } = this.#judge.claims()
      const [keeper, sleeper] = await Promise.all([this.#node('keeper').view(), this.#node('sleeper').view()])
      const seen = { outbox: sender.outbox, tasks: sleeper.tasks, held: keeper.held, queued: sleeper.queued }
      const wrong = this.#judge.never(seen, { accepted, told })
      if (wrong.length > 0) return wrong
      const missing = this.#judge.missing(seen)
      if (missing.length === 0) return first === undefined ? [] : this.#judge.disorder(seen, first)
      if (performance.now() > untilMs) return missing
      await sleep(POLL_MS)
    }
  }

  async #post(count: number): Promise<void> {
    const first = this.#next
    this.#next += count
    const sender = this.#node('sender')
    const answered = this.#judge.answered(messageIdOf(first + count - 1))
    sender.tell({ kind: 'post', first, count })
    const late = new AbortController()
    await Promise.race([answered, sender.ended, sleep(POST_MS, undefined, { signal: late.signal }).catch(() => {})])
    late.abort()
  }

  /** As long as the trouble lasts an attempt may hang; what it comes to then is seen after the mending. */
  async #try(role: Role): Promise<void> {
    const late = new AbortController()
    await Promise.race([this.#push(role), sleep(TRY_MS, undefined, { signal: late.signal }).catch(() => {})])
    late.abort()
  }

  async #push(role: Role): Promise<void> {
    await this.#node(role).done('push')
  }

  /** A fault strikes within its time, or the parent does. */
  async #dead(role: Role): Promise<void> {
    const late = new AbortController()
    await Promise.race([this.#node(role).ended, sleep(FAULT_MS, undefined, { signal: late.signal }).catch(() => {})])
    late.abort()
    await this.#kill(role)
  }

  async #kill(role: Role): Promise<void> {
    this.#kills++
    await this.#node(role).kill()
  }

  #node(role: Role): MailProcess {
    const node = this.#nodes[role]
    if (node === undefined) throw new Error(`the ${role} was never started`)
    return node
  }

  #begin(role: Role, more: Partial<MailNodeOrder> = {}): void {
    const heard = (report: MailReport) => this.#judge.hear(report)
    const order = { role, directory: this.#path(role), config: this.#configs[role] ?? {}, to: this.#to, clockMs: 0, ...more }
    this.#nodes[role] = new MailProcess(order, heard)
  }

  #path(role: Role): string {
    return join(this.#directory, role)
  }
}

function deathIn(random: Chance, more: Partial<Fault>): Fault {
  return {
    how: random.one(['before', 'after', 'torn']),
    at: 1 + random.below(12),
    tail: random.one(['cut', 'zeros', 'noise']),
    written: false,
    lasts: 'once',
    seed: random.below(2 ** 31),
    ...more
  }
}

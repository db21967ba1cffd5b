import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fromHex } from '../../protocol/bytes.ts'
import { findConflicts } from '../../protocol/evidence/checkpoint-conflicts.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { randomFraction, seededRandom } from '../../src/platform/random.ts'
import type { Fault } from '../support/faulty-level.ts'
import { freePort } from '../support/free-port.ts'
import { Direction, type Fact, FactReader, otherSide, type Side } from './crash-facts.ts'
import type { NodeOrder, PollAnswer } from './crash-orders.ts'
import { NodeProcess } from './crash-process.ts'

/** What a cycle does to the two nodes; cycle seeds take turns through them. */
export const CYCLE_KINDS = [
  'kill one',
  'kill both',
  'die before a write',
  'die after a write',
  'die in a write',
  'die again while resuming',
  'disk error',
  'restored backup, both had gone on',
  'move and kill',
  'restored backup, the other had gone on'
] as const
export type CycleKind = (typeof CYCLE_KINDS)[number]

const SIDES: readonly Side[] = ['a', 'b']
const KEY_BYTES: Record<Side, number> = { a: 0xa1, b: 0xb2 }
const CHANNELS_MAX = 16
/** Both sides agree that nothing is under way within this of the last restart. */
const QUIET_MS = 60_000
const POLL_MS = 25
/** A fault that waits for a write strikes within this, or the parent does. */
const FAULT_MS = 1_000
const BROKEN_GOODBYE_MS = 150

const TABLES = [undefined, undefined, 'session-tx', 'session-rx', 'crash-applied', 'session'] as const

export interface CycleResult {
  cycle: number
  seed: number
  kind: CycleKind
  ms: number
  /** from the last restart to both sides agreeing */
  recoveryMs: number
  /** the session went on under its id */
  session: 'resumed' | 'another'
  items: number
  violations: string[]
}

export interface CrashResult {
  seed: number
  cycles: CycleResult[]
  /** SIGKILLs, by the parent and by faults */
  kills: number
  /** SIGKILLs from inside a LevelDB write */
  deathsInWrites: number
  diskErrors: number
  restores: number
  /** handlers that could not store their effect, and let the session end */
  brokenHandlers: number
  items: number
  acked: number
  returned: number
  refused: number
  checkpoints: number
  /** where the data is, when it was kept */
  directory: string | undefined
}

export interface CrashOptions {
  cycles: number
  seed: number
  signal?: AbortSignal
  onCycle?: (result: CycleResult) => void
  /** keeps the data directories */
  keep?: boolean
}

/**
 * Runs two nodes with durable traffic both ways through crashes, and judges them after each. Ends at the first cycle with a violation.
 * Cycle i has the seed `seed + i`, so that a failing one can be run alone.
 */
export async function runCrash({ cycles, seed, signal, onCycle, keep }: CrashOptions): Promise<CrashResult> {
  const directory = mkdtempSync(join(tmpdir(), 'rookery-crash-'))
  const pair = new CrashPair(directory)
  const results: CycleResult[] = []
  const stop = () => void pair.stop()
  signal?.addEventListener('abort', stop, { once: true })
  try {
    await pair.start()
    for (let cycle = 0; cycle < cycles; cycle++) {
      const result = await pair.cycle(cycle, (seed + cycle) >>> 0, signal)
      if (isAborted(signal)) break
      results.push(result)
      onCycle?.(result)
      if (result.violations.length > 0) break
    }
  } catch (error) {
    if (!isAborted(signal)) throw error
  } finally {
    signal?.removeEventListener('abort', stop)
    await pair.stop()
  }
  const failed = results.some(({ violations }) => violations.length > 0)
  if (!failed && keep !== true) rmSync(directory, { recursive: true, force: true })
  return { seed, cycles: results, ...pair.figures(), directory: failed || keep === true ? directory : undefined }
}

const isAborted = (signal: AbortSignal | undefined) => signal?.aborted === true

type Chance = { below(n: number): number; one<T>(of: readonly T[]): T }

function chance(seed: number): Chance {
  const random = seededRandom(seed)
  const below = (n: number) => Math.floor(randomFraction(random) * n)
  return { below, one: <T>(of: readonly T[]) => of[below(of.length)] as T }
}

type Event = Extract<Fact, { fact: 'event' }>

interface Standing {
  session: string
  answers: Record<Side, PollAnswer>
}

class CrashPair {
  readonly #directory: string
  readonly #nodes: Partial<Record<Side, NodeProcess>> = {}
  readonly #ports: Partial<Record<Side, number>> = {}
  readonly #addresses: Partial<Record<Side, { peer: string; addrs: string[] }>> = {}
  readonly #facts: Record<Side, FactReader>
  /** by sender */
  readonly #directions: Record<Side, Direction> = { a: new Direction('a to b'), b: new Direction('b to a') }
  readonly #checkpoints: Uint8Array[] = []
  /** of the cycle under way */
  #events: Record<Side, Event[]> = { a: [], b: [] }
  #violations: string[] = []
  #standing: Standing | undefined
  #kills = 0
  #deathsInWrites = 0
  #diskErrors = 0
  #restores = 0
  #broken = 0

  constructor(directory: string) {
    this.#directory = directory
    this.#facts = { a: new FactReader(this.#factsPath('a')), b: new FactReader(this.#factsPath('b')) }
  }

  figures() {
    const { a, b } = this.#directions
    return {
      kills: this.#kills,
      deathsInWrites: this.#deathsInWrites,
      diskErrors: this.#diskErrors,
      restores: this.#restores,
      brokenHandlers: this.#broken,
      items: a.items + b.items,
      acked: a.acked + b.acked,
      returned: a.returned + b.returned,
      refused: a.refused + b.refused,
      checkpoints: this.#checkpoints.length
    }
  }

  #factsPath(side: Side): string {
    return join(this.#directory, `${side}.facts`)
  }

  #dataPath(side: Side): string {
    return join(this.#directory, side)
  }

  async start(): Promise<void> {
    for (const side of SIDES) {
      mkdirSync(this.#dataPath(side))
      this.#ports[side] = await freePort('udp')
    }
    const random = chance(0)
    for (const side of SIDES) this.#begin(side, random, { opens: side === 'a' ? 'at once' : 'wait' })
    await Promise.all(SIDES.map((side) => this.#introduce(side)))
    this.#standing = await this.#quiet()
  }

  async stop(): Promise<void> {
    await Promise.all(SIDES.map((side) => this.#nodes[side]?.kill()))
  }

  #node(side: Side): NodeProcess {
    const node = this.#nodes[side]
    if (node === undefined) throw new Error(`${side} was never started`)
    return node
  }

  #begin(side: Side, random: Chance, more: Partial<NodeOrder> = {}): void {
    this.#read(side)
    const peer = this.#addresses[otherSide(side)]
    this.#nodes[side] = new NodeProcess({
      name: side,
      keyByte: KEY_BYTES[side],
      peerKeyByte: KEY_BYTES[otherSide(side)],
      directory: this.#dataPath(side),
      factsPath: this.#factsPath(side),
      port: this.#ports[side] ?? 0,
      ...(peer === undefined ? {} : { peer }),
      opens: random.one(['at once', 'at once', 'at once', 'wait']),
      issued: this.#directions[side].issued(),
      onBroken: 'throw',
      seed: random.below(2 ** 31),
      ...more
    })
  }

  /** Each learns where the other is, as from a locator. */
  async #introduce(side: Side): Promise<void> {
    const address = await this.#node(side).isUp()
    this.#addresses[side] = address
    this.#node(otherSide(side)).tell({ kind: 'peer', peer: address })
  }

  #read(side: Side): void {
    for (const fact of this.#facts[side].read()) {
      this.#directions[side].take(fact)
      if (fact.fact === 'event') this.#events[side].push(fact)
      else if (fact.fact === 'broken') this.#broken += 1
      else if (fact.fact === 'checkpoint') this.#checkpoints.push(fromHex(fact.hex))
    }
  }

  // ── a cycle ──

  async cycle(cycle: number, seed: number, signal: AbortSignal | undefined): Promise<CycleResult> {
    const kind = CYCLE_KINDS[seed % CYCLE_KINDS.length] as CycleKind
    const random = chance(seed)
    const startedMs = performance.now()
    const items = this.figures().items
    this.#violations = []
    this.#events = { a: [], b: [] }
    let recoveryMs = 0
    let session: CycleResult['session'] = 'resumed'
    const before = this.#standing
    try {
      await this.#crash(kind, random)
      const crashedMs = performance.now()
      const after = await this.#quiet()
      recoveryMs = performance.now() - crashedMs
      if (before !== undefined && after.session !== before.session) session = 'another'
      await this.#judge()
      this.#judgeSession(kind, before, after)
      this.#standing = after
    } catch (error) {
      if (!isAborted(signal)) this.#violations.push(error instanceof Error ? error.message : String(error))
    }
    const ms = performance.now() - startedMs
    return { cycle, seed, kind, ms, recoveryMs, session, items: this.figures().items - items, violations: this.#violations }
  }

  async #crash(kind: CycleKind, random: Chance): Promise<void> {
    const side = random.one(SIDES)
    const other = otherSide(side)
    switch (kind) {
      case 'kill one':
        this.#traffic(SIDES, random)
        await sleep(random.below(400))
        await this.#kill(side)
        return await this.#restart([side], random)
      case 'kill both':
        this.#traffic(SIDES, random)
        await sleep(random.below(400))
        await Promise.all([this.#kill(side), sleep(random.below(60)).then(() => this.#kill(other))])
        return await this.#restart(
          random.one([
            [side, other],
            [other, side]
          ]),
          random
        )
      case 'die before a write':
      case 'die after a write':
      case 'die in a write': {
        const how = kind === 'die before a write' ? 'before' : kind === 'die after a write' ? 'after' : 'torn'
        const sides = random.below(4) === 0 ? SIDES : [side]
        for (const one of sides) this.#node(one).tell({ kind: 'fault', fault: faultOf(how, random) })
        this.#traffic(SIDES, random)
        await Promise.all(sides.map((one) => this.#awaitDeath(one)))
        return await this.#restart(sides, random)
      }
      case 'die again while resuming':
        this.#traffic(SIDES, random)
        await sleep(random.below(200))
        await this.#kill(side)
        for (let deaths = 1 + random.below(3); deaths > 0; deaths--) {
          const fault = random.below(2) === 0 ? { fault: faultOf(random.one(['before', 'after', 'torn'] as const), random, 6) } : {}
          this.#begin(side, random, { opens: 'at once', ...fault })
          if (random.below(3) === 0) await sleep(random.below(300))
          else {
            await this.#introduce(side).catch(() => {})
            await sleep(random.below(120))
          }
          if (random.below(4) === 0) {
            await this.#kill(other)
            await this.#restart([other], random)
          }
          await this.#kill(side)
        }
        return await this.#restart([side], random)
      case 'disk error':
        return await this.#diskError(side, random)
      case 'move and kill':
        this.#traffic(SIDES, random)
        await sleep(random.below(300))
        await this.#kill(side)
        this.#ports[side] = await freePort('udp')
        return await this.#restart([side], random)
      case 'restored backup, both had gone on':
        return await this.#restore(side, random, SIDES)
      case 'restored backup, the other had gone on':
        return await this.#restore(side, random, [other])
    }
  }

  #traffic(senders: readonly Side[], random: Chance): void {
    for (const side of senders) {
      const isBurst = random.below(3) === 0
      this.#node(side).tell({
        kind: 'traffic',
        traffic: {
          items: isBurst ? 1_500 + random.below(1_500) : 20 + random.below(400),
          inFlight: 1 + random.below(isBurst ? 600 : 100),
          channels: 1 + random.below(random.below(4) === 0 ? CHANNELS_MAX : 4),
          payloadBytesMax: random.one([1, 64, 64, 1_000, isBurst ? 200 : 40_000]),
          seed: random.below(2 ** 31)
        }
      })
    }
  }

  async #kill(side: Side): Promise<void> {
    const node = this.#node(side)
    const before = node.isOver
    await node.kill()
    const { signal, code } = await node.ended
    if (signal !== 'SIGKILL') throw new Error(`${side} ended by itself (${signal ?? code}): ${node.stderr}`)
    this.#kills += 1
    if (before) this.#deathsInWrites += 1
  }

  /** Of the fault that it carries; where no write met it in time, of the parent's hand. */
  async #awaitDeath(side: Side): Promise<void> {
    await Promise.race([this.#node(side).ended, sleep(FAULT_MS)])
    await this.#kill(side)
  }

  /** Starts what is down, and a little traffic behind the resume. */
  async #restart(sides: readonly Side[], random: Chance, more: Partial<NodeOrder> = {}): Promise<void> {
    for (const side of sides) this.#begin(side, random, more)
    await Promise.all(sides.map((side) => this.#introduce(side)))
    for (const side of SIDES) {
      this.#node(side).tell({
        kind: 'traffic',
        traffic: { items: random.below(60), inFlight: 16, channels: 4, payloadBytesMax: 200, seed: random.below(2 ** 31) }
      })
    }
  }

  async #diskError(side: Side, random: Chance): Promise<void> {
    const onBroken = random.one(['throw', 'die'] as const)
    await this.#kill(side) // its own order says what it does then
    await this.#restart([side], random, { onBroken })
    await this.#quiet()
    this.#node(side).tell({ kind: 'fault', fault: faultOf('error', random, 8) })
    this.#diskErrors += 1
    this.#traffic(SIDES, random)
    const node = this.#node(side)
    await Promise.race([node.ended, node.broken.then(() => sleep(BROKEN_GOODBYE_MS)), sleep(800)])
    await this.#kill(side)
    await this.#restart([side], random)
  }

  /** Copies one node's directory as a crash left it, lets time go on, and puts it back. */
  async #restore(side: Side, random: Chance, senders: readonly Side[]): Promise<void> {
    const backup = join(this.#directory, `${side}.backup`)
    this.#traffic(SIDES, random)
    await sleep(random.below(200))
    await this.#kill(side)
    rmSync(backup, { recursive: true, force: true })
    cpSync(this.#dataPath(side), backup, { recursive: true })
    this.#begin(side, random)
    await this.#introduce(side)
    for (const one of senders) {
      this.#node(one).tell({
        kind: 'traffic',
        traffic: { items: 30 + random.below(300), inFlight: 50, channels: 4, payloadBytesMax: 200, seed: random.below(2 ** 31) }
      })
    }
    if (senders.length === 1) this.#node(side).tell({ kind: 'stop' })
    const before = await this.#quiet()
    await this.#judge()
    this.#events = { a: [], b: [] }
    await this.#kill(side)
    rmSync(this.#dataPath(side), { recursive: true })
    cpSync(backup, this.#dataPath(side), { recursive: true })
    this.#restores += 1
    this.#begin(side, random)
    await this.#introduce(side)
    this.#directions[otherSide(side)].receiverRestored(await this.#node(side).rows({}))
    const after = await this.#quiet()
    this.#readAll()
    for (const one of SIDES) {
      const told = this.#events[one].filter(({ session, kind }) => session === before.session && (kind === 'diverged' || kind === 'gap'))
      if (told.length === 0) this.#violations.push(`a backup of ${side} was put back, and ${one} was told nothing (${this.#heard(one)})`)
      if (after.session === before.session && told.some(({ kind }) => kind === 'diverged')) {
        this.#violations.push(`${one} was told DIVERGED, and the session went on`)
      }
    }
    await this.#restart([], random)
  }

  #heard(side: Side): string {
    return (
      this.#events[side].map(({ kind, reason, session, error }) => `${kind} ${session.slice(0, 8)} ${reason} ${error}`).join('; ') ||
      'no event'
    )
  }

  // ── judging ──

  #readAll(): void {
    for (const side of SIDES) this.#read(side)
  }

  /** Both hold the same session, nothing is under way, and each has what the other sent, hash for hash. */
  async #quiet(): Promise<Standing> {
    const startedMs = performance.now()
    let last = 'no answer'
    for (;;) {
      const [a, b] = await Promise.all([this.#node('a').poll(), this.#node('b').poll()])
      const isStill = [a, b].every(({ state, outstanding, unacked }) => state === 'established' && outstanding === 0 && unacked === 0)
      if (isStill && a.session !== undefined && a.session === b.session && sameVector(a.tx, b.rx) && sameVector(b.tx, a.rx)) {
        return { session: a.session, answers: { a, b } }
      }
      last = JSON.stringify({ a, b })
      if (performance.now() - startedMs > QUIET_MS) {
        this.#readAll()
        const heard = SIDES.map((side) => `${side}: ${this.#heard(side)}`).join(' | ')
        throw new Error(`the two did not come to agree within ${QUIET_MS} ms: ${last} ${heard}`)
      }
      await sleep(POLL_MS)
    }
  }

  async #judge(): Promise<void> {
    for (const sender of SIDES) {
      const receiver = otherSide(sender)
      const direction = this.#directions[sender]
      this.#readAll()
      this.#violations.push(...direction.judge(await this.#node(receiver).rows(direction.judged())))
    }
    for (const { target } of findConflicts(nodeCrypto, this.#checkpoints)) {
      this.#violations.push(`an honest node signed two checkpoints that conflict: ${Buffer.from(target).toString('hex')}`)
    }
  }

  /** A crash never costs the session; what does is told on both sides, and is no accusation. */
  #judgeSession(kind: CycleKind, before: Standing | undefined, after: Standing): void {
    for (const side of SIDES) {
      for (const { kind: event, reason, error } of this.#events[side]) {
        if (reason === 'violation' || reason === 'revoked') this.#violations.push(`${side}: the session ${event} (${reason}: ${error})`)
      }
    }
    const isTold = kind === 'disk error' || kind.startsWith('restored backup')
    if (!isTold) {
      if (before !== undefined && after.session !== before.session) {
        const heard = SIDES.map((side) => `${side}: ${this.#heard(side)}`).join(' | ')
        this.#violations.push(`a crash cost the session ${before.session}: ${heard}`)
      }
      return
    }
    if (kind !== 'disk error' || before === undefined || after.session === before.session) return
    for (const side of SIDES) {
      const isTold = this.#events[side].some(
        ({ kind: event, session }) => session === before.session && (event === 'ended' || event === 'diverged')
      )
      if (!isTold) this.#violations.push(`the session ${before.session} is gone, and ${side} was not told (${this.#heard(side)})`)
    }
  }
}

function sameVector(a: PollAnswer['tx'], b: PollAnswer['rx']): boolean {
  return a !== undefined && b !== undefined && a.seq === b.seq && a.hash === b.hash
}

function faultOf(how: Fault['how'], random: Chance, atMax = 25): Fault {
  const table = random.one(TABLES)
  const lasts = random.one(['once', 'until reopened'] as const)
  return {
    how,
    at: 1 + random.below(table === 'session' ? 2 : 1 + random.below(atMax)),
    ...(table === undefined ? {} : { table }),
    tail: random.one(['cut', 'zeros', 'noise'] as const),
    written: random.below(2) === 0 && lasts === 'until reopened',
    lasts,
    // effects that are stored side by side must not go on behind one that was refused: the application could not tell which is missing
    ...(how === 'error' && lasts === 'once' ? { spares: 'crash-applied' } : {}),
    seed: random.below(2 ** 31)
  }
}

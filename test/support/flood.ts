import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { MemoryLevel } from 'memory-level'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { newAgentRecord } from '../../src/identity/agents.ts'
import { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createHost } from '../../src/net/node-host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { createSessionManager } from '../../src/sessions/create-session-manager.ts'
import type { SessionManagerHeld } from '../../src/sessions/settings.ts'
import { Store } from '../../src/store/store.ts'

export interface TargetHello {
  did: string
  peer: string
  addrs: string[]
}

/**
 * After a garbage collection. The loop's delay (by the clock) and longest turn (`busyMaxMs`, by the processor time of its thread) are those since the
 * figures before.
 */
export interface TargetFigures {
  rss: number
  /** JavaScript heap and what it holds outside */
  heap: number
  loop: { maxMs: number; p99Ms: number; meanMs: number; busyMaxMs: number }
  cpuMs: number
  held: SessionManagerHeld
  connections: number
}

export interface FloodOrder {
  target: TargetHello
  /** INITs that are answered or dropped unread, in all */
  inits: number
  connections: number
  /** streams of one connection at once */
  streams: number
}

/** What became of the attacker's INITs. */
export interface Answers {
  /** written whole; the sum of neg, retry, close and dropped */
  sent: number
  neg: number
  retry: number
  close: number
  /** the stream was reset without an answer */
  dropped: number
  /** streams that could not be opened; not counted as sent, and tried again */
  failed: number
  connections: number
  failedDials: number
}

export const noAnswers = (): Answers => ({ sent: 0, neg: 0, retry: 0, close: 0, dropped: 0, failed: 0, connections: 0, failedDials: 0 })

export interface FloodInit {
  /**
   * INITs of each flood, one after the other. Whatever comes first makes a node grow once: code is compiled, the allocators of V8, of C and of the
   * QUIC library keep the pages that a load of this size needs. So the first floods warm, with the load of those that are measured.
   */
  rounds: readonly number[]
  connections: number
  streams: number
  /** an honest peer opens a session this often while a flood lasts */
  honestEveryMs: number
  /** cores of target and attacker, where `taskset` is there */
  pin?: { target: number; attacker: number }
}

export interface FloodRound {
  answers: Answers
  durationMs: number
  /** from nothing (a new PeerId, no connection) to a session, in ms, each while the flood lasted */
  honestMs: number[]
  honestFailed: string[]
  /** as the last INIT was answered, then once the attacker's connections had gone */
  during: TargetFigures
  after: TargetFigures
}

export interface FloodResult {
  /** a node that nobody has spoken to */
  cold: TargetFigures
  rounds: FloodRound[]
}

/**
 * Floods a node over real QUIC on loopback: three processes (node, attacker, honest peer). Of the attacker's connections three fifths stay and
 * send on after the eighth INIT, one fifth also returns each RETRY's cookie at once, one fifth reconnects after every eight, with a new PeerId
 * every fifth time.
 */
export async function flood({ rounds, connections, streams, honestEveryMs, pin }: FloodInit): Promise<FloodResult> {
  const target = start('./flood-target.ts', ['--expose-gc'], pin?.target)
  const attacker = start('./flood-attacker.ts', [], pin?.attacker)
  try {
    const [[hello]] = await Promise.all([first<TargetHello>(target), first(attacker)])
    const measure = () => ask<TargetFigures>(target, 'measure')
    const result: FloodResult = { cold: await measure(), rounds: [] }
    for (const inits of rounds) {
      const order: FloodOrder = { target: hello, inits, connections, streams }
      result.rounds.push(await round(hello, { flood: () => ask<Answers>(attacker, order), measure, honestEveryMs }))
    }
    return result
  } finally {
    await Promise.all([target, attacker].map(end))
  }
}

async function round(
  hello: TargetHello,
  does: { flood: () => Promise<Answers>; measure: () => Promise<TargetFigures>; honestEveryMs: number }
): Promise<FloodRound> {
  await does.measure() // the loop's delays count from here
  const startedMs = performance.now()
  let over = false
  const flooding = does.flood().finally(() => {
    over = true
  })
  const honestMs: number[] = []
  const honestFailed: string[] = []
  while (!over) {
    const dialledMs = performance.now()
    try {
      honestMs.push(await honestSession(hello))
    } catch (error) {
      honestFailed.push(`${Math.round(performance.now() - dialledMs)} ms: ${error instanceof Error ? error.message : String(error)}`)
    }
    await Promise.race([flooding, new Promise((resolve) => setTimeout(resolve, does.honestEveryMs))])
  }
  const answers = await flooding
  const durationMs = performance.now() - startedMs
  const during = await does.measure()
  return { answers, durationMs, honestMs, honestFailed, during, after: await quiet(does.measure) }
}

/** Opens a session as someone the node has never met, and says how long it took. */
async function honestSession({ did, peer, addrs }: TargetHello): Promise<number> {
  const components = { clock: systemClock, random: systemRandom, logger: silentLogger, crypto: nodeCrypto }
  const record = newAgentRecord({ name: 'honest' }, { random: systemRandom, nowMs: systemClock.nowMs(), handler: 'manual' })
  const agent = new HostedAgent(nodeCrypto, record, { mode: 'always_on' })
  const validator = { validate: () => {}, select: () => 'held' as const, expiresAtMs: () => 0 }
  const host = await createHost({ ...components, validator }, { privateKey: systemRandom.bytes(32), listen: [] })
  const store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
  const sessions = await createSessionManager({ ...components, host, store, agents: { byEid: () => agent, list: () => [agent] } })
  try {
    const startedMs = performance.now()
    const session = await sessions.open(agent, eidFromDid(did), { peer, addrs })
    const tookMs = performance.now() - startedMs
    await session.close()
    return tookMs
  } finally {
    await sessions.stop()
    await host.stop()
  }
}

/** What an ended stream still holds in libp2p's negotiation is gone by then. */
const SETTLE_MS = 20_000

/** The figures once nobody is connected and the heap no longer shrinks, or after SETTLE_MS. */
async function quiet(measure: () => Promise<TargetFigures>): Promise<TargetFigures> {
  const untilMs = performance.now() + SETTLE_MS
  let figures = await measure()
  for (let steady = 0; steady < 4 && performance.now() < untilMs; ) {
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    const next = await measure()
    const isQuiet = next.connections === 0 && next.held.pendingHandshakes === 0 && next.held.sessions === 0
    steady = isQuiet && next.heap > figures.heap - 262_144 ? steady + 1 : 0
    figures = next
  }
  return figures
}

function start(file: string, execArgv: string[], core: number | undefined): ChildProcess {
  const path = new URL(file, import.meta.url).pathname
  if (core === undefined) return fork(path, [], { execArgv, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  return fork(path, [], {
    execPath: 'taskset',
    execArgv: ['-c', String(core), process.execPath, ...execArgv],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc']
  })
}

async function first<T>(child: ChildProcess): Promise<[T]> {
  const settled = new AbortController()
  const { signal } = settled
  try {
    const exited = once(child, 'exit', { signal }).then(([code]) => {
      throw new Error(`a process of the flood ended with ${code}`)
    })
    return await Promise.race([once(child, 'message', { signal }) as Promise<[T]>, exited])
  } finally {
    settled.abort()
  }
}

async function ask<T>(child: ChildProcess, message: unknown): Promise<T> {
  const answer = first<T>(child)
  child.send(message as object)
  return (await answer)[0]
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.disconnect()
  await gone
}

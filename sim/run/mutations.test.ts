import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { concat } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { COOKIE_BYTES } from '../../protocol/session/cookie.ts'
import { FRAME, HEADER_BYTES } from '../../protocol/session/header.ts'
import { Responder } from '../../protocol/session/responder.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import type { Seams } from '../engine/seams.ts'
import { type RunOptions, runScenario } from '../run-scenario.ts'
import { INVARIANTS, type InvariantName } from '../scenario/definition.ts'
import type { Plan } from '../scenario/events.ts'
import { parseScenario } from '../scenario/parse.ts'
import { eventLines } from './event-lines.ts'
import { shrinkRun, symptomsOf } from './shrink-run.ts'

const NODES = 5
const SPACE = 'org.agentnet/a.b@1'
const HOUR_MS = 3_600_000

/** Five real nodes, of which the last sleeps; `timeline` is what happens among them. */
function scenario(timeline: string) {
  return parseScenario(
    `name: mutation
description: What one deliberate fault needs to show.
nodes:
  - { group: awake, count: ${NODES - 1} }
  - { group: asleep, count: 1, reachability: sleep }
timeline:
${timeline
  .trim()
  .split('\n')
  .map((line) => `  - ${line.trim()}`)
  .join('\n')}
`,
    'mutation.yaml'
  )
}

const MAIL_FOR_A_SLEEPER = `
  stage: mail
  { do: send, who: { group: awake, node: 1 }, to: asleep }
`
const MAIL_TO_A_WAKER = `
  stage: mail
  { do: send, who: { group: awake, node: 1 }, to: { group: awake, node: 2 } }
`
const JOINED_AND_SEARCHED = `
  stage: announce
  { do: announce, who: { group: awake, node: 0 }, space: ${SPACE} }
  stage: join
  { do: join, who: { group: awake, node: 1 }, space: ${SPACE} }
  stage: search
  { do: discover, who: { group: awake, node: 2 }, space: ${SPACE} }
  stage: search again
  { do: discover, who: { group: awake, node: 2 }, space: ${SPACE} }
`

/** A disk that says it has written and has not: rows of the asleep queue are gone. */
class ForgetfulLevel extends MemoryLevel<string, Uint8Array> {
  // biome-ignore lint/suspicious/noExplicitAny: the many shapes of abstract-level's batch
  override batch(...args: any[]): any {
    const [operations, ...rest] = args
    if (!Array.isArray(operations)) return (super.batch as (...all: unknown[]) => unknown)(...args)
    const kept = operations.filter(({ type, sublevel }) => type !== 'put' || !String(sublevel?.prefix).includes('asleep-queue'))
    return (super.batch as (...all: unknown[]) => unknown)(kept, ...rest)
  }
}

/** Hashes of whole transactions come out wrong: the digest of a chain's link leaves out what went before. */
const badlyChaining: CryptoProvider = {
  ...nodeCrypto,
  sha256: (...parts) =>
    parts.length === 1 && parts[0]?.length === 64
      ? nodeCrypto.sha256(concat([new Uint8Array(32), parts[0].subarray(32)]))
      : nodeCrypto.sha256(...parts)
}

/** A responder that remembers what it said at INIT, and so does not need its cookie back. */
function keepStateAtInit() {
  const cookies = new Map<string, Uint8Array>()
  const nameOf = (frame: Uint8Array) =>
    Buffer.from(frame.subarray(HEADER_BYTES - 2 * COOKIE_BYTES, HEADER_BYTES - COOKIE_BYTES)).toString('hex')
  const whole = Responder.prototype.receive
  vi.spyOn(Responder.prototype, 'receive').mockImplementation(function (this: Responder<unknown>, frame, connection, nowMs) {
    const own = cookies.get(nameOf(frame))
    if (frame[1] === FRAME.ACK && own !== undefined) frame.set(own, HEADER_BYTES - COOKIE_BYTES)
    const step = whole.call(this, frame, connection, nowMs)
    if (step.kind === 'send') cookies.set(nameOf(step.frame), step.frame.slice(HEADER_BYTES - COOKIE_BYTES, HEADER_BYTES))
    return step
  })
}

/** The wall clock of all nodes, which a test moves; timers stay as they are. */
function movableClock(): Clock & { aheadMs: number } {
  return {
    aheadMs: 0,
    nowMs() {
      return systemClock.nowMs() + this.aheadMs
    },
    monotonicMs: () => systemClock.monotonicMs(),
    after: (ms, callback) => systemClock.after(ms, callback),
    sleep: (ms, options) => systemClock.sleep(ms, options)
  }
}

interface Mutation {
  fault: string
  timeline: string
  /** makes the fault; gives what the run needs for it */
  make(): Pick<RunOptions, 'seams' | 'onProgress'>
}

const MUTATIONS: Readonly<Record<InvariantName, Mutation>> = {
  'acked-kept': {
    fault: 'a disk that forgets what waits for a sleeping agent',
    timeline: MAIL_FOR_A_SLEEPER,
    make: () => ({
      seams: {
        lastWorkMs: 500,
        parts: (index) => (index === NODES - 1 ? { level: new ForgetfulLevel({ keyEncoding: 'utf8', valueEncoding: 'view' }) } : {})
      }
    })
  },
  'notified-once': {
    fault: 'a node that calls its agent twice for one message',
    timeline: MAIL_TO_A_WAKER,
    make: () => ({
      seams: {
        onNode({ node }) {
          const onTask = node.onTask.bind(node)
          node.onTask = (agent, handler, options) =>
            onTask(
              agent,
              async (task, ...rest) => {
                await handler(task, ...rest)
                return await handler(task, ...rest)
              },
              options
            )
        }
      }
    })
  },
  'hashes-agree': {
    fault: 'a node that leaves the past out of its rolling hash',
    timeline: MAIL_TO_A_WAKER,
    make: () => ({ seams: { parts: (index) => (index === 2 ? { overrides: { crypto: badlyChaining } } : {}) } })
  },
  'no-expired-record': {
    fault: 'a search that goes on showing what it showed once',
    timeline: JOINED_AND_SEARCHED,
    make() {
      const clock = movableClock()
      return {
        onProgress: ({ phase }) => {
          if (phase === 'search again') clock.aheadMs = 3 * HOUR_MS
        },
        seams: {
          clock,
          onNode({ node }) {
            const find = node.spaces.find.bind(node.spaces)
            let first: ReturnType<typeof find> | undefined
            node.spaces.find = (...args) => {
              first ??= find(...args)
              return first
            }
          }
        }
      }
    }
  },
  'cookie-before-state': {
    fault: 'a responder that keeps state at INIT and takes an ACK without its cookie',
    timeline: MAIL_TO_A_WAKER,
    make() {
      keepStateAtInit()
      return {}
    }
  },
  'queue-bounds': {
    fault: 'a node that lets one peer leave more than fifty messages',
    timeline: `
      stage: mail
      { do: send, who: { group: awake, node: 1 }, to: asleep, times: 52, bytes: 1, atOnce: 8 }
    `,
    make: () => ({ seams: { parts: () => ({ config: { queue: { messagesPerPeerMax: 500 } } }) } })
  },
  'honest-found': {
    fault: 'a node that says it has joined and has not',
    timeline: JOINED_AND_SEARCHED,
    make: () => ({
      seams: {
        onNode({ node }) {
          const join = node.spaces.join.bind(node.spaces)
          node.spaces.join = async (...args) => {
            const joined = await join(...args)
            await node.spaces.leave(...args)
            return joined
          }
        }
      }
    })
  },
  'no-honest-blacklisted': {
    fault: 'a node that distrusts whoever has a session with it',
    timeline: MAIL_TO_A_WAKER,
    make: () => ({
      seams: {
        onNode: ({ node }) => node.sessions.onSession(({ remote }) => void node.evidence.distrust(remote, 'it called'))
      }
    })
  },
  'idle-memory-flat': {
    fault: 'a node that keeps a little more every moment',
    timeline: '{ stage: idle, lasts: 2s }',
    make: () => ({
      seams: {
        onNode({ node }) {
          const kept: string[][] = []
          const more = () => {
            kept.push(Array.from({ length: 4_096 }, (_, i) => `entry ${kept.length} ${i}`))
            hoard.cancel = systemClock.after(20, more)
          }
          const hoard = { cancel: systemClock.after(20, more), kept }
          const stop = node.stop.bind(node)
          node.stop = async () => {
            hoard.cancel()
            await stop()
          }
        }
      }
    })
  }
}

async function brokenIn(timeline: string, options: { seams?: Seams } & Pick<RunOptions, 'onProgress'> = {}) {
  const report = await runScenario(scenario(timeline), { seed: 2, ...options })
  return { report, broken: report.invariants.filter(({ state }) => state === 'broken').map(({ invariant }) => invariant) }
}

describe('a deliberate fault of real nodes', { timeout: 300_000 }, () => {
  afterEach(() => vi.restoreAllMocks())

  it('is there for each invariant', () => {
    expect(Object.keys(MUTATIONS).sort()).toEqual([...INVARIANTS].sort())
  })

  it.each(Object.entries(MUTATIONS).map(([invariant, { fault }]) => [fault, invariant as InvariantName] as const))(
    '%s, breaks %s and nothing else',
    async (_fault, invariant) => {
      const { timeline, make } = MUTATIONS[invariant]
      const { report, broken } = await brokenIn(timeline, make())
      expect(broken, JSON.stringify([report.broken, report.failures])).toEqual([invariant])
      expect(report.success).toBe(false)
    }
  )

  it('is missing where all hold: the same steps on nodes as they are break nothing, and each invariant but that of attackers is judged', async () => {
    const { report, broken } = await brokenIn(`
      ${JOINED_AND_SEARCHED.trim()}
      ${MAIL_FOR_A_SLEEPER.trim()}
      ${MAIL_TO_A_WAKER.trim().replace('stage: mail', 'stage: more mail')}
      { stage: idle, lasts: 2s }
    `)
    expect(broken, JSON.stringify(report.broken)).toEqual([])
    expect(report.failures).toEqual([])
    const unseen = report.invariants.filter(({ state }) => state !== 'holds').map(({ invariant }) => invariant)
    expect(unseen).toEqual(['no-honest-blacklisted'])
  })

  it('is made short: of ten events the one message that is handed over twice is left, and its plan fails again', async () => {
    const { make } = MUTATIONS['notified-once']
    const long = scenario(`
      stage: announce
      { do: announce, who: { group: awake, node: 0 }, space: ${SPACE} }
      stage: join
      { do: join, who: { group: awake, count: 3 }, space: ${SPACE} }
      { stage: search, lasts: 1s }
      { do: discover, who: { group: awake, count: 3 }, space: ${SPACE} }
      { do: publish, who: { group: awake, node: 3 } }
      ${MAIL_FOR_A_SLEEPER.trim()}
      ${MAIL_TO_A_WAKER.trim().replace('stage: mail', 'stage: more mail')}
    `)
    const options = { seed: 2, ...make() }
    const failed = await runScenario(long, options)
    expect(symptomsOf(failed)).toEqual(['invariant notified-once'])
    const told: number[] = []
    const short = await shrinkRun(long, options, failed, { runsMax: 30, onProgress: ({ events }) => told.push(events) })
    expect(short.shrunk).toMatchObject({ events: 1, of: 10 })
    expect(eventLines(short.plan as Plan)).toEqual(['more mail, at 0.0 s: send node 1 to 2 bytes 64 id 1'])
    expect(told.at(0)).toBe(10)
    expect(told.at(-1)).toBe(1)
    expect(short.replay).toBe('rookery sim run mutation --nodes 5 --seed 2')
    const again = await runScenario(long, { ...options, plan: short.plan as Plan })
    expect(symptomsOf(again)).toEqual(['invariant notified-once'])
  })
})

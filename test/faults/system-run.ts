import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { EXIT_CODES } from '../../src/errors.ts'
import type { SoakName } from '../soak/soak-orders.ts'
import { runSoak, type SoakHands, type SoakResult } from '../soak/soak-run.ts'
import { FaultySystem, SYSTEM_ERRNO } from './faulty-system.ts'

/** What befalls a node under load, one after the other. */
export const SYSTEM_FAULTS = [
  'clock a day ahead and back',
  'clock an hour back and right again',
  'stopped for a moment',
  'stopped beyond the idle time of its connections',
  'UDP fails',
  'socket closed',
  'no file descriptors',
  'threads of the solver die',
  'no memory'
] as const
export type SystemFault = (typeof SYSTEM_FAULTS)[number]

export interface SystemFaultReport {
  kind: SystemFault
  ms: number
  /** in the node's own words, where it had to say something */
  said: string
}

export interface SystemFaultsOptions {
  kinds?: readonly SystemFault[]
  /** `short`: as CI has it */
  length: 'short' | 'full'
  seed: number
  /** of {@link faultySystem} */
  library: string
  signal?: AbortSignal
  onFault?: (report: SystemFaultReport) => void
}

const DAY_SEC = 86_400
const HOUR_SEC = 3_600
/** V8 adds the young generation to it, up to 96 MiB. */
const HEAP_MIB = 400
/** Lower than what any node has open. */
const FEW_DESCRIPTORS = 12
/** For the schedule of load and audits alone: the faults end the run. */
const LENGTH_MS = 180_000

interface Stage {
  hands: SoakHands
  systems: Record<SoakName, FaultySystem>
  isFull: boolean
}

/**
 * Three nodes under the load of the soak; each fault is brought upon one of them, mended, and followed by a proof that everything moves again. In the
 * end the accounts of the soak are made up: nothing accepted is lost, nothing is done twice.
 */
export async function runSystemFaults(options: SystemFaultsOptions): Promise<{ faults: SystemFaultReport[]; result: SoakResult }> {
  const { kinds = SYSTEM_FAULTS, length, seed, library, signal, onFault } = options
  const systems = { rock: new FaultySystem(library), leaver: new FaultySystem(library), sleeper: new FaultySystem(library) }
  const faults: SystemFaultReport[] = []
  const more = {
    rock: { env: systems.rock.env },
    leaver: { env: systems.leaver.env, execArgv: [`--max-old-space-size=${HEAP_MIB}`] },
    sleeper: { env: systems.sleeper.env }
  }
  const run = async (hands: SoakHands) => {
    for (const kind of kinds) {
      if (signal?.aborted === true) return
      const startedMs = performance.now()
      const said = await ACTS[kind]({ hands, systems, isFull: length === 'full' }).catch((error: unknown) => {
        throw new Error(`${kind}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
      })
      const report = { kind, ms: performance.now() - startedMs, said }
      faults.push(report)
      onFault?.(report)
    }
  }
  try {
    const result = await runSoak({ lengthMs: LENGTH_MS, seed, ...(signal === undefined ? {} : { signal }), faults: { more, run } })
    return { faults, result }
  } finally {
    for (const system of Object.values(systems)) system.remove()
  }
}

/** Each resolves with what the node said, once it is well again. */
const ACTS: Record<SystemFault, (stage: Stage) => Promise<string>> = {
  async 'clock a day ahead and back'({ hands, systems }) {
    await hands.works('leaver')
    hands.lines('leaver')
    systems.leaver.arm({ clockSec: DAY_SEC })
    const said = await line(hands, 'leaver', /the clock of this machine jumped/)
    await sleep(3_000)
    systems.leaver.heal()
    await line(hands, 'leaver', /"jumpMs":-8\d{7}/)
    await hands.works('leaver')
    return said
  },
  async 'clock an hour back and right again'({ hands, systems }) {
    await hands.until('mail that waits', async () => hands.mailWaiting().length > 0)
    const before = hands.mailWaiting()
    systems.sleeper.arm({ clockSec: -HOUR_SEC })
    await line(hands, 'sleeper', /the clock of this machine jumped/)
    await hands.ask('sleeper', { kind: 'hour', after: 'awake' })
    let said = ''
    await hands.until('a queue that is held for the clock', async () => {
      said = (await hands.health('sleeper')).checks.find(({ name }) => name === 'clock')?.detail ?? ''
      return said !== ''
    })
    systems.sleeper.heal()
    await hands.until('hand-over of what was held, without a hand', async () => {
      const waiting = new Set(hands.mailWaiting())
      return before.every((id) => !waiting.has(id))
    })
    await hands.ask('sleeper', { kind: 'hour', after: 'asleep' })
    await hands.works('sleeper')
    return said
  },
  async 'stopped for a moment'({ hands }) {
    await stopped(hands, 'leaver', 3_000)
    await hands.works('leaver')
    return ''
  },
  async 'stopped beyond the idle time of its connections'({ hands, isFull }) {
    hands.lines('leaver')
    await stopped(hands, 'leaver', isFull ? 45_000 : 12_000)
    const said = await line(hands, 'leaver', /the process stood still/)
    await hands.works('leaver')
    return said
  },
  async 'UDP fails'({ hands, systems, isFull }) {
    systems.leaver.arm({ sendErrno: SYSTEM_ERRNO.ENETUNREACH, receiveErrno: SYSTEM_ERRNO.EIO })
    await sleep(isFull ? 45_000 : 1_000)
    let said = ''
    await hands.until('word that there is no peer', async () => {
      const { state, detail } = (await hands.health('leaver')).checks.find(({ name }) => name === 'network') ?? { state: 'ok', detail: '' }
      said = detail
      return state !== 'ok'
    })
    if (systems.leaver.failures() === 0) throw new Error('no call failed')
    systems.leaver.heal()
    await hands.works('leaver')
    return said
  },
  async 'socket closed'({ hands, systems }) {
    await hands.works('leaver')
    hands.lines('leaver')
    hands.away('leaver')
    systems.leaver.arm({ closedErrno: SYSTEM_ERRNO.EBADF })
    const said = await line(hands, 'leaver', /the dead socket of QUIC cannot be given up|QUIC has a new socket/)
    if (said.includes('cannot be given up')) {
      const { code, signal } = await hands.ended('leaver')
      if (code !== EXIT_CODES.unavailable) throw new Error(`it ended with ${signal ?? code}`)
      systems.leaver.heal()
      await hands.begin('leaver') // as a service does with what ended so
    }
    systems.leaver.heal()
    hands.away(undefined)
    await hands.works('leaver')
    return said
  },
  async 'no file descriptors'({ hands, isFull }) {
    hands.lines('rock')
    const pid = String(hands.pid('rock'))
    execFileSync('prlimit', ['--pid', pid, `--nofile=${FEW_DESCRIPTORS}:`])
    let said: string
    try {
      await hands.knock('rock')
      said = await line(hands, 'rock', /no file can be opened/)
      await sleep(isFull ? 20_000 : 4_000)
    } finally {
      execFileSync('prlimit', ['--pid', pid, '--nofile=4096:'])
    }
    await hands.until('health', async () => (await hands.health('rock')).ready)
    await hands.works('rock')
    return said
  },
  async 'threads of the solver die'({ hands }) {
    await hands.ask('rock', { kind: 'discover', threadsKilled: 2 })
    return ''
  },
  async 'no memory'({ hands }) {
    hands.lines('leaver')
    hands.tell('leaver', { kind: 'hog' })
    hands.away('leaver')
    const { code, signal } = await hands.ended('leaver')
    if (signal !== 'SIGABRT' && code !== 134) throw new Error(`it ended with ${signal ?? code}`)
    const said = await line(hands, 'leaver', /heap limit|out of memory/i)
    await hands.begin('leaver')
    hands.away(undefined)
    await hands.works('leaver')
    return said
  }
}

async function stopped(hands: SoakHands, name: SoakName, ms: number): Promise<void> {
  const pid = hands.pid(name)
  process.kill(pid, 'SIGSTOP')
  try {
    await sleep(ms)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}

/** Waits for a line of its log. */
async function line(hands: SoakHands, name: SoakName, what: RegExp): Promise<string> {
  const seen: string[] = []
  await hands
    .until(`line of ${name} about ${what.source}`, async () => {
      seen.push(...hands.lines(name))
      return seen.some((text) => what.test(text))
    })
    .catch((error: Error) => {
      throw new Error(`${error.message}; it said: ${seen.slice(-5).join(' | ').slice(0, 1_000)}`)
    })
  return seen.find((text) => what.test(text)) as string
}

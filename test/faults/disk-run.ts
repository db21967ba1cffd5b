import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { NodeStatus } from '../../src/api/methods.ts'
import { RookeryError } from '../../src/errors.ts'
import { homeOf } from '../../src/identity/agent.ts'
import { createNode } from '../../src/node.ts'
import { randomFraction, seededRandom } from '../../src/platform/random.ts'
import { rookery } from '../e2e/cli-fixture.ts'
import { type DaemonProcess, LOOPBACK, nodeDir, ready, startDaemon } from '../support/node-dir.ts'
import { ALWAYS, type DiskFaults, ERRNO, FaultyDisk } from './faulty-disk.ts'

/** What a cycle does to the disk; cycle seeds take turns through them. */
export const DISK_CYCLE_KINDS = [
  'power cut',
  'one sync fails',
  'syncs fail for a while',
  'a write is torn',
  'no space for a while',
  'no file can be opened',
  'slow disk',
  'syncs that lied'
] as const
export type DiskCycleKind = (typeof DISK_CYCLE_KINDS)[number]

const AGENT = 'sleepy'
const POSTERS = 3
/** Whatever is waited for is there within this. */
const WAIT_MS = 120_000
/** Messages taken before the fault, and after the mending. */
const TAKEN = 6

export interface DiskCycle {
  seed: number
  kind: DiskCycleKind
  ms: number
  /** messages that the node said are on disk */
  acknowledged: number
  refused: number
  /** calls of the file system that failed */
  failures: number
  /** bytes that the power cut took */
  lostBytes: number
  violations: string[]
}

interface Posts {
  acknowledged: string[]
  /** taken while syncs lied: nobody can promise these */
  lied: string[]
  refused: { code: string; kind: string }[]
}

/** One node on a disk that fails, over as many cycles as one likes. */
export class DiskRun {
  readonly #scratch = mkdtempSync(join(tmpdir(), 'rookery-disk-'))
  readonly #dir = nodeDir()
  readonly #disk: FaultyDisk
  #posted = 0
  #daemon: DaemonProcess | undefined

  constructor(library: string) {
    mkdirSync(this.#scratch, { recursive: true })
    this.#disk = new FaultyDisk({ directory: this.#dir.path, scratch: this.#scratch, library })
  }

  async open(): Promise<void> {
    const node = await createNode({ ...LOOPBACK, dataDir: this.#dir.path, http: { enabled: false } }, { locators: 'on-demand' })
    await node.addAgent({ name: AGENT, handler: 'digest' })
    await node.sleep(node.agents.get(AGENT))
    await node.stop()
  }

  async close(): Promise<void> {
    await this.#kill()
    this.#dir.remove()
    rmSync(this.#scratch, { recursive: true, force: true })
  }

  async cycle(seed: number): Promise<DiskCycle> {
    const kind = DISK_CYCLE_KINDS[seed % DISK_CYCLE_KINDS.length] as DiskCycleKind
    const source = seededRandom(seed)
    const below = (n: number) => Math.floor(randomFraction(source) * n)
    const startedMs = performance.now()
    const posts: Posts = { acknowledged: [], lied: [], refused: [] }
    const violations: string[] = []
    let lostBytes = 0
    try {
      violations.push(...(await this.#spoil(kind, posts, below)))
      await this.#kill()
      lostBytes = this.#disk.powerCut(seed).reduce((sum, one) => sum + one.lostBytes, 0)
      violations.push(...(await this.#judge(posts)))
    } catch (error) {
      violations.push(error instanceof Error ? `${error.message}\n${error.stack}` : String(error))
    } finally {
      await this.#kill()
    }
    const { failures } = this.#disk.counts()
    return {
      seed,
      kind,
      ms: performance.now() - startedMs,
      acknowledged: posts.acknowledged.length,
      refused: posts.refused.length,
      failures,
      lostBytes,
      violations
    }
  }

  /** Posts, spoils the disk meanwhile, and mends it unless the power goes. */
  async #spoil(kind: DiskCycleKind, posts: Posts, below: (n: number) => number): Promise<string[]> {
    this.#daemon = startDaemon(this.#dir.path, { ...LOOPBACK, http: { enabled: false }, logs: { level: 'silent' } }, this.#disk.begin())
    await ready(this.#daemon)
    const wrong: string[] = []
    let isOver = false
    let lies = false
    const post = async () => {
      while (!isOver) await this.#post(posts, () => lies)
    }
    const posters = Promise.all(Array.from({ length: POSTERS }, post))
    const taken = () => posts.acknowledged.length + posts.lied.length
    try {
      await until(`${TAKEN} messages taken`, () => taken() >= TAKEN + below(10))
      if (kind === 'power cut') {
        this.#disk.arm({ delayUs: 5_000 + below(30_000) }) // so that there is something unsynced to lose
        await sleep(below(100))
        await this.#kill()
        return wrong
      }
      const faults = faultsOf(kind, below)
      lies = faults.syncLies === 1
      this.#disk.arm(faults)
      const before = taken()
      if (kind === 'slow disk') await until('messages taken slowly', () => taken() >= before + 2)
      else if (lies) await until('messages taken on a lie', () => taken() >= before + TAKEN)
      else {
        await until('a fault met', () => this.#disk.counts().failures > 0 && posts.refused.length > 0)
        if (faults.syncTimes === ALWAYS || faults.writeTimes === ALWAYS) {
          const { state, reason } = await this.#storeState()
          if (state === 'ok' || reason === undefined) wrong.push(`${kind}: the status says "${state}", and no reason`)
        }
      }
      if (lies) return wrong
      this.#disk.heal()
      const healed = taken()
      await until('messages taken again, without a restart', () => taken() >= healed + TAKEN)
      const { state } = await this.#storeState()
      if (state !== 'ok') wrong.push(`after ${kind} was mended the status says "${state}"`)
      return wrong
    } finally {
      isOver = true
      if (kind === 'power cut' || lies) await this.#kill()
      await posters
    }
  }

  async #post(posts: Posts, lies: () => boolean): Promise<void> {
    const messageId = `m-${this.#posted++}`
    const doubtful = lies()
    const answer = await rookery('send', AGENT, '--text', 'later', '--message-id', messageId, '--data', this.#dir.path, '--json')
    if (answer.code === 7) (doubtful || lies() ? posts.lied : posts.acknowledged).push(messageId)
    else {
      const { code, kind } = answer.error()
      posts.refused.push({ code, kind })
      await sleep(20)
    }
  }

  async #storeState(): Promise<NodeStatus['store']> {
    return (await rookery('status', '--data', this.#dir.path, '--json')).json<NodeStatus>().store
  }

  /** Opens what is left, and looks for all that was acknowledged: in the queue, and after the wake as tasks. */
  async #judge({ acknowledged, lied, refused }: Posts): Promise<string[]> {
    const wrong: string[] = []
    for (const { code, kind } of refused) {
      if (kind !== 'storage' && kind !== 'unavailable') wrong.push(`a send was refused with ${code} (${kind}), not for the disk`)
    }
    const node = await createNode({ ...LOOPBACK, dataDir: this.#dir.path, http: { enabled: false } }, { locators: 'on-demand' })
    try {
      const agent = node.agents.get(AGENT)
      const waiting = (await node.queueUsage(agent)).messages
      if (waiting < acknowledged.length) wrong.push(`${acknowledged.length} were acknowledged, and ${waiting} wait`)
      if (waiting > acknowledged.length + lied.length + refused.length + POSTERS) wrong.push(`${waiting} wait, more than were sent`)
      await node.wake(agent)
      const counts = new Map<string, number>()
      let cursor: string | undefined
      do {
        const page = await node.todos.list({ agent: homeOf(agent), limit: 100, ...(cursor === undefined ? {} : { cursor }) })
        for (const { history } of page.todos) {
          const id = String(history[0]?.messageId)
          counts.set(id, (counts.get(id) ?? 0) + 1)
        }
        cursor = page.next
      } while (cursor !== undefined)
      for (const id of acknowledged) if (!counts.has(id)) wrong.push(`${id} was acknowledged and is gone`)
      for (const [id, count] of counts) if (count > 1) wrong.push(`${id} became ${count} tasks`)
      await node.sleep(agent)
    } finally {
      await node.stop()
    }
    return wrong
  }

  async #kill(): Promise<void> {
    this.#daemon?.kill('SIGKILL')
    await this.#daemon?.exited
    this.#daemon = undefined
  }
}

function faultsOf(kind: Exclude<DiskCycleKind, 'power cut'>, below: (n: number) => number): DiskFaults {
  switch (kind) {
    case 'one sync fails':
      return { syncErrno: ERRNO.EIO, syncAfter: below(5), syncTimes: 1 }
    case 'syncs fail for a while':
      return { syncErrno: ERRNO.EIO, syncAfter: below(5), syncTimes: ALWAYS }
    case 'a write is torn':
      return { writeErrno: ERRNO.EIO, writeAfter: below(9), writeTimes: 1, writeTorn: 1 }
    case 'no space for a while':
      return {
        writeErrno: ERRNO.ENOSPC,
        writeAfter: below(9),
        writeTimes: ALWAYS,
        writeTorn: below(2),
        openErrno: ERRNO.ENOSPC,
        openTimes: ALWAYS
      }
    case 'no file can be opened':
      return { writeErrno: ERRNO.EIO, writeAfter: 2, writeTimes: 1, openErrno: ERRNO.EMFILE, openTimes: 3 }
    case 'slow disk':
      return { delayUs: 100_000 + below(400_000) }
    case 'syncs that lied':
      return { syncLies: 1 }
  }
}

async function until(what: string, holds: () => boolean): Promise<void> {
  const untilMs = performance.now() + WAIT_MS
  while (!holds()) {
    if (performance.now() > untilMs) throw new RookeryError('WAITED_TOO_LONG', `no ${what} within ${WAIT_MS} ms`, { kind: 'internal' })
    await sleep(10)
  }
}

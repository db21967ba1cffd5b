import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import type { AppliedChannel } from './crash-facts.ts'
import type { NodeOrder, Order, PollAnswer, Report } from './crash-orders.ts'

const NODE_SCRIPT = join(import.meta.dirname, 'crash-node.ts')
const UP_MS = 30_000
const ANSWER_MS = 30_000
const STDERR_BYTES_MAX = 8_192

/** A promise that gives up. */
export async function within<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not happen within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** One life of a node: from its start to its death. */
export class NodeProcess {
  readonly up: Promise<{ peer: string; addrs: string[] }>
  /** how it ended: by a signal of ours or its own, or by itself */
  readonly ended: Promise<{ signal: string | null; code: number | null }>
  /** its application could not store an effect */
  readonly broken: Promise<void>
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (report: Report) => void>()
  #next = 1
  #stderr = ''
  isOver = false

  constructor(order: NodeOrder) {
    this.#child = fork(NODE_SCRIPT, [JSON.stringify(order)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: ['--experimental-strip-types', '--no-warnings']
    })
    const up = Promise.withResolvers<{ peer: string; addrs: string[] }>()
    const broken = Promise.withResolvers<void>()
    this.up = up.promise
    this.broken = broken.promise
    this.up.catch(() => {})
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-STDERR_BYTES_MAX)
    })
    this.#child.on('message', (report: Report) => {
      if (report.kind === 'up') up.resolve({ peer: report.peer, addrs: report.addrs })
      else if (report.kind === 'broken') broken.resolve()
      else {
        this.#waiting.get(report.id)?.(report)
        this.#waiting.delete(report.id)
      }
    })
    this.#child.on('error', () => {}) // a message to a process that was just killed
    this.ended = new Promise((resolve) => {
      this.#child.on('close', (code, signal) => {
        this.isOver = true
        up.reject(new Error(`${order.name} ended before it was up (${signal ?? code}): ${this.#stderr}`))
        resolve({ signal, code })
      })
    })
  }

  get stderr(): string {
    return this.#stderr
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  async isUp(): Promise<{ peer: string; addrs: string[] }> {
    return await within(this.up, UP_MS, 'a start')
  }

  tell(order: Order): void {
    if (!this.isOver && this.#child.connected) this.#child.send(order, () => {})
  }

  async kill(): Promise<void> {
    if (!this.isOver) this.#child.kill('SIGKILL')
    await this.ended
  }

  async poll(): Promise<PollAnswer> {
    const report = await this.#ask((id) => ({ kind: 'poll', id }))
    if (report.kind !== 'poll') throw new Error('another answer than asked for')
    return report.answer
  }

  async rows(from: Record<number, number>): Promise<AppliedChannel[]> {
    const report = await this.#ask((id) => ({ kind: 'rows', id, from }))
    if (report.kind !== 'rows') throw new Error('another answer than asked for')
    return report.applied
  }

  async #ask(order: (id: number) => Order): Promise<Report> {
    const id = this.#next++
    const answer = new Promise<Report>((resolve) => this.#waiting.set(id, resolve))
    this.tell(order(id))
    const over = this.ended.then(({ signal, code }) => {
      throw new Error(`a node ended by itself (${signal ?? code}): ${this.#stderr}`)
    })
    over.catch(() => {})
    return await within(Promise.race([answer, over]), ANSWER_MS, 'an answer')
  }
}

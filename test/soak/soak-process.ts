import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { NodeAudit, NodeSample, SoakNodeOrder, SoakOrder, SoakReport } from './soak-orders.ts'

const NODE_SCRIPT = join(import.meta.dirname, 'soak-node.ts')
const UP_MS = 180_000
const ANSWER_MS = 180_000

type Up = Extract<SoakReport, { kind: 'up' }>
export type WithoutId<T> = T extends { id: number } ? Omit<T, 'id'> : never

/** What a fault needs of the process. */
export interface ProcessMore {
  env?: Record<string, string>
  execArgv?: string[]
}

/** One life of a node of the soak: from its start to its end. */
export class SoakProcess {
  readonly pid: number
  readonly startedMs = performance.now()
  readonly up: Promise<Up>
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (report: SoakReport) => void>()
  #next = 1
  isOver = false

  /** @param said - told of each line on its standard error */
  constructor(order: SoakNodeOrder, heard: (report: SoakReport) => void, said: (line: string) => void, more: ProcessMore = {}) {
    this.#child = fork(NODE_SCRIPT, [JSON.stringify(order)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      detached: true, // Ctrl-C in a terminal is for the parent alone
      env: { ...process.env, ...more.env },
      execArgv: ['--expose-gc', '--experimental-strip-types', '--disable-warning=ExperimentalWarning', ...(more.execArgv ?? [])]
    })
    this.pid = this.#child.pid as number
    const up = Promise.withResolvers<Up>()
    this.up = up.promise
    this.up.catch(() => {})
    let last = ''
    createInterface({ input: this.#child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
      last = line
      said(line)
    })
    this.#child.on('message', (report: SoakReport) => {
      if (report.kind === 'up') up.resolve(report)
      else if ('id' in report) {
        this.#waiting.get(report.id)?.(report)
        this.#waiting.delete(report.id)
      } else heard(report)
    })
    this.#child.on('error', () => {}) // a message to a process that was just killed
    this.ended = new Promise((resolve) => {
      this.#child.on('close', (code, signal) => {
        this.isOver = true
        up.reject(new Error(`a node ended before it was up (${signal ?? code}): ${last}`))
        resolve({ code, signal })
      })
    })
  }

  async isUp(): Promise<Up> {
    return await within(this.up, UP_MS, 'a start')
  }

  tell(order: SoakOrder): void {
    if (!this.isOver && this.#child.connected) this.#child.send(order, () => {})
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.isOver) this.#child.kill(signal)
  }

  async sample(): Promise<NodeSample | undefined> {
    const report = await this.ask({ kind: 'sample' })
    return report?.kind === 'sample' ? report.sample : undefined
  }

  async audit(tasks: string[]): Promise<NodeAudit | undefined> {
    const report = await this.ask({ kind: 'audit', tasks })
    return report?.kind === 'audit' ? report.audit : undefined
  }

  /** Undefined where the node ended before it answered. @throws Error where it could not do it, or takes too long */
  async ask(order: WithoutId<SoakOrder>): Promise<SoakReport | undefined> {
    const id = this.#next++
    const answer = new Promise<SoakReport>((resolve) => this.#waiting.set(id, resolve))
    this.tell({ ...order, id } as SoakOrder)
    const report = await within(Promise.race([answer, this.ended.then(() => undefined)]), ANSWER_MS, `an answer to "${order.kind}"`)
    if (report?.kind === 'done' && report.error !== undefined) throw new Error(`${order.kind}: ${report.error}`)
    return report
  }
}

/** @throws Error when it takes longer */
export async function within<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

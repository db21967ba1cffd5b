import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { within } from './crash-process.ts'
import type { MailNodeOrder, MailOrder, MailReport, MailView } from './mail-orders.ts'

const NODE_SCRIPT = join(import.meta.dirname, 'mail-node.ts')
const UP_MS = 120_000
const ANSWER_MS = 60_000
const STDERR_BYTES_MAX = 8_192

/** One life of a node of the mail scenario: from its start to its death. */
export class MailProcess {
  /** its address, with its PeerId */
  readonly up: Promise<string>
  readonly ended: Promise<void>
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (report: MailReport) => void>()
  #next = 1
  #stderr = ''
  isOver = false

  constructor(order: MailNodeOrder, heard: (report: MailReport) => void) {
    this.#child = fork(NODE_SCRIPT, [JSON.stringify(order)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, NODE_COMPILE_CACHE: join(order.directory, '..', 'compiled') },
      execArgv: ['--experimental-strip-types', '--no-warnings']
    })
    const up = Promise.withResolvers<string>()
    this.up = up.promise
    this.up.catch(() => {})
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-STDERR_BYTES_MAX)
    })
    this.#child.on('message', (report: MailReport) => {
      if (report.kind === 'up') up.resolve(report.address)
      else if ('id' in report) {
        this.#waiting.get(report.id)?.(report)
        this.#waiting.delete(report.id)
      } else heard(report)
    })
    this.#child.on('error', () => {}) // a message to a process that was just killed
    this.ended = new Promise((resolve) => {
      this.#child.on('close', (code, signal) => {
        this.isOver = true
        up.reject(new Error(`the ${order.role} ended before it was up (${signal ?? code}): ${this.#stderr}`))
        resolve()
      })
    })
  }

  get stderr(): string {
    return this.#stderr
  }

  async isUp(): Promise<string> {
    return await within(this.up, UP_MS, 'a start')
  }

  tell(order: MailOrder): void {
    if (!this.isOver && this.#child.connected) this.#child.send(order, () => {})
  }

  async kill(): Promise<void> {
    if (!this.isOver) this.#child.kill('SIGKILL')
    await this.ended
  }

  /** Resolves when it has carried the order out, or died. */
  async done(kind: 'mend' | 'push'): Promise<void> {
    await this.#ask((id) => ({ kind, id }))
  }

  async view(): Promise<MailView> {
    const report = await this.#ask((id) => ({ kind: 'view', id }))
    if (report?.kind !== 'view') throw new Error(`a node ended by itself, or could not be looked at: ${this.#stderr}`)
    return report.view
  }

  async #ask(order: (id: number) => MailOrder): Promise<MailReport | undefined> {
    const id = this.#next++
    const answer = new Promise<MailReport>((resolve) => this.#waiting.set(id, resolve))
    this.tell(order(id))
    return await within(Promise.race([answer, this.ended.then(() => undefined)]), ANSWER_MS, 'an answer')
  }
}

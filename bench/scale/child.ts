import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

type Answer = { id: number; result: unknown } | { id: number; error: string }

/** A process beside the one that is measured: it does what it is asked and ends with whoever asks. */
export class Child {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, { resolve(result: never): void; reject(error: Error): void }>()
  #asked = 0

  constructor(file: string, args: readonly string[] = []) {
    const path = fileURLToPath(new URL(file, import.meta.url))
    this.#child = spawn(process.execPath, [path, ...args], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], serialization: 'advanced' })
    this.#child.on('message', (answer: Answer) => {
      const waiting = this.#waiting.get(answer.id)
      this.#waiting.delete(answer.id)
      if ('error' in answer) waiting?.reject(new Error(answer.error))
      else waiting?.resolve(answer.result as never)
    })
    this.#child.once('exit', (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`${file} ended with ${code}`))
      this.#waiting.clear()
    })
  }

  ask<T>(what: string, args: unknown = {}): Promise<T> {
    const id = this.#asked++
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#child.send({ id, what, args })
    })
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.disconnect()
    await gone
  }
}

/** Answers a {@link Child}'s questions by name until its owner goes. */
export function serveChild(answers: Record<string, (args: never) => Promise<unknown> | unknown>): void {
  process.on('SIGINT', () => {})
  process.on('disconnect', () => process.exit(0))
  process.on('message', async ({ id, what, args }: { id: number; what: string; args: never }) => {
    try {
      process.send?.({ id, result: await answers[what]?.(args) })
    } catch (error) {
      process.send?.({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  })
}

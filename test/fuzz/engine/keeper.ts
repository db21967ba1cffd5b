import { Worker } from 'node:worker_threads'
import type { Finding } from './fuzzer.ts'
import { SharedInput } from './shared.ts'
import type { ThreadNews, ThreadOrder } from './thread.ts'

/** A thread that gets no further with one input for this long is taken to hang. */
const HANG_MS = 30_000
const HEAP_MB_MAX = 1_024

/** Targets of one module that run in one thread, one after the other. */
export interface Unit {
  readonly file: string
  readonly names: readonly string[]
}

export interface KeeperInit {
  readonly seed: number
  readonly limit: ThreadOrder['limit']
  readonly news: (news: ThreadNews) => void
}

/** Runs one unit. A hang, or memory without end, is a finding too; the thread is ended then and what was left goes on in another. */
export class Keeper {
  readonly #init: KeeperInit
  #shared: SharedInput | undefined
  #stopped = false

  constructor(init: KeeperInit) {
    this.#init = init
  }

  stop(): void {
    this.#stopped = true
    this.#shared?.stop()
  }

  async run(unit: Unit): Promise<void> {
    let names = [...unit.names]
    while (names.length > 0 && !this.#stopped) {
      const died = await this.#thread({ file: unit.file, names })
      if (died === undefined) return
      this.#init.news({ kind: 'finding', finding: died })
      names = names.slice(names.indexOf(died.target) + 1)
    }
  }

  /** @returns what ended the thread before its time */
  #thread(unit: Unit): Promise<Finding | undefined> {
    const shared = new SharedInput()
    this.#shared = shared
    const { seed, limit, news } = this.#init
    const order: ThreadOrder = { memory: shared.memory, ...unit, seed, limit }
    const worker = new Worker(new URL('./thread.ts', import.meta.url), {
      workerData: order,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB_MAX }
    })
    const { promise, resolve, reject } = Promise.withResolvers<Finding | undefined>()
    let target: string | undefined
    let died: Finding | undefined
    let beats = -1
    let heardMs = performance.now()
    const end = (key: string, error: string) => {
      died ??= { target: target ?? '', key, error, input: shared.input }
      void worker.terminate()
    }
    const watch = setInterval(() => {
      if (shared.beats !== beats) {
        beats = shared.beats
        heardMs = performance.now()
      } else if (target !== undefined && performance.now() - heardMs > HANG_MS) end('hang', `no end within ${HANG_MS} ms`)
    }, 500)
    worker.on('message', (message: ThreadNews) => {
      if (message.kind === 'begun') target = message.target
      news(message)
    })
    worker.on('error', (error) => {
      if (target === undefined) reject(error)
      else end(error.message, error.stack ?? error.message)
    })
    worker.on('exit', (code) => {
      clearInterval(watch)
      if (code !== 0 && died === undefined) reject(new Error(`the thread of targets/${unit.file}.ts ended with ${code}`))
      resolve(died)
    })
    return promise
  }
}

import { parentPort, workerData } from 'node:worker_threads'
import { FastRandom } from '../model/random.ts'
import { seedChance } from './seeded-chance.ts'
import { VirtualTime } from './virtual-time.ts'

/** The thread of one run in virtual time: nothing that reads a clock or draws is loaded before its time and its chance are in place. */
const time = new VirtualTime().install()
seedChance(globalThis, new FastRandom((workerData as import('./virtual-calls.ts').VirtualWorkerData).options.seed ?? 0))
const { runWithin } = await import('../run-scenario.ts')
const { RookeryError } = await import('../../src/errors.ts')

type Data = import('./virtual-calls.ts').VirtualWorkerData
type Reply = import('./virtual-calls.ts').VirtualReply

const { definition, options, log } = workerData as Data
const say = (reply: Reply) => parentPort?.postMessage(reply)
const stopping = new AbortController()
parentPort?.on('message', () => stopping.abort(new Error('interrupted')))
try {
  const report = await time.run(() =>
    runWithin(
      definition,
      {
        ...options,
        signal: stopping.signal,
        onProgress: (progress) => say({ progress }),
        ...(log ? { onLog: (line: string) => say({ log: line }) } : {})
      },
      time
    )
  )
  say({ report })
} catch (error) {
  const message = error instanceof Error ? error.message : String(error)
  say({ error: error instanceof RookeryError ? { message, code: error.code, kind: error.kind } : { message } })
}
parentPort?.close()

import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { RookeryError, type RookeryErrorInit } from '../../src/errors.ts'
import type { SimReport } from '../report/report.ts'
import type { RunOptions } from '../run-scenario.ts'
import type { Definition } from '../scenario/definition.ts'
import type { VirtualReply, VirtualWorkerData } from './virtual-calls.ts'

/** MiB that the heap of the thread may come to */
const HEAP_MAX_MB = 4_096

/** Runs a scenario on real nodes in a thread whose time is virtual. @throws RookeryError of the run, or where the thread ends by itself */
export async function runVirtually(
  definition: Definition,
  { signal, onProgress, onLog, onStart: _started, seams: _seams, ...options }: RunOptions
): Promise<SimReport> {
  const workerData: VirtualWorkerData = { definition, options, log: onLog !== undefined }
  const worker = new Worker(new URL(`./virtual-worker${extname(import.meta.url)}`, import.meta.url), {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MAX_MB }
  })
  const abort = () => worker.postMessage('abort')
  signal?.addEventListener('abort', abort, { once: true })
  if (signal?.aborted === true) abort()
  try {
    return await new Promise<SimReport>((resolve, reject) => {
      worker.on('message', (reply: VirtualReply) => {
        if ('progress' in reply) onProgress?.(reply.progress)
        else if ('log' in reply) onLog?.(reply.log)
        else if ('report' in reply) resolve(reply.report)
        else {
          const { message, code, kind } = reply.error
          reject(code === undefined ? new Error(message) : new RookeryError(code, message, { kind: kind as RookeryErrorInit['kind'] }))
        }
      })
      worker.on('error', (error) => reject(error instanceof Error ? error : new Error(String(error))))
      worker.on('exit', () => reject(new Error('the thread of the run ended')))
    })
  } finally {
    signal?.removeEventListener('abort', abort)
    await worker.terminate()
  }
}

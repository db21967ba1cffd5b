import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Stands for a number of its own in every request's body. */
export const MARK = '#N#'

/** POSTs over so many connections that stay open, each asking again as soon as it has its answer. */
export interface LoadOrder {
  port: number
  path: string
  headers: Record<string, string>
  /** with {@link MARK} where each request is to differ */
  body: string
  connections: number
  count: number
  /** what every answer has to have */
  status: number
  /** whether the whole answer is timed, or the first event of a stream; default the answer */
  until?: 'answer' | 'first-event'
}

export interface LoadResult {
  perSec: number
  p50Ms: number
  p99Ms: number
}

export interface Load {
  run(order: LoadOrder): Promise<LoadResult>
  stop(): Promise<void>
}

/** How the processes of the HTTP benchmarks are placed: the servers need the second core for what they do beside their main thread. */
export const LOAD_PLACEMENT = 'client in a process of its own, not pinned'

export async function startLoad(): Promise<Load> {
  const file = fileURLToPath(new URL('./load-process.ts', import.meta.url))
  const child: ChildProcess = spawn(process.execPath, [file], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  await once(child, 'message')
  return {
    async run(order) {
      child.send(order)
      const [result] = (await once(child, 'message')) as [LoadResult | { error: string }]
      if ('error' in result) throw new Error(result.error)
      return result
    },
    async stop() {
      const gone = once(child, 'exit')
      child.disconnect()
      await gone
    }
  }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export type ReadersOrder =
  | { what: 'open'; port: number; path: string; headers: Record<string, string>; body: string; count: number }
  | { what: 'watch'; marker: string }
  | { what: 'close' }

export type ReadersReport =
  | { what: 'opened' | 'watching' | 'closed' }
  | { what: 'seen'; atMs: number[] }
  | { what: 'failed'; error: string }

/** Readers of streams in a process of their own. */
export interface Readers {
  open(order: Omit<ReadersOrder & { what: 'open' }, 'what'>): Promise<void>
  /** when each reader saw `marker`, in ms since the epoch; `fire` is called once all look out for it */
  watch(marker: string, fire: () => Promise<void>): Promise<number[]>
  close(): Promise<void>
  stop(): Promise<void>
}

export function startReaders(): Readers {
  const file = fileURLToPath(new URL('./open-streams-process.ts', import.meta.url))
  const child: ChildProcess = spawn(process.execPath, [file], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const report = async (what: ReadersReport['what']): Promise<ReadersReport> => {
    const [got] = (await once(child, 'message')) as [ReadersReport]
    if (got.what !== what) throw new Error(got.what === 'failed' ? got.error : `reported ${got.what}`)
    return got
  }
  const ask = (order: ReadersOrder) => child.send(order)
  return {
    async open(order) {
      ask({ what: 'open', ...order })
      await report('opened')
    },
    async watch(marker, fire) {
      ask({ what: 'watch', marker })
      await report('watching')
      const seen = report('seen')
      await fire()
      return ((await seen) as ReadersReport & { what: 'seen' }).atMs
    },
    async close() {
      ask({ what: 'close' })
      await report('closed')
    },
    async stop() {
      const gone = once(child, 'exit')
      child.disconnect()
      await gone
    }
  }
}

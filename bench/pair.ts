import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { OthersInfo } from './others.ts'

export interface PeerInfo extends OthersInfo {
  did: string
  peer: string
  addrs: string[]
  raw: string[]
}

export interface BenchPeer {
  info: PeerInfo
  /** how this process and the peer were placed */
  placement: string
  stop(): Promise<void>
}

/** Starts the peer on the second core and moves this process to the first, where `taskset` can. */
export async function startPeer(): Promise<BenchPeer> {
  const file = fileURLToPath(new URL('./peer.ts', import.meta.url))
  const apart = pin()
  const [command, ...args] = apart ? ['taskset', '-c', '1', process.execPath, file] : [process.execPath, file]
  const child: ChildProcess = spawn(command as string, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const info = await new Promise<PeerInfo>((resolve, reject) => {
    child.once('message', (message) => resolve(message as PeerInfo))
    child.once('exit', (code) => reject(new Error(`the peer ended with ${code}`)))
  })
  return {
    info,
    placement: apart ? 'two processes, pinned apart' : 'two processes, not pinned',
    async stop() {
      const gone = once(child, 'exit')
      child.disconnect()
      await gone
    }
  }
}

/** Moves this process to the first core. */
export function pin(): boolean {
  return canPin() && taskset('-acp', '0', String(process.pid))
}

/** There are two cores and the tool that binds processes to them. */
export function canPin(): boolean {
  return availableParallelism() > 1 && taskset('-p', String(process.pid))
}

function taskset(...args: string[]): boolean {
  try {
    execFileSync('taskset', args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { NodeStatus } from '../../src/api/methods.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { RookeryErrorJson } from '../../src/errors.ts'
import { initDataDir } from '../../src/identity/init.ts'
import { systemRandom } from '../../src/platform/random.ts'

/** Loopback only, any port, and the door open: what a grant is about is tested where it is named. */
export const LOOPBACK: ConfigInput = { listen: ['/ip4/127.0.0.1/udp/0/quic-v1'], http: { port: 0 }, grants: { peers: 'anyone' } }

/** An initialised data directory that goes away with {@link remove}. */
export function nodeDir(): { path: string; peer: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'rookery-node-'))
  const { peer } = initDataDir(path, { crypto: nodeCrypto, random: systemRandom })
  return { path, peer, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export interface DaemonProcess {
  readonly child: ChildProcess
  readonly pid: number
  /** its first line: that it is ready, or why not */
  readonly first: Promise<{ ready: NodeStatus } | { error: RookeryErrorJson }>
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  kill(signal: NodeJS.Signals): void
}

/** `rookery start` without the command line, in a process of its own. */
export function startDaemon(dataDir: string, config: ConfigInput = LOOPBACK, env: Record<string, string> = {}): DaemonProcess {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'daemon-process.ts'), dataDir, JSON.stringify(config)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env }
  })
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) =>
    child.once('exit', (code, signal) => resolve({ code, signal }))
  )
  const first = new Promise<{ ready: NodeStatus } | { error: RookeryErrorJson }>((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).once('line', (line) => resolve(JSON.parse(line)))
    void exited.then(({ code, signal }) => reject(new Error(`the daemon ended before its first line: ${code ?? signal}`)))
  })
  first.catch(() => {})
  return { child, pid: child.pid as number, first, exited, kill: (signal) => void child.kill(signal) }
}

export async function ready(daemon: DaemonProcess): Promise<NodeStatus> {
  const line = await daemon.first
  if ('ready' in line) return line.ready
  throw new Error(`the daemon did not start: ${line.error.code} ${line.error.message}`)
}

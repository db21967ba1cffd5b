import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { main } from '../../src/cli/main.ts'

export const LAUNCHER = fileURLToPath(new URL('../../bin/rookery.js', import.meta.url))

class Capture extends Writable {
  text = ''
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    done()
  }
}

export interface CliRun {
  code: number
  stdout: string
  stderr: string
  /** stdout as JSON */
  json<T = Record<string, unknown>>(): T
  /** the error that `--json` prints on stderr */
  error(): { code: string; kind: string; message: string; field?: string; value?: unknown; remedy?: string }
}

/** Runs one command line in this process, through the same door as the launcher. */
export async function rookery(...argv: string[]): Promise<CliRun> {
  const stdout = new Capture()
  const stderr = new Capture()
  const code = await main(argv, { streams: { stdout, stderr }, env: {}, signal: new AbortController().signal })
  return run(code, stdout.text, stderr.text)
}

function run(code: number, stdout: string, stderr: string): CliRun {
  return {
    code,
    stdout,
    stderr,
    json: <T>() => JSON.parse(stdout) as T,
    error: () => (JSON.parse(stderr.trim().split('\n').at(-1) ?? '') as { error: ReturnType<CliRun['error']> }).error
  }
}

/** Runs the launcher as a process of its own. */
export async function launcher(argv: string[], options: { timeoutMs: number }): Promise<CliRun> {
  const child = spawn(process.execPath, [LAUNCHER, ...argv], { stdio: ['ignore', 'pipe', 'pipe'], timeout: options.timeoutMs })
  const out = collect(child)
  const [code] = (await once(child, 'close')) as [number | null]
  return run(code ?? -1, out.stdout, out.stderr)
}

function collect(child: ChildProcess): { stdout: string; stderr: string } {
  const out = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk: Buffer) => (out.stdout += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (out.stderr += chunk.toString()))
  return out
}

const folders: string[] = []
const children = new Set<ChildProcess>()

export function tempDir(): string {
  const folder = mkdtempSync(join(tmpdir(), 'rookery-test-'))
  folders.push(folder)
  return folder
}

export interface StartedNode {
  dataDir: string
  child: ChildProcess
  status: { node: { peer: string; pid: number }; addresses: string[]; http?: { url: string } }
  /** resolves with the exit code */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

/** Starts a node that listens on loopback and resolves when it says that it serves. */
export async function startNode(dataDir: string, ...flags: string[]): Promise<StartedNode> {
  const argv = [
    'start',
    '--data',
    dataDir,
    '--json',
    '--listen',
    '/ip4/127.0.0.1/udp/0/quic-v1',
    '--http-port',
    '0',
    '--log-level',
    'warn',
    ...flags
  ]
  const env = { ROOKERY_GRANTS_PEERS: 'anyone', ...process.env }
  const child = spawn(process.execPath, [LAUNCHER, ...argv], { stdio: ['ignore', 'pipe', 'pipe'], env })
  children.add(child)
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const exited = once(child, 'exit').then(([code]) => {
    children.delete(child)
    return code as number | null
  })
  const line = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line').then(([text]) => text as string),
    exited.then((code) => Promise.reject(new Error(`the node ended with ${code}: ${stderr}`)))
  ])
  return {
    dataDir,
    child,
    status: (JSON.parse(line) as { status: StartedNode['status'] }).status,
    stop: async (signal = 'SIGTERM') => {
      child.kill(signal)
      return exited
    }
  }
}

/** Ends what a test left running, by the ids it started, and removes its folders. */
export async function cleanUp(): Promise<void> {
  await Promise.all(
    [...children].map(async (child) => {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    })
  )
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { callControl } from '../../api/control-client.ts'
import type { AgentView, ControlMethod, ControlParams, ControlResults, NodeStatus } from '../../api/methods.ts'
import { nodeCrypto } from '../../crypto/node-crypto.ts'
import { RookeryError } from '../../errors.ts'
import { initDataDir } from '../../identity/init.ts'
import { systemRandom } from '../../platform/random.ts'

const LAUNCHER = fileURLToPath(
  new URL(import.meta.url.includes('/dist/') ? '../../../../bin/rookery.js' : '../../../bin/rookery.js', import.meta.url)
)
const READY_TIMEOUT_MS = 20_000
const STDERR_LINES_KEPT = 50

/** A node of the demo: a process of its own with a data directory of its own, driven as any user would drive it. */
export class ProcessNode {
  readonly name: string
  readonly dataDir: string
  #child: ChildProcess | undefined
  #stderr: string[] = []

  constructor(name: string, dataDir: string) {
    this.name = name
    this.dataDir = dataDir
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Writes the configuration of a node that listens on loopback only. */
  async configure(bootstrap: readonly string[]): Promise<void> {
    initDataDir(this.dataDir, { crypto: nodeCrypto, random: systemRandom })
    const config = {
      network: 'lan',
      listen: ['/ip4/127.0.0.1/udp/0/quic-v1', '/ip4/127.0.0.1/tcp/0'],
      bootstrap: [...bootstrap],
      mdns: false,
      http: { port: 0 },
      logs: { level: 'warn' }
    }
    await writeFile(join(this.dataDir, 'config.yaml'), stringify(config), { mode: 0o600 })
  }

  /** Starts the process and resolves when the node says that it serves. */
  async start(options: { signal: AbortSignal }): Promise<NodeStatus> {
    // A process group of its own: Ctrl-C reaches the demo, which then stops its nodes in order.
    const child = spawn(process.execPath, [LAUNCHER, 'start', '--data', this.dataDir, '--json'], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true
    })
    this.#child = child
    this.#stderr = []
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
      this.#stderr.push(line)
      if (this.#stderr.length > STDERR_LINES_KEPT) this.#stderr.shift()
    })
    const signal = AbortSignal.any([options.signal, AbortSignal.timeout(READY_TIMEOUT_MS)])
    const ready = once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), 'line', { signal })
    const ended = once(child, 'exit', { signal }).then(([code]) => {
      throw new RookeryError('NODE_ENDED', `node ${this.name} ended with code ${code} before it was ready:\n${this.#stderr.join('\n')}`, {
        kind: 'internal'
      })
    })
    try {
      await Promise.race([ready, ended])
    } catch (cause) {
      if (cause instanceof RookeryError || options.signal.aborted) throw cause
      throw new RookeryError(
        'NODE_NOT_READY',
        `node ${this.name} was not ready within ${READY_TIMEOUT_MS / 1_000} s:\n${this.#stderr.join('\n')}`,
        {
          kind: 'timeout',
          cause
        }
      )
    } finally {
      ended.catch(() => {})
      ready.catch(() => {})
    }
    return this.call('status', {}, options)
  }

  call<M extends ControlMethod>(method: M, params: ControlParams<M>, options: { signal: AbortSignal }): Promise<ControlResults[M]> {
    return callControl(this.dataDir, method, params, options)
  }

  /** SIGKILL: no goodbye, no flush. Resolves when the process is gone. */
  async kill(): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }

  /** SIGTERM, and SIGKILL for one that does not end within 8 s. */
  async stop(): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), 8_000)
    await gone
    clearTimeout(late)
  }

  /** Lets the process go on after ours ends. */
  release(): void {
    const child = this.#child
    ;(child?.stdout as { unref?(): void } | null)?.unref?.()
    ;(child?.stderr as { unref?(): void } | null)?.unref?.()
    child?.unref()
  }
}

export async function tokenOf(agent: AgentView): Promise<string> {
  if (agent.tokenFile === undefined) throw new RookeryError('TOKEN_MISSING', `agent ${agent.name} has no token file`, { kind: 'internal' })
  return (await readFile(agent.tokenFile, 'utf8')).trim()
}

import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { callControl } from '../api/control-client.ts'
import type { ControlMethod, ControlParams, ControlResults } from '../api/methods.ts'
import { Output, type Streams } from './output.ts'

export interface GlobalOptions {
  data?: string
  config?: string
  json?: boolean
  color?: boolean
}

/** What a command gets: where the data lies, how to print, how to reach the node, and the signal that Ctrl-C fires. */
export interface CliContext {
  readonly streams: Streams
  readonly signal: AbortSignal
  readonly env: NodeJS.ProcessEnv
}

/** The data directory by flag, environment or default, in that order. */
export function dataDirOf(options: GlobalOptions, env: NodeJS.ProcessEnv): string {
  return resolve(options.data ?? env.ROOKERY_HOME ?? join(homedir(), '.rookery'))
}

/** One invocation: the command's global options, its output and its calls to the node. */
export class Invocation {
  readonly options: GlobalOptions
  readonly out: Output
  readonly signal: AbortSignal
  readonly env: NodeJS.ProcessEnv
  readonly dataDir: string

  constructor(context: CliContext, command: Command) {
    this.options = command.optsWithGlobals()
    this.out = new Output(context.streams, { json: this.options.json === true, color: this.options.color === false ? 'never' : 'auto' })
    this.signal = context.signal
    this.env = context.env
    this.dataDir = dataDirOf(this.options, context.env)
  }

  /** Calls the running node, showing its progress; Ctrl-C ends the work on the node too. */
  async call<M extends ControlMethod>(
    method: M,
    params: ControlParams<M>,
    { progress = 'shown', onEvent }: { progress?: 'shown' | 'quiet'; onEvent?: (event: unknown) => void } = {}
  ): Promise<ControlResults[M]> {
    const onProgress = (text: string) => this.out.progress(text)
    try {
      return await callControl(this.dataDir, method, params, {
        signal: this.signal,
        ...(progress === 'shown' ? { onProgress } : {}),
        ...(onEvent === undefined ? {} : { onEvent })
      })
    } finally {
      this.out.done()
    }
  }

  /** As {@link call}, for what has to be said though Ctrl-C was pressed: soon, or not at all. */
  async callAfterAbort<M extends ControlMethod>(method: M, params: ControlParams<M>): Promise<ControlResults[M]> {
    return await callControl(this.dataDir, method, params, { signal: AbortSignal.timeout(AFTER_ABORT_MS) })
  }

  /** Asks on a terminal; false where nobody watches, or for anything but a yes. */
  async confirm(question: string): Promise<boolean> {
    if (this.out.json || process.stdin.isTTY !== true || process.stderr.isTTY !== true) return false
    const { createInterface } = await import('node:readline/promises')
    const lines = createInterface({ input: process.stdin, output: process.stderr })
    try {
      return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `, { signal: this.signal })).trim())
    } finally {
      lines.close()
    }
  }
}

const AFTER_ABORT_MS = 2_000

/** The form of a command file. */
export type RegisterCommand = (program: Command, run: RunCommand) => void
export type RunCommand = (command: Command, action: (invocation: Invocation) => Promise<number | undefined>) => Promise<void>

import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The members of `struct control` in `faulty-sys.c`, in its order, but for the count behind them: 32 bits each. */
const MEMBERS = ['clockSec', 'receiveErrno', 'sendErrno', 'socketErrno', 'closedErrno', 'era'] as const
const FAILURES_AT = MEMBERS.length * 4

/** What is wrong from now on; see `faulty-sys.c`. */
export type SystemFaults = Partial<Record<Exclude<(typeof MEMBERS)[number], 'era'>, number>>

export const SYSTEM_ERRNO = { EIO: 5, EBADF: 9, EMFILE: 24, ENETUNREACH: 101 } as const

let library: string | undefined

/** Compiles the layer once; undefined where there is no C compiler or no way to put it under a process. */
export function faultySystem(): string | undefined {
  if (process.platform !== 'linux') return undefined
  if (library !== undefined) return library
  const at = join(mkdtempSync(join(tmpdir(), 'rookery-faults-')), 'faulty-sys.so')
  try {
    execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', at, join(import.meta.dirname, 'faulty-sys.c'), '-ldl'], { stdio: 'ignore' })
    library = at
    return at
  } catch {
    return undefined
  }
}

/** The clock and the sockets of one process, with faults that can be changed while it runs. */
export class FaultySystem {
  readonly #directory = mkdtempSync(join(tmpdir(), 'rookery-system-'))
  readonly #control = join(this.#directory, 'control')
  readonly env: Record<string, string>
  #era = 0

  constructor(library: string) {
    writeFileSync(this.#control, new Uint8Array(FAILURES_AT + 4))
    this.env = { LD_PRELOAD: library, ROOKERY_SYS_CONTROL: this.#control }
  }

  /** Puts these in the place of the former ones; in place, for the process has the file mapped. `closedErrno` is of the UDP sockets that are there now. */
  arm(faults: SystemFaults): void {
    if (faults.closedErrno !== undefined) this.#era++
    const values = Int32Array.from(MEMBERS, (member) => (member === 'era' ? this.#era : (faults[member] ?? 0)))
    const fd = openSync(this.#control, 'r+')
    writeSync(fd, new Uint8Array(values.buffer))
    closeSync(fd)
  }

  heal(): void {
    this.arm({})
  }

  /** calls that failed */
  failures(): number {
    return readFileSync(this.#control).readUInt32LE(FAILURES_AT)
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

import { execFileSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomFraction, seededRandom } from '../../src/platform/random.ts'

/** The members of `struct control` in `faulty-fs.c`, in its order, those that it counts last: one 32-bit number each. */
const MEMBERS = [
  'writeErrno',
  'writeAfter',
  'writeTimes',
  'writeTorn',
  'syncErrno',
  'syncAfter',
  'syncTimes',
  'syncLies',
  'openErrno',
  'openTimes',
  'delayUs',
  'writes',
  'syncs',
  'failures'
] as const
type Member = (typeof MEMBERS)[number]
const COUNTED: readonly Member[] = ['writes', 'syncs', 'failures']

/** What goes wrong from now on; see `faulty-fs.c`. */
export type DiskFaults = Partial<Record<Exclude<Member, 'writes' | 'syncs' | 'failures'>, number>>

export const ERRNO = { EIO: 5, EMFILE: 24, ENOSPC: 28 } as const
/** As often as there are tries. */
export const ALWAYS = 0xffff_ffff

let library: string | undefined

/** Compiles the layer once; undefined where there is no C compiler or no way to put it under a process. */
export function faultyFs(): string | undefined {
  if (process.platform !== 'linux') return undefined
  if (library !== undefined) return library
  const at = join(mkdtempSync(join(tmpdir(), 'rookery-faults-')), 'faulty-fs.so')
  try {
    execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', at, join(import.meta.dirname, 'faulty-fs.c'), '-ldl'], { stdio: 'ignore' })
    library = at
    return at
  } catch {
    return undefined
  }
}

/** The file system calls of a process below one directory, with faults that can be changed while it runs, and the power cut that follows. */
export class FaultyDisk {
  readonly directory: string
  readonly #control: string
  readonly #log: string
  readonly #library: string

  /** @param scratch - where its own two files go, outside `directory` */
  constructor({ directory, scratch, library }: { directory: string; scratch: string; library: string }) {
    this.directory = directory
    this.#control = join(scratch, 'control')
    this.#log = join(scratch, 'log')
    this.#library = library
    this.#write(new Uint32Array(MEMBERS.length))
  }

  /** For the process that is to have this disk. What it wrote before counts as synced. */
  begin(): Record<string, string> {
    rmSync(this.#log, { force: true })
    this.#write(new Uint32Array(MEMBERS.length))
    this.#initial = sizesBelow(this.directory)
    return {
      LD_PRELOAD: this.#library,
      ROOKERY_FAULTS_DIR: this.directory,
      ROOKERY_FAULTS_CONTROL: this.#control,
      ROOKERY_FAULTS_LOG: this.#log
    }
  }
  #initial = new Map<string, number>()

  /** Puts these in the place of the former ones. */
  arm(faults: DiskFaults): void {
    this.#write(
      new Uint32Array(MEMBERS.filter((member) => !COUNTED.includes(member)).map((member) => faults[member as keyof DiskFaults] ?? 0))
    )
  }

  heal(): void {
    this.arm({})
  }

  counts(): { writes: number; syncs: number; failures: number } {
    const now = this.#read()
    const of = (member: Member) => now[MEMBERS.indexOf(member)] as number
    return { writes: of('writes'), syncs: of('syncs'), failures: of('failures') }
  }

  /**
   * What a power cut leaves, once the process is dead: of each file what was synced, and as much of the rest as chance will have, now and then with
   * noise at its end. Gives the files that lost bytes.
   */
  powerCut(seed: number): { path: string; lostBytes: number }[] {
    const source = seededRandom(seed)
    const synced = this.#synced()
    const lost: { path: string; lostBytes: number }[] = []
    for (const [path, bytes] of sizesBelow(this.directory)) {
      const safe = Math.min(bytes, synced.get(path) ?? 0)
      if (safe === bytes || /\/LOG(\.old)?$/.test(path)) continue
      const left = safe + Math.floor(randomFraction(source) * (bytes - safe))
      truncateSync(path, left)
      if (left > safe && randomFraction(source) < 0.5) spoil(path, { from: safe, to: left, source })
      lost.push({ path, lostBytes: bytes - left })
    }
    return lost
  }

  /** By the log of the layer: how much of each file is safe. */
  #synced(): Map<string, number> {
    const synced = new Map(this.#initial)
    const lines = existsSync(this.#log) ? readFileSync(this.#log, 'utf8').split('\n') : []
    for (const line of lines) {
      const [what, size, path = '', to = ''] = line.split('\t')
      if (what === 'C') synced.set(path, 0)
      else if (what === 'S') synced.set(path, Math.max(Number(size), synced.get(path) ?? 0))
      else if (what === 'U') synced.delete(path)
      else if (what === 'R') {
        synced.set(to, synced.get(path) ?? 0)
        synced.delete(path)
      }
    }
    return synced
  }

  #read(): Uint32Array {
    const bytes = new Uint8Array(MEMBERS.length * 4)
    const fd = openSync(this.#control, 'r')
    readSync(fd, bytes)
    closeSync(fd)
    return new Uint32Array(bytes.buffer)
  }

  /** In place: the process has the file mapped. */
  #write(values: Uint32Array): void {
    const fd = openSync(this.#control, existsSync(this.#control) ? 'r+' : 'w')
    writeSync(fd, new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
    closeSync(fd)
  }
}

function sizesBelow(directory: string): Map<string, number> {
  const sizes = new Map<string, number>()
  for (const entry of readdirSync(directory, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    sizes.set(path, statSync(path).size)
  }
  return sizes
}

function spoil(path: string, { from, to, source }: { from: number; to: number; source: ReturnType<typeof seededRandom> }): void {
  const at = from + Math.floor(randomFraction(source) * (to - from))
  const fd = openSync(path, 'r+')
  writeSync(fd, randomFraction(source) < 0.5 ? new Uint8Array(to - at) : source.bytes(to - at), 0, to - at, at)
  closeSync(fd)
}

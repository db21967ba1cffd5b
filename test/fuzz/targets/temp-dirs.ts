import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let made: string[] | undefined

/** A new folder, in memory where the system has such, that goes when the process ends. */
export function fuzzDir(): string {
  if (made === undefined) {
    const all: string[] = []
    made = all
    process.once('exit', () => {
      for (const path of all) rmSync(path, { recursive: true, force: true })
    })
  }
  const path = mkdtempSync(join(inMemory() ? '/dev/shm' : tmpdir(), 'rookery-fuzz-'))
  made.push(path)
  return path
}

function inMemory(): boolean {
  try {
    accessSync('/dev/shm', constants.W_OK)
    return true
  } catch {
    return false
  }
}

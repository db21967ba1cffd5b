import { join } from 'node:path'
import { z } from 'zod'
import { readSmallFile, removeFile, writePrivateFile } from '../platform/files.ts'
import { processStart } from './process-start.ts'

export const LOCK_FILE = 'node.json'
const LOCK_FILE_BYTES_MAX = 16_384

const lockSchema = z.object({
  pid: z.int().min(1),
  processStart: z.string().max(128).optional(),
  startedAtMs: z.int().min(0),
  /** path of the unix socket, or `tcp:HOST:PORT` */
  socket: z.string().max(4_096)
})

/**
 * What `node.json` tells about the process that runs on a data directory. LevelDB's own lock decides who may; this file only gives that holder a
 * name, and is believed only as far as {@link holderOf} can check it.
 */
export type LockInfo = z.infer<typeof lockSchema>

export function writeLockFile(dataDir: string, info: { startedAtMs: number; socket: string }): LockInfo {
  const start = processStart(process.pid)
  const lock = { pid: process.pid, ...(start === undefined ? {} : { processStart: start }), ...info }
  writePrivateFile(join(dataDir, LOCK_FILE), `${JSON.stringify(lock)}\n`)
  return lock
}

/** Undefined where the file is missing, empty, garbled or unreadable: it is a hint, never a reason to refuse. */
export function readLockFile(dataDir: string): LockInfo | undefined {
  try {
    const bytes = readSmallFile(join(dataDir, LOCK_FILE), LOCK_FILE_BYTES_MAX)
    if (bytes === undefined) return undefined
    const parsed = lockSchema.safeParse(JSON.parse(new TextDecoder().decode(bytes)))
    return parsed.success ? parsed.data : undefined
  } catch {
    return undefined
  }
}

/** Removes it if it is this process's own. */
export function removeLockFile(dataDir: string): void {
  const held = readLockFile(dataDir)
  if (held !== undefined && held.pid === process.pid) removeFile(join(dataDir, LOCK_FILE))
}

/**
 * The process that the file names, if it is still that very one: same pid and same start time. A platform that tells no start time gives none
 * (its control channel is asked instead), so a pid alone is never believed, and never signalled (F091, F092).
 */
export function holderOf(dataDir: string): LockInfo | undefined {
  const held = readLockFile(dataDir)
  if (held?.processStart === undefined) return undefined
  return processStart(held.pid) === held.processStart ? held : undefined
}

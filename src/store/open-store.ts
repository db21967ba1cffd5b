import { join } from 'node:path'
import { Level } from 'level'
import { RookeryError } from '../errors.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { makePrivateDir, unusable, volumeSpace } from '../platform/files.ts'
import { DiskRoom } from './disk-room.ts'
import { holderOf } from './lock-file.ts'
import { bringToSchema } from './schema-version.ts'
import { Store } from './store.ts'

export const STORE_DIR = 'store'

export interface Holder {
  pid: number
  startedAtMs: number
}
/** Who runs on a data directory, as far as that can be checked. */
export type HolderOf = (dataDir: string) => Holder | undefined | Promise<Holder | undefined>

/**
 * Opens the one LevelDB of a data directory and brings it to this software's schema.
 * @throws RookeryError `DATA_DIR_IN_USE` (names the holder where it is known), `DATA_DIR_UNUSABLE`, `STORE_CORRUPT`, `SCHEMA_NEWER`
 */
export async function openStore(
  dataDir: string,
  options: {
    software: string
    holder?: HolderOf
    clock?: Clock
    reserveBytes?: number | undefined
    /** told how long each synced batch took */
    onSync?: ((ms: number) => void) | undefined
  }
): Promise<Store> {
  const path = join(dataDir, STORE_DIR)
  makePrivateDir(path)
  const level = new Level<string, Uint8Array>(path, { keyEncoding: 'utf8', valueEncoding: 'view' })
  try {
    await level.open()
  } catch (error) {
    if (isLocked(error)) throw inUse(dataDir, await (options.holder ?? holderOf)(dataDir), error)
    throw openError(dataDir, error)
  }
  const { clock = systemClock, reserveBytes, onSync } = options
  const room = new DiskRoom(() => volumeSpace(path), { clock, reserveBytes })
  const store = new Store(level, { clock, room, ...(onSync === undefined ? {} : { onSync }) })
  try {
    await bringToSchema(store, options)
  } catch (error) {
    await store.close()
    throw error
  }
  return store
}

function isLocked(error: unknown): boolean {
  return (error as { cause?: { code?: string } }).cause?.code === 'LEVEL_LOCKED'
}

function openError(dataDir: string, error: unknown): RookeryError {
  const cause = (error as { cause?: { code?: string; message?: string } }).cause
  const code = cause?.code ?? (error as { code?: string }).code
  const text = cause?.message ?? (error instanceof Error ? error.message : String(error))
  if (
    code === 'LEVEL_CORRUPTION' ||
    /corrupt|checksum|not an sstable|missing files|No such file|does not exist \(create_if_missing|CURRENT file/i.test(text)
  ) {
    return new RookeryError('STORE_CORRUPT', `the store in ${dataDir} is damaged: ${text}`, {
      kind: 'storage',
      field: 'dataDir',
      value: dataDir,
      remedy: `restore ${join(dataDir, STORE_DIR)} from a backup, or move that folder away to start with an empty one (the node and agent keys are kept)`,
      cause: error
    })
  }
  const io = /Permission denied/i.test(text)
    ? 'EACCES'
    : /Read-only file system/i.test(text)
      ? 'EROFS'
      : /No space left/i.test(text)
        ? 'ENOSPC'
        : code
  return unusable(join(dataDir, STORE_DIR), Object.assign(new Error(text, { cause: error }), { code: io }))
}

function inUse(dataDir: string, holder: Holder | undefined, cause: unknown): RookeryError {
  const who =
    holder === undefined
      ? 'another process'
      : `a node that runs already, pid ${holder.pid}, since ${new Date(holder.startedAtMs).toISOString()}`
  return new RookeryError('DATA_DIR_IN_USE', `the data directory ${dataDir} is in use by ${who}`, {
    kind: 'conflict',
    field: 'dataDir',
    value: dataDir,
    remedy: 'talk to the running node (`rookery status`), stop it (`rookery stop`), or name another folder with --data',
    ...(holder === undefined ? {} : { data: { pid: holder.pid, startedAtMs: holder.startedAtMs } }),
    cause
  })
}

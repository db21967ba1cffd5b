import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync
} from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { RookeryError } from '../errors.ts'

const errno = (error: unknown) => (error as NodeJS.ErrnoException).code

/**
 * Makes a folder that only its owner may enter; an existing one is narrowed to that.
 * @throws RookeryError `DATA_DIR_UNUSABLE`
 */
export function makePrivateDir(path: string): void {
  try {
    makeDirs(path)
    const state = statSync(path)
    if (!state.isDirectory()) throw Object.assign(new Error('it is not a folder'), { code: 'ENOTDIR' })
    if (process.platform !== 'win32' && (state.mode & 0o077) !== 0 && state.uid === process.getuid?.()) chmodSync(path, 0o700)
  } catch (cause) {
    throw unusable(path, cause)
  }
}

/**
 * Makes the folders of a path that are not there, for their owner alone; those that are there stay as they are.
 * @throws RookeryError `DATA_DIR_UNUSABLE`
 */
export function makeFolders(path: string): void {
  try {
    makeDirs(path)
  } catch (cause) {
    throw unusable(path, cause)
  }
}

/** By hand: Node's own `recursive` never returns where a file system answers ENOENT below a folder that is there, as /proc does. */
function makeDirs(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (errno(error) === 'EEXIST') return
    const parent = dirname(path)
    if (errno(error) !== 'ENOENT' || existsSync(parent)) throw error
    makeDirs(parent)
    mkdirSync(path, { mode: 0o700 })
  }
}

export function unusable(path: string, cause: unknown): RookeryError {
  const code = errno(cause)
  const what =
    code === 'EACCES' || code === 'EPERM'
      ? 'this user may not write there'
      : code === 'EROFS' || code === 'ENOENT'
        ? 'its file system takes no new folders'
        : code === 'ENOTDIR' || code === 'EEXIST'
          ? 'a part of the path is a file'
          : code === 'ENOSPC'
            ? 'the disk is full'
            : code === 'EBUSY'
              ? 'another file system is mounted there; name a folder in it'
              : cause instanceof Error
                ? cause.message
                : String(cause)
  return new RookeryError('DATA_DIR_UNUSABLE', `the data directory cannot be used: ${path}: ${what}`, {
    kind: 'storage',
    field: 'dataDir',
    value: path,
    remedy: 'name another folder with --data or ROOKERY_HOME, or give this user the right to write there',
    cause
  })
}

/**
 * Writes a file that only its owner may read, so that after a crash at any moment either the old or the new one is there: temporary file, fsync,
 * rename, fsync of the folder.
 * @throws the system's error
 */
export function writePrivateFile(path: string, bytes: Uint8Array | string): void {
  const temporary = `${path}.${process.pid}.tmp`
  // Left behind by a crash, or laid there by someone else: neither its mode nor what it links to is taken over.
  removeFile(temporary)
  const fd = openSync(temporary, 'wx', 0o600)
  try {
    const data = typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes
    let at = 0
    while (at < data.length) at += writeSync(fd, data, at)
    fsyncSync(fd)
  } catch (error) {
    closeSync(fd)
    unlinkSync(temporary)
    throw error
  }
  closeSync(fd)
  renameSync(temporary, path)
  syncFolder(dirname(path))
}

/** Makes the names in a folder last through a loss of power. */
export function syncFolder(path: string): void {
  if (process.platform === 'win32') return
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** The file's bytes, undefined where there is none. @throws the system's other errors, and for a file above `bytesMax` */
export function readSmallFile(path: string, bytesMax: number): Uint8Array | undefined {
  try {
    const state = statSync(path)
    if (state.size > bytesMax) throw new Error(`${path} has ${state.size} bytes, at most ${bytesMax} are read`)
    return readFileSync(path)
  } catch (error) {
    if (errno(error) === 'ENOENT') return undefined
    throw error
  }
}

export function removeFile(path: string): void {
  try {
    unlinkSync(path)
  } catch (error) {
    if (errno(error) !== 'ENOENT') throw error
  }
}

/** Free and whole bytes of the volume that a path lies on, for this user. */
export async function volumeSpace(path: string): Promise<{ freeBytes: number; totalBytes: number }> {
  const { bsize, bavail, blocks } = await statfs(path)
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize }
}

import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, realpathSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { RookeryError } from '../errors.ts'
import { readSmallFile } from '../platform/files.ts'

/** Where the control API of a data directory listens. */
export type ControlEndpoint = { kind: 'socket'; path: string } | { kind: 'tcp'; host: string; port: number; token: string }

export const SOCKET_FILE = 'control.sock'
/** host, port and token of the loopback form, mode 0600 */
export const TCP_FILE = 'control.json'

/** sun_path holds 104 bytes on macOS and 108 on Linux, its final zero included. */
const SOCKET_PATH_BYTES_MAX = 103

const tcpSchema = z.object({ host: z.string(), port: z.int().min(1).max(65_535), token: z.string().min(43).max(43) })

/**
 * One path however the directory was named: relative, through a link, in another letter case (F097). A path too long for a socket is replaced by one in
 * a private folder of the temporary directory, named by a hash of the real path.
 * @throws RookeryError `DATA_DIR_MISSING`, `SOCKET_DIR_UNSAFE`
 */
export function socketPath(dataDir: string): string {
  const real = realDataDir(dataDir)
  const path = join(real, SOCKET_FILE)
  if (Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX) return path
  const folder = join(tmpdir(), `rookery-${userInfo().uid}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const state = lstatSync(folder)
  if (!state.isDirectory() || state.uid !== userInfo().uid || (state.mode & 0o077) !== 0) {
    throw new RookeryError('SOCKET_DIR_UNSAFE', `${folder} is not a folder that only this user may enter`, {
      kind: 'config',
      field: 'dataDir',
      value: real,
      remedy: `remove ${folder}, or use a data directory whose path is shorter than ${SOCKET_PATH_BYTES_MAX - SOCKET_FILE.length - 1} bytes`
    })
  }
  return join(folder, `${createHash('sha256').update(real).digest('hex').slice(0, 24)}.sock`)
}

/** The one true spelling of the path. @throws RookeryError `DATA_DIR_MISSING` */
export function realDataDir(dataDir: string): string {
  try {
    return realpathSync.native(dataDir)
  } catch (cause) {
    throw new RookeryError('DATA_DIR_MISSING', `there is no data directory ${dataDir}`, {
      kind: 'unavailable',
      field: 'dataDir',
      value: dataDir,
      remedy: `make one with \`rookery init --data ${dataDir}\``,
      cause
    })
  }
}

/** What a client dials. On Windows, and wherever the node listens on loopback, by the file that it wrote. Undefined: nothing to dial. */
export function findEndpoint(dataDir: string, platform: NodeJS.Platform = process.platform): ControlEndpoint | undefined {
  if (platform !== 'win32') return { kind: 'socket', path: socketPath(dataDir) }
  try {
    const bytes = readSmallFile(join(realDataDir(dataDir), TCP_FILE), 4_096)
    if (bytes === undefined) return undefined
    const parsed = tcpSchema.safeParse(JSON.parse(new TextDecoder().decode(bytes)))
    return parsed.success ? { kind: 'tcp', ...parsed.data } : undefined
  } catch {
    return undefined
  }
}

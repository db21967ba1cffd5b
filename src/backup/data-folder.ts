import { lstatSync, readdirSync, realpathSync, type Stats, statSync } from 'node:fs'
import { RookeryError } from '../errors.ts'
import { unusable } from '../platform/files.ts'

/** Where a data directory is, or would be made. */
export interface DataFolder {
  /** its own path where there is none; behind a link, the folder that it leads to */
  readonly path: string
  /** undefined: there is none */
  readonly names: readonly string[] | undefined
}

/** Looks before anything is written. @throws RookeryError `DATA_DIR_UNUSABLE` for a file, and for a link that leads to one or nowhere */
export function dataFolder(dataDir: string): DataFolder {
  try {
    const state = lstatSync(dataDir, { throwIfNoEntry: false })
    if (state === undefined) return { path: dataDir, names: undefined }
    const isLink = state.isSymbolicLink()
    const target = isLink ? targetOf(dataDir) : state
    if (target === undefined) throw noFolder(dataDir, 'is a link that leads nowhere', 'make the folder that it leads to')
    if (!target.isDirectory()) throw noFolder(dataDir, isLink ? 'is a link to a file' : 'is a file', 'move it away')
    return { path: isLink ? realpathSync.native(dataDir) : dataDir, names: readdirSync(dataDir) }
  } catch (cause) {
    throw cause instanceof RookeryError ? cause : unusable(dataDir, cause)
  }
}

function targetOf(link: string): Stats | undefined {
  try {
    return statSync(link)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ELOOP' || code === 'ENOTDIR') return undefined
    throw error
  }
}

function noFolder(dataDir: string, what: string, remedy: string): RookeryError {
  return new RookeryError('DATA_DIR_UNUSABLE', `${dataDir} ${what}`, {
    kind: 'storage',
    field: '--data',
    value: dataDir,
    remedy: `${remedy}, or name another folder with --data`
  })
}

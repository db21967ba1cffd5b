import { mkdir, rename, writeFile } from 'node:fs/promises'
import { RookeryError } from '../errors.ts'

export function safeName(name: string): string {
  return name.replaceAll(/[^a-z0-9-]/gi, '_').slice(0, 64)
}

/** @throws RookeryError `SIM_OUT_UNWRITABLE` */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true })
  } catch (error) {
    throw unwritable(folder, error)
  }
}

/** Whole or not at all: a reader never meets half a file. @throws RookeryError `SIM_OUT_UNWRITABLE` */
export async function saveFile(file: string, text: string): Promise<void> {
  try {
    await writeFile(`${file}.tmp`, text)
    await rename(`${file}.tmp`, file)
  } catch (error) {
    throw unwritable(file, error)
  }
}

function unwritable(path: string, cause: unknown): RookeryError {
  return new RookeryError('SIM_OUT_UNWRITABLE', `cannot write ${path}: ${cause instanceof Error ? cause.message : String(cause)}`, {
    kind: 'storage',
    field: 'out',
    value: path,
    remedy: 'name a folder that you may write to with --out',
    cause
  })
}

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The package's version, read from the package.json above the sources or above `dist/`. */
export const version: string = readVersion()

function readVersion(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder)
  return (createRequire(import.meta.url)(join(folder, 'package.json')) as { version: string }).version
}

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml'
import { RookeryError } from '../errors.ts'
import { isRecord, type Layer } from './layers.ts'

/** Names under which a data directory's settings are looked for; JSON is YAML too, and is read by the same reader. */
export const CONFIG_FILES = ['config.yaml', 'config.json'] as const
const CONFIG_BYTES_MAX = 1_048_576

/**
 * The settings file of a data directory; `config.yaml` where there is none yet.
 * @throws RookeryError `CONFIG_INVALID` where there are two
 */
export function configFileOf(dataDir: string): string {
  const there = CONFIG_FILES.map((name) => join(dataDir, name)).filter((file) => existsSync(file))
  if (there.length > 1) {
    throw new RookeryError('CONFIG_INVALID', `there are two settings files: ${there.join(' and ')}`, {
      kind: 'config',
      field: there[1] as string,
      remedy: 'keep one of them, or name one with --config'
    })
  }
  return there[0] ?? join(dataDir, CONFIG_FILES[0])
}

/** @throws RookeryError `CONFIG_UNREADABLE`, or `CONFIG_INVALID` with line and column */
export function readConfigFile(file: string, need: 'optional' | 'required'): Layer | undefined {
  let text: string
  try {
    const bytes = readFileSync(file)
    if (bytes.length > CONFIG_BYTES_MAX) {
      throw unreadable(file, `it has ${bytes.length} bytes`, `at most ${CONFIG_BYTES_MAX} bytes are read`)
    }
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    if (cause instanceof RookeryError) throw cause
    const code = (cause as NodeJS.ErrnoException).code
    if (code === 'ENOENT' && need === 'optional') return undefined
    if (code === 'ENOENT') throw unreadable(file, 'there is no such file', 'check the path after --config', cause)
    if (cause instanceof TypeError) throw unreadable(file, 'it is not UTF-8 text', 'save it as UTF-8', cause)
    throw unreadable(file, code ?? String(cause), 'make it a file that this user may read', cause)
  }
  const lines = new LineCounter()
  const doc = parseDocument(text, { lineCounter: lines, uniqueKeys: true, maxAliasCount: 0 } as never)
  const fault = doc.errors[0]
  if (fault !== undefined) {
    const { line, col } = lines.linePos(fault.pos[0])
    throw new RookeryError(
      'CONFIG_INVALID',
      `${file}, line ${line}, column ${col}: ${fault.message.split('\n')[0]?.replace(/ at line .*$/, '')}`,
      {
        kind: 'config',
        field: `${file}:${line}:${col}`,
        remedy: 'mend the YAML at that place',
        data: { file, line, column: col }
      }
    )
  }
  let settings: unknown
  try {
    settings = doc.toJS({ maxAliasCount: 0 }) ?? {}
  } catch (cause) {
    throw new RookeryError('CONFIG_INVALID', `${file}: aliases are not supported here`, {
      kind: 'config',
      field: file,
      remedy: 'write the value out',
      cause
    })
  }
  if (!isRecord(settings)) {
    throw new RookeryError('CONFIG_INVALID', `${file}, line 1, column 1: the settings must be a map of names to values`, {
      kind: 'config',
      field: `${file}:1:1`,
      remedy: 'write settings as "name: value" lines, for example "network: lan"',
      data: { file, line: 1, column: 1 }
    })
  }
  const where = (path: readonly PropertyKey[]) => {
    let offset: number | undefined
    for (let length = path.length; length > 0 && offset === undefined; length--) {
      const parent = doc.getIn(path.slice(0, length - 1), true) ?? doc.contents
      const last = path[length - 1]
      if (isMap(parent)) {
        const pair = parent.items.find((item) => isScalar(item.key) && item.key.value === last)
        if (pair !== undefined && isScalar(pair.key)) offset = pair.key.range?.[0]
      } else {
        const node = doc.getIn(path.slice(0, length), true) as { range?: [number, number, number] } | undefined
        offset = node?.range?.[0]
      }
    }
    if (offset === undefined) return file
    const { line, col } = lines.linePos(offset)
    return `${file}, line ${line}, column ${col}`
  }
  return { settings, where }
}

function unreadable(file: string, what: string, remedy: string, cause?: unknown): RookeryError {
  return new RookeryError('CONFIG_UNREADABLE', `the config file ${file} cannot be read: ${what}`, {
    kind: 'config',
    field: file,
    remedy,
    cause
  })
}

import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml'
import { z } from 'zod'
import { firstIssue } from '../api/methods.ts'
import { RookeryError } from '../errors.ts'
import { type Config, type ConfigInput, configSchema } from './schema.ts'

export const CONFIG_FILE = 'config.yaml'
const CONFIG_BYTES_MAX = 1_048_576

type Raw = { [key: string]: unknown }

/** One source of settings, weakest first in a list of them. */
interface Layer {
  settings: Raw
  /** where a reader finds the setting at `path`, for error texts */
  where(path: readonly PropertyKey[]): string
}

export interface LoadedConfig {
  config: Config & { dataDir: string }
  /** the file that was read, undefined where there is none */
  file: string | undefined
  /** what was tolerated and should be known: unknown variables, doubled bootstrap entries */
  warnings: string[]
}

/** Where a data directory lies: `--data`, else `$ROOKERY_HOME`, else `~/.rookery`; absolute. */
export function dataDirOf(flag: string | undefined, env: NodeJS.ProcessEnv, cwd = process.cwd()): string {
  const named = flag ?? (env.ROOKERY_HOME || undefined) ?? (env.ROOKERY_DATA_DIR || undefined)
  return named === undefined ? join(homedir(), '.rookery') : resolve(cwd, named)
}

/**
 * Settings from, weakest first: defaults, `config.yaml` in the data directory (or `configFile`), environment variables `ROOKERY_*`, flags.
 * @param flags - settings by their nested names, as commands parsed them; undefined members do not count
 * @throws RookeryError `CONFIG_UNREADABLE`, `CONFIG_INVALID` with field, value and what is allowed
 */
export function loadConfig(input: {
  dataDir?: string | undefined
  configFile?: string | undefined
  env?: NodeJS.ProcessEnv
  flags?: ConfigInput
  cwd?: string
}): LoadedConfig {
  const env = input.env ?? process.env
  const cwd = input.cwd ?? process.cwd()
  const warnings: string[] = []
  const dataDir = dataDirOf(input.dataDir ?? input.flags?.dataDir, env, cwd)
  const layers: Layer[] = []

  const file = input.configFile === undefined ? join(dataDir, CONFIG_FILE) : resolve(cwd, input.configFile)
  const fromFile = readYaml(file, input.configFile === undefined ? 'optional' : 'required')
  if (fromFile !== undefined) {
    if ('dataDir' in fromFile.settings) {
      throw new RookeryError('CONFIG_INVALID', `dataDir cannot be set in ${file}`, {
        kind: 'config',
        field: 'dataDir',
        value: fromFile.settings.dataDir,
        remedy: 'name the data directory with --data or ROOKERY_HOME, since config.yaml is looked for inside it'
      })
    }
    layers.push(fromFile)
  }
  layers.push(fromEnvironment(env, warnings))
  layers.push({ settings: defined(input.flags ?? {}), where: (path) => `flag or argument ${fieldName(path)}` })

  const config = { ...parseLayers(layers), dataDir }
  const bootstrap = [...new Set(config.bootstrap)]
  if (bootstrap.length < config.bootstrap.length) warnings.push('bootstrap names the same address more than once; the copies are ignored')
  return { config: { ...config, bootstrap }, file: fromFile === undefined ? undefined : file, warnings }
}

/**
 * Checks settings that a program gives in place of files.
 * @throws RookeryError `CONFIG_INVALID`
 */
export function parseConfig(input: ConfigInput): Config {
  const config = parseLayers([{ settings: defined(input), where: (path) => `setting ${fieldName(path)}` }])
  return { ...config, bootstrap: [...new Set(config.bootstrap)] }
}

function parseLayers(layers: Layer[]): Config {
  const merged = layers.reduce<Raw>((base, layer) => merge(base, layer.settings), {})
  const parsed = configSchema.safeParse(merged)
  if (parsed.success) return checkedTogether(parsed.data)
  const { field, value, message } = firstIssue(parsed.error, merged)
  const issue = parsed.error.issues[0]
  const path = issue === undefined ? [] : issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0] ?? ''] : issue.path
  const source = [...layers].reverse().find((layer) => holds(layer.settings, path))
  const unknown = issue?.code === 'unrecognized_keys'
  throw new RookeryError(
    'CONFIG_INVALID',
    `${field === '' ? 'the settings' : field} ${message}${source === undefined ? '' : ` (${source.where(path)})`}`,
    {
      kind: 'config',
      ...(field === '' ? {} : { field }),
      ...(value === undefined ? {} : { value }),
      remedy: unknown
        ? `known here: ${knownNames(issue?.path ?? []).join(', ')}`
        : `correct ${field === '' ? 'them' : field}${source === undefined ? '' : ` in ${source.where(path)}`}`
    }
  )
}

/** Rules between settings. */
function checkedTogether(config: Config): Config {
  if (config.queue.messagesPerPeerMax > config.queue.messagesMax) {
    throw new RookeryError('CONFIG_INVALID', 'queue.messagesPerPeerMax is above queue.messagesMax', {
      kind: 'config',
      field: 'queue.messagesPerPeerMax',
      value: config.queue.messagesPerPeerMax,
      remedy: `set it to at most queue.messagesMax (${config.queue.messagesMax})`
    })
  }
  return config
}

/** A value given as undefined is a value not given. */
function defined(settings: object): Raw {
  const out: Raw = {}
  for (const [key, value] of Object.entries(settings)) {
    if (value === undefined) continue
    out[key] = isRecord(value) ? defined(value) : value
  }
  return out
}

function isRecord(value: unknown): value is Raw {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function merge(base: Raw, over: Raw): Raw {
  const out: Raw = { ...base }
  for (const [key, value] of Object.entries(over)) {
    const under = Object.hasOwn(out, key) ? out[key] : undefined
    const next = isRecord(value) && isRecord(under) ? merge(under, value) : value
    Object.defineProperty(out, key, { value: next, enumerable: true, writable: true, configurable: true })
  }
  return out
}

function holds(settings: unknown, path: readonly PropertyKey[]): boolean {
  let at: unknown = settings
  for (const part of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, part)) return false
    at = (at as Record<PropertyKey, unknown>)[part]
  }
  return true
}

function fieldName(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : text === '' ? String(part) : `${text}.${String(part)}`),
    ''
  )
}

function readYaml(file: string, need: 'optional' | 'required'): Layer | undefined {
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

/** Variables by setting: `http.bodyBytesMax` is `ROOKERY_HTTP_BODY_BYTES_MAX`. Lists are separated by commas. */
function environmentNames(): Map<string, { path: string[]; kind: 'text' | 'number' | 'boolean' | 'list' }> {
  const names = new Map<string, { path: string[]; kind: 'text' | 'number' | 'boolean' | 'list' }>()
  const visit = (schema: z.ZodType, path: string[]) => {
    const inner = unwrapped(schema)
    if (inner instanceof z.ZodObject) {
      for (const [key, child] of Object.entries(inner.shape)) visit(child as z.ZodType, [...path, key])
      return
    }
    const kind =
      inner instanceof z.ZodArray ? 'list' : inner instanceof z.ZodNumber ? 'number' : inner instanceof z.ZodBoolean ? 'boolean' : 'text'
    const name = path.map((part) => part.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()).join('_')
    names.set(`ROOKERY_${name}`, { path, kind })
  }
  visit(configSchema, [])
  names.delete('ROOKERY_DATA_DIR')
  return names
}

function unwrapped(schema: z.ZodType): z.ZodType {
  let at: z.ZodType = schema
  while (at instanceof z.ZodDefault || at instanceof z.ZodOptional || at instanceof z.ZodPrefault || at instanceof z.ZodPipe) {
    at = (at instanceof z.ZodPipe ? at.in : at.unwrap()) as z.ZodType
  }
  return at
}

/** Read by the command line and scripts, not settings. */
const OTHER_VARIABLES = new Set(['ROOKERY_HOME', 'ROOKERY_DATA_DIR'])

/** An unknown `ROOKERY_*` variable only warns: Kubernetes makes `ROOKERY_PORT` and the like for a service of that name. */
function fromEnvironment(env: NodeJS.ProcessEnv, warnings: string[]): Layer {
  const names = environmentNames()
  const settings: Raw = {}
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith('ROOKERY_') || text === undefined || text === '' || OTHER_VARIABLES.has(name)) continue
    const known = names.get(name)
    if (known === undefined) {
      warnings.push(`the environment variable ${name} is no setting and is ignored`)
      continue
    }
    let value: unknown = text
    if (known.kind === 'list') value = text.split(',').map((one) => one.trim())
    else if (known.kind === 'number' && /^-?\d+(\.\d+)?$/.test(text)) value = Number(text)
    else if (known.kind === 'boolean' && /^(true|1|yes)$/i.test(text)) value = true
    else if (known.kind === 'boolean' && /^(false|0|no)$/i.test(text)) value = false
    let at = settings
    for (const part of known.path.slice(0, -1)) {
      at[part] ??= {}
      at = at[part] as Raw
    }
    at[known.path.at(-1) as string] = value
  }
  const where = (path: readonly PropertyKey[]) => {
    for (const [name, known] of names) if (known.path.every((part, i) => path[i] === part)) return `environment variable ${name}`
    return 'environment'
  }
  return { settings, where }
}

function knownNames(path: readonly PropertyKey[]): string[] {
  let at: z.ZodType = configSchema
  for (const part of path) {
    const inner = unwrapped(at)
    if (!(inner instanceof z.ZodObject)) return []
    at = inner.shape[String(part)] as z.ZodType
  }
  const inner = unwrapped(at)
  return inner instanceof z.ZodObject ? Object.keys(inner.shape).filter((name) => name !== 'dataDir') : []
}

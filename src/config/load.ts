import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { firstIssue } from '../api/methods.ts'
import { RookeryError } from '../errors.ts'
import { configFileOf, readConfigFile } from './config-file.ts'
import { fromEnvironment } from './environment.ts'
import { defined, fieldName, holds, type Layer, merge, type Raw } from './layers.ts'
import { masked } from './masked.ts'
import { nearestName } from './nearest-name.ts'
import { type Config, type ConfigInput, configSchema } from './schema.ts'
import { knownNames } from './setting-list.ts'

export interface LoadedConfig {
  config: Config & { dataDir: string }
  /** the file that was read, undefined where there is none */
  file: string | undefined
  /** what was tolerated and should be known: unknown variables, doubled bootstrap entries */
  warnings: string[]
  /** what the file, the environment and flags set, as it stands there */
  given: Raw
  /** where the setting at `path` was set; undefined where it has its default */
  where(path: readonly string[]): string | undefined
}

/** Where a data directory lies: `--data`, else `$ROOKERY_HOME`, else `~/.rookery`; absolute. */
export function dataDirOf(flag: string | undefined, env: NodeJS.ProcessEnv, cwd = process.cwd()): string {
  const named = flag ?? (env.ROOKERY_HOME || undefined) ?? (env.ROOKERY_DATA_DIR || undefined)
  return named === undefined ? join(homedir(), '.rookery') : resolve(cwd, named)
}

/**
 * Settings from, weakest first: defaults, `config.yaml` or `config.json` in the data directory (or `configFile`), environment variables `ROOKERY_*`, flags.
 * `flags` are settings by their nested names, as commands parsed them; undefined members do not count.
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

  const file = input.configFile === undefined ? configFileOf(dataDir) : resolve(cwd, input.configFile)
  const fromFile = readConfigFile(file, input.configFile === undefined ? 'optional' : 'required')
  if (fromFile !== undefined) {
    if ('dataDir' in fromFile.settings) {
      throw new RookeryError('CONFIG_INVALID', `dataDir cannot be set in ${file}`, {
        kind: 'config',
        field: 'dataDir',
        value: masked(fromFile.settings.dataDir, ['dataDir']),
        remedy: 'name the data directory with --data or ROOKERY_HOME, since the settings file is looked for inside it'
      })
    }
    layers.push(fromFile)
  }
  layers.push(fromEnvironment(env, warnings))
  layers.push({ settings: defined(input.flags ?? {}), where: (path) => `flag or argument ${fieldName(path)}` })

  const config = { ...parseLayers(layers), dataDir }
  const bootstrap = [...new Set(config.bootstrap)]
  if (bootstrap.length < config.bootstrap.length) warnings.push('bootstrap names the same address more than once; the copies are ignored')
  return {
    config: { ...config, bootstrap },
    file: fromFile === undefined ? undefined : file,
    warnings,
    given: mergedOf(layers),
    where: (path) =>
      [...layers]
        .reverse()
        .find(({ settings }) => holds(settings, path))
        ?.where(path)
  }
}

/**
 * Checks settings that a program gives in place of files.
 * @throws RookeryError `CONFIG_INVALID`
 */
export function parseConfig(input: ConfigInput): Config {
  const config = parseLayers([{ settings: defined(input), where: (path) => `setting ${fieldName(path)}` }])
  return { ...config, bootstrap: [...new Set(config.bootstrap)] }
}

const mergedOf = (layers: readonly Layer[]) => layers.reduce<Raw>((base, layer) => merge(base, layer.settings), {})

function parseLayers(layers: Layer[]): Config {
  const merged = mergedOf(layers)
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
      ...(value === undefined ? {} : { value: masked(value, path) }),
      remedy: unknown
        ? unknownRemedy(String(path.at(-1)), knownNames(issue?.path ?? []))
        : `correct ${field === '' ? 'them' : field}${source === undefined ? '' : ` in ${source.where(path)}`}`
    }
  )
}

function unknownRemedy(given: string, known: readonly string[]): string {
  const meant = nearestName(given, known)
  return `${meant === undefined ? '' : `did you mean "${meant}"? `}known here: ${known.join(', ')}`
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

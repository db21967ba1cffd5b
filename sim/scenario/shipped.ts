import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { RookeryError } from '../../src/errors.ts'
import type { Definition } from './definition.ts'
import { parseScenario, SCENARIO_BYTES_MAX } from './parse.ts'

const SUFFIX = '.yaml'
/** In the order in which a reader meets them. */
const ORDER = [
  'first-contact',
  'rush-hour',
  'churn',
  'sleepers',
  'sleepers-without-jitter',
  'split-brain',
  'crash-storm',
  'idle',
  'internet',
  'hostile',
  'hostile-short'
]

/** The folder of the scenarios that come with the package: beside this file's sources, wherever it was compiled to. */
function folder(): string {
  for (let at = dirname(fileURLToPath(import.meta.url)); ; at = dirname(at)) {
    const candidate = join(at, 'sim', 'scenarios')
    if (existsSync(join(candidate, `first-contact${SUFFIX}`))) return candidate
    if (dirname(at) === at) throw new TypeError('the scenarios of the package are missing')
  }
}

let names: readonly string[] | undefined

export function shippedNames(): readonly string[] {
  const rank = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length)
  names ??= readdirSync(folder())
    .filter((file) => file.endsWith(SUFFIX))
    .map((file) => file.slice(0, -SUFFIX.length))
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
  return names
}

/** The text of a shipped scenario. */
export function shippedText(name: string): string {
  return readFileSync(join(folder(), `${name}${SUFFIX}`), 'utf8')
}

/**
 * A shipped scenario by its name, or one of a file.
 * @throws RookeryError `SCENARIO_UNKNOWN`, `SCENARIO_UNREADABLE`, `SCENARIO_INVALID`
 */
export function loadScenario(ref: string): Definition {
  if (shippedNames().includes(ref)) return parseScenario(shippedText(ref), `${ref}${SUFFIX}`)
  const isPath = /[/\\]|\.ya?ml$/.test(ref)
  if (!isPath) {
    throw new RookeryError('SCENARIO_UNKNOWN', `there is no scenario "${ref.slice(0, 80)}"`, {
      kind: 'usage',
      field: 'scenario',
      value: ref.slice(0, 80),
      remedy: `run one of ${shippedNames().join(', ')}, or name a file that ends in .yaml; \`rookery sim list\` says what each does`
    })
  }
  let text: string
  try {
    if (statSync(ref).size > SCENARIO_BYTES_MAX) throw new Error(`it has more than ${SCENARIO_BYTES_MAX} bytes`)
    text = readFileSync(ref, 'utf8')
  } catch (cause) {
    throw new RookeryError(
      'SCENARIO_UNREADABLE',
      `the scenario ${ref} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`,
      {
        kind: 'config',
        field: 'scenario',
        value: ref,
        remedy: 'check the path; `rookery sim new FILE` makes one',
        cause
      }
    )
  }
  return parseScenario(text, ref)
}

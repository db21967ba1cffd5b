import type { Layer, Raw } from './layers.ts'
import { listSettings } from './setting-list.ts'

/** Read by the command line and scripts, not settings. */
const OTHER_VARIABLES = new Set(['ROOKERY_HOME', 'ROOKERY_DATA_DIR', 'ROOKERY_PASSPHRASE'])

/** An unknown `ROOKERY_*` variable only warns: Kubernetes makes `ROOKERY_PORT` and the like for a service of that name. */
export function fromEnvironment(env: NodeJS.ProcessEnv, warnings: string[]): Layer {
  const names = new Map(listSettings().map((setting) => [setting.variable, setting]))
  const settings: Raw = {}
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith('ROOKERY_') || text === undefined || text === '' || OTHER_VARIABLES.has(name)) continue
    const known = names.get(name)
    if (known === undefined) {
      warnings.push(`the environment variable ${name} is no setting and is ignored`)
      continue
    }
    let value: unknown = text
    if (known.kind === 'map' || (known.kind === 'list' && /^\s*\[/.test(text))) value = jsonOr(text)
    else if (known.kind === 'list') value = text.split(',').map((one) => one.trim())
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

/** What is not JSON stays text, and is refused with the name of its variable. */
function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

import { isDeepStrictEqual } from 'node:util'
import type { Config } from './schema.ts'
import { listSettings, type Setting } from './setting-list.ts'

/** Settings that a running node follows at once, singly or by group; a change of any other waits for the next start. */
const LIVE = [
  'logs',
  'queue',
  'cards',
  'edgeCloud.policy',
  'discovery.answer',
  'groups.accept',
  'delivery.approve',
  'agents',
  'grants',
  'push.targets',
  'push.ports'
]

export const isLive = ({ name }: Pick<Setting, 'name'>) => LIVE.some((live) => name === live || name.startsWith(`${live}.`))

export interface Reloaded {
  /** names of settings that changed and are followed from now on */
  applied: string[]
  /** names of settings that changed and wait for a restart */
  restart: string[]
}

type Group = { [key: string]: unknown }

/** Where a parsed setting stands: lengths of time end in `Ms` once parsed. */
function parsedAt(config: Config, path: readonly string[]): { group: Group; key: string } | undefined {
  let group = config as unknown as Group
  for (const part of path.slice(0, -1)) {
    const next = group[part]
    if (typeof next !== 'object' || next === null) return undefined
    group = next as Group
  }
  const last = path.at(-1) as string
  return { group, key: `${last}Ms` in group ? `${last}Ms` : last }
}

/**
 * Takes over from `next` what a running node follows, in place, as its parts hold the groups of `current`; names what changed.
 * Both must have been parsed by the schema.
 */
export function reloadConfig(current: Config, next: Config): Reloaded {
  const out: Reloaded = { applied: [], restart: [] }
  for (const setting of listSettings()) {
    const from = parsedAt(next, setting.path)
    const to = parsedAt(current, setting.path)
    if (from === undefined || to === undefined || isDeepStrictEqual(from.group[from.key], to.group[to.key])) continue
    if (!isLive(setting)) {
      out.restart.push(setting.name)
      continue
    }
    if (from.group[from.key] === undefined) delete to.group[to.key]
    else to.group[to.key] = from.group[from.key]
    out.applied.push(setting.name)
  }
  return out
}

import type { ReloadResult } from './api/grant-methods.ts'
import type { Config } from './config/schema.ts'
import { RookeryError } from './errors.ts'
import type { SendBuckets } from './grants/send-buckets.ts'

/** The settings that a running node takes anew. */
const RELOADED = ['grants.sendBurst', 'grants.sendPerMin'] as const

/**
 * Reads the configuration as the start did, and takes into use what may change while the node runs.
 * @throws RookeryError `RELOAD_UNAVAILABLE` where the node was started by a program; `CONFIG_INVALID`, `CONFIG_UNREADABLE`: then nothing changed
 */
export class Reload {
  readonly #buckets: SendBuckets
  readonly #reread: (() => Config) | undefined
  #running: Config

  constructor({ buckets }: { buckets: SendBuckets }, init: { started: Config; reread: (() => Config) | undefined }) {
    this.#buckets = buckets
    this.#running = init.started
    this.#reread = init.reread
  }

  run(): ReloadResult {
    if (this.#reread === undefined) {
      throw new RookeryError('RELOAD_UNAVAILABLE', 'this node was not started from a configuration file', {
        kind: 'usage',
        remedy: 'start it with `rookery start`, or set `node.sendBuckets.limits` in the program'
      })
    }
    const next = this.#reread()
    const before = flat(this.#running)
    const after = flat(next)
    const differing = [...new Set([...before.keys(), ...after.keys()])].filter((name) => before.get(name) !== after.get(name))
    const changed: ReloadResult['changed'] = {}
    for (const name of RELOADED) {
      if (differing.includes(name))
        changed[name] = { from: JSON.parse(before.get(name) ?? 'null'), to: JSON.parse(after.get(name) ?? 'null') }
    }
    const { sendBurst, sendPerMin } = next.grants
    this.#buckets.limits = { burst: sendBurst, perMin: sendPerMin }
    this.#running = { ...this.#running, grants: { ...this.#running.grants, sendBurst, sendPerMin } }
    return { changed, atRestart: differing.filter((name) => !RELOADED.some((one) => one === name)) }
  }
}

/** Every setting by its dotted name, as JSON. */
function flat(value: unknown, at = ''): Map<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return new Map([[at, JSON.stringify(value)]])
  return new Map(Object.entries(value).flatMap(([key, one]) => [...flat(one, at === '' ? key : `${at}.${key}`)]))
}

import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import { checkedLimit } from './space-refusals.ts'
import type { FindQuery, FindResult, MemberView, PublishOptions } from './spaces.ts'

/** A reader of pages that comes back within this goes on in what was read for the first one. */
const SNAPSHOT_MS = 60_000
/** Members of all snapshots together; beyond it the oldest go first. */
const SNAPSHOT_MEMBERS_MAX = 50_000
const CURSOR = /^[a-z0-9.-]{1,128}\/[a-z0-9.-]{1,128}@[0-9]{1,10},did:key:[A-Za-z0-9]{1,80}$/

interface Snapshot {
  result: FindResult
  atMs: number
}

type Search = (query: Omit<FindQuery, 'page'>, options: PublishOptions) => Promise<FindResult>

/**
 * Pages of a search in the order of space and DID. The cursor names the last member shown, so a page that is asked for when the snapshot is gone
 * goes on behind that member in a search made anew.
 */
export class FindPages {
  readonly #clock: Clock
  readonly #search: Search
  readonly #snapshots = new Map<string, Snapshot>()

  constructor({ clock, search }: { clock: Clock; search: Search }) {
    this.#clock = clock
    this.#search = search
  }

  /** @throws RookeryError `LIMIT_INVALID`, `CURSOR_INVALID`, what a search throws */
  async find({ page, ...query }: FindQuery, options: PublishOptions): Promise<FindResult> {
    if (page === undefined) return await this.#search(query, options)
    const size = checkedLimit('page.size', page.size) as number
    const after = checkedCursor(page.after)
    const result = await this.#snapshot(query, after === undefined ? 'anew' : 'kept', options)
    const from = after === undefined ? 0 : firstAfter(result.members, after)
    const members = result.members.slice(from, from + size)
    const last = members.at(-1)
    return { ...result, members, ...(last !== undefined && from + size < result.members.length ? { next: cursorOf(last) } : {}) }
  }

  async #snapshot(query: Omit<FindQuery, 'page'>, which: 'anew' | 'kept', options: PublishOptions): Promise<FindResult> {
    const nowMs = this.#clock.monotonicMs()
    for (const [name, { atMs }] of this.#snapshots) if (nowMs - atMs >= SNAPSHOT_MS) this.#snapshots.delete(name)
    const name = JSON.stringify([query.name, [...(query.tags ?? [])].sort(), query.mode, query.limit])
    const kept = which === 'kept' ? this.#snapshots.get(name) : undefined
    if (kept !== undefined) return kept.result
    const found = await this.#search(query, options)
    const members = found.members.map((member) => ({ at: cursorOf(member), member })).sort((a, b) => (a.at < b.at ? -1 : 1))
    const result = { ...found, members: members.map(({ member }) => member) }
    this.#snapshots.delete(name)
    this.#snapshots.set(name, { result, atMs: this.#clock.monotonicMs() })
    let held = 0
    for (const snapshot of this.#snapshots.values()) held += snapshot.result.members.length
    for (const [oldest, snapshot] of this.#snapshots) {
      if (held <= SNAPSHOT_MEMBERS_MAX) break
      held -= snapshot.result.members.length
      this.#snapshots.delete(oldest)
    }
    return result
  }
}

const cursorOf = ({ space, did }: MemberView) => `${space},${did}`

/** @returns the place of the first member whose cursor is greater */
function firstAfter(members: readonly MemberView[], cursor: string): number {
  let [low, high] = [0, members.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (cursorOf(members[middle] as MemberView) > cursor) high = middle
    else low = middle + 1
  }
  return low
}

function checkedCursor(after: string | undefined): string | undefined {
  if (after === undefined || CURSOR.test(after)) return after
  throw new RookeryError('CURSOR_INVALID', 'this is no cursor of a page', {
    kind: 'usage',
    field: 'page.after',
    value: after.slice(0, 200),
    remedy: 'give the `next` of the page before as it is, or leave it out for the first page'
  })
}

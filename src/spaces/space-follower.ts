import { equals } from '../../protocol/bytes.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { isHandover } from '../../protocol/records/announce.ts'
import type { Logger } from '../platform/logger.ts'
import { chooseCurator } from './curators.ts'
import { isOffered, type OwnAnnounce, type OwnJoin, type OwnSpace } from './own-spaces.ts'
import type { SpaceSearch } from './space-search.ts'

/** What a refresh has to take over: where a member's space went, or that an heir took a space that was offered. */
export type OwnSpaceChange = { kind: 'follow'; curator: Eid; shards: number } | { kind: 'taken-over' }

export interface MemberSpaceState {
  space: 'announced' | 'gone'
  movedToVersion?: number
}

/** Looks, at the refresh of what is ours, what became of its space elsewhere (protocol/README.md §4). A look that fails changes nothing. */
export class SpaceFollower {
  readonly #search: Pick<SpaceSearch, 'announcements'>
  readonly #logger: Logger
  /** what the last look found, by own id: one entry for each join of our agents */
  readonly #states = new Map<string, MemberSpaceState>()

  constructor({ search, logger }: { search: Pick<SpaceSearch, 'announcements'>; logger: Logger }) {
    this.#search = search
    this.#logger = logger
  }

  /** @param verb - a member looks when it signs anew; a curator with an open offer each time */
  async change(space: OwnSpace, verb: 'sign' | 'put', signal: AbortSignal): Promise<OwnSpaceChange | undefined> {
    try {
      if (space.role === 'curator') return isOffered(space) ? await this.#offer(space, signal) : undefined
      return verb === 'sign' ? await this.#membership(space, signal) : undefined
    } catch (error) {
      signal.throwIfAborted()
      this.#logger.debug({ error, space: space.id }, 'the announcement of a space could not be looked up')
      return undefined
    }
  }

  state(id: string): MemberSpaceState | undefined {
    return this.#states.get(id)
  }

  forget(id: string): void {
    this.#states.delete(id)
  }

  async #offer(space: OwnAnnounce, signal: AbortSignal): Promise<OwnSpaceChange | undefined> {
    const { candidates } = await this.#search.announcements(space.dsid, { signal })
    const isTaken = candidates.some(({ record }) => isHandover(space.record.payload, record.payload))
    return isTaken ? { kind: 'taken-over' } : undefined
  }

  async #membership(space: OwnJoin, signal: AbortSignal): Promise<OwnSpaceChange | undefined> {
    const { candidates, outcome } = await this.#search.announcements(space.dsid, { signal })
    const { curator } = space.record.payload
    const choice = chooseCurator(candidates, { remembered: curator })
    if (choice.kind !== 'chosen') {
      const moved = choice.kind === 'none' ? choice.moved : undefined
      if (candidates.length > 0 || outcome.complete) {
        this.#states.set(space.id, { space: 'gone', ...(moved === undefined ? {} : { movedToVersion: moved.version }) })
      }
      return undefined
    }
    this.#states.set(space.id, { space: 'announced' })
    const { payload } = choice.candidate.record
    if (equals(payload.curator, curator) && payload.shards === space.shards) return undefined
    return { kind: 'follow', curator: payload.curator, shards: payload.shards }
  }
}

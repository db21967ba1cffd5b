import type { ReachabilityMode } from '../../protocol/delivery/modes.ts'
import type { AdmissionInit } from '../../protocol/discovery/admission.ts'
import { CRITERIA_BYTES_MAX, type Criteria, encodeCriteria, REPUTATION_MAX } from '../../protocol/discovery/criteria.ts'
import { dsId, gpCoordinate, parseSpaceName, SHARDS_MAX, shardKey } from '../../protocol/discovery/names.ts'
import { FAN_OUT_MAX } from '../../protocol/discovery/request.ts'
import { type Eid, eidFromDid } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import { randomFraction } from '../platform/random.ts'
import { checkedInput, NAME_REMEDY } from '../spaces/input.ts'
import type { DiscoveryComponents } from './components.ts'
import { type DiscoverOptions, FAN_OUT_DEFAULT, type FoundAnonymously, Search } from './discover.ts'
import { type DiscoveryService, type DiscoveryStats, serveDiscovery } from './discovery-service.ts'

export interface DiscoverQuery {
  /** a space, `ns/topic@version`, with `#did:key:…` for one curator's members only */
  name?: string
  /** instead of a space: a global point */
  point?: { did: string; tag: string }
  /** all of them must be present */
  tags?: readonly string[]
  mode?: ReachabilityMode
  /** 0 to 100, by what the judging nodes know themselves */
  minReputation?: number
  /** default `both` */
  want?: 'records' | 'contact' | 'both'
  /** 1 to 16, default 6 */
  fanOut?: number
  /** how many parts the space has, where that is known: one of them is searched. By default registrars are asked, which takes a request more */
  shards?: number
}

/** Searches that show nobody who searches, and the service for those of others (protocol/README.md §5). */
export interface Discovery {
  /**
   * Answers as they come; leaving the loop ends the search.
   * @throws RookeryError `INPUT_INVALID` and those of {@link Search.answers}
   */
  discover(query: DiscoverQuery, options?: DiscoverOptions): AsyncGenerator<FoundAnonymously, void, undefined>
  stats(): DiscoveryStats
  stop(): Promise<void>
}

export interface DiscoveryInit extends AdmissionInit {
  /** `no`: requests of others are neither carried nor answered */
  serve?: 'yes' | 'no'
}

export async function createDiscovery(components: DiscoveryComponents, init: DiscoveryInit = {}): Promise<Discovery> {
  const service: DiscoveryService | undefined = init.serve === 'no' ? undefined : await serveDiscovery(components, init)
  const idle: DiscoveryStats = {
    difficulty: 0,
    queued: 0,
    remembered: 0,
    connections: 0,
    served: 0,
    refused: { faulty: 0, late: 0, replayed: 0, work: 0, clock: 0, full: 0 }
  }
  return {
    discover: (query, options = {}) => new Search(components, checkedQuery(components, query), options).answers(),
    stats: () => service?.stats() ?? idle,
    stop: async () => await service?.stop()
  }
}

function checkedQuery({ crypto, random }: DiscoveryComponents, query: DiscoverQuery): ConstructorParameters<typeof Search>[1] {
  const { tags, mode, minReputation, want = 'both' } = query
  const criteria: Criteria = {
    ...(tags === undefined || tags.length === 0 ? {} : { tags }),
    ...(mode === undefined ? {} : { mode }),
    ...(minReputation === undefined ? {} : { minReputation: inRange('minReputation', minReputation, 0, REPUTATION_MAX) })
  }
  checkedInput('tags', (tags ?? []).join(','), `use fewer or shorter tags: all criteria together have ${CRITERIA_BYTES_MAX} bytes`, () =>
    encodeCriteria(criteria)
  )
  const fanOut = inRange('fanOut', query.fanOut ?? FAN_OUT_DEFAULT, 1, FAN_OUT_MAX)
  const common = { criteria, want, fanOut }
  if (query.point !== undefined) {
    const { did, tag } = query.point
    const owner = checkedInput('point', did, 'a point is named by did:key:… and a tag', () => eidFromDid(did))
    return {
      ...common,
      parts: 'known',
      target: checkedInput('point', tag, 'a tag has 1 to 64 printable ASCII characters', () => gpCoordinate(crypto, owner, tag))
    }
  }
  const text = query.name ?? ''
  const name = checkedInput('name', text, NAME_REMEDY, () => parseSpaceName(text))
  const dsid = dsId(crypto, name)
  const shards = query.shards === undefined ? undefined : inRange('shards', query.shards, 1, SHARDS_MAX)
  const target = shards === undefined ? dsid : shardKey(crypto, dsid, shards, Math.floor(randomFraction(random) * shards))
  const curator: Eid | undefined = name.pin
  return { ...common, parts: shards === undefined ? 'found-out' : 'known', target, ...(curator === undefined ? {} : { curator }) }
}

function inRange(field: string, value: number, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value
  throw new RookeryError('INPUT_INVALID', `${field} ${value} is not an integer from ${min} to ${max}`, { kind: 'usage', field, value })
}

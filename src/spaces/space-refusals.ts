import { equals, utf8 } from '../../protocol/bytes.ts'
import type { SpaceName } from '../../protocol/discovery/names.ts'
import { type Eid, eidToDid } from '../../protocol/identity/eid.ts'
import { DESC_BYTES_MAX, SEEDS_MAX } from '../../protocol/records/announce.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { seedTarget } from './address-scope.ts'
import type { Candidate } from './curators.ts'
import { nameText } from './own-spaces.ts'

export function checkPin(name: SpaceName, curator: LocalAgent): void {
  if (name.pin === undefined || equals(name.pin, curator.eid)) return
  throw new RookeryError('SPACE_PIN', `the name pins another curator than ${curator.name}`, {
    kind: 'usage',
    field: 'name',
    value: eidToDid(name.pin),
    remedy: `leave the pin out, or write #${curator.did}`
  })
}

export function checkedDescription(text: string): string {
  const length = utf8(text).length
  if (length <= DESC_BYTES_MAX) return text
  throw new RookeryError('DESCRIPTION_TOO_LONG', `the description has ${length} bytes, at most ${DESC_BYTES_MAX} fit into the record`, {
    kind: 'usage',
    field: 'description',
    value: `${text.slice(0, 40)}…`,
    remedy: 'shorten it; the record only has to tell people what the space is'
  })
}

export function checkedSeeds(seeds: readonly string[]): string[] {
  if (seeds.length > SEEDS_MAX) {
    throw new RookeryError('SEEDS_TOO_MANY', `${seeds.length} seeds, at most ${SEEDS_MAX} fit into the record`, {
      kind: 'usage',
      field: 'seeds',
      value: seeds.length
    })
  }
  for (const [i, seed] of seeds.entries()) {
    if (seed.length <= 128 && seedTarget(seed, 'lan') !== undefined) continue
    throw new RookeryError('SEED_INVALID', `seeds[${i}] is no multiaddr that ends with a PeerId`, {
      kind: 'usage',
      field: `seeds[${i}]`,
      value: seed.slice(0, 200),
      remedy: 'write it like /ip4/203.0.113.7/udp/4001/quic-v1/p2p/12D3Koo…'
    })
  }
  return [...seeds]
}

/** @param others - curators that announce it, but are not the one that is followed here */
export function unknownSpace(name: SpaceName, movedTo: number | undefined, others: readonly Eid[] = []): RookeryError {
  if (movedTo === undefined && others[0] !== undefined && name.pin === undefined) {
    const curators = others.map(eidToDid)
    const other = curators[0] as string
    return new RookeryError('SPACE_UNKNOWN', `the curator of ${nameText(name)} that this node knows announces it no more; ${other} does`, {
      kind: 'notFound',
      field: 'name',
      value: nameText(name),
      remedy: `if that is whom you trust, say so: rookery space trust ${nameText(name)} ${other}`,
      data: { curators }
    })
  }
  const pinned = name.pin === undefined ? '' : ' by the pinned curator'
  return new RookeryError('SPACE_UNKNOWN', `nobody has announced ${nameText(name)}${pinned}, or it has expired or was withdrawn`, {
    kind: 'notFound',
    field: 'name',
    value: nameText(name),
    remedy:
      movedTo === undefined
        ? `announce it first: rookery space announce ${nameText(name)}`
        : `its curator went on to version ${movedTo}: join ${name.ns}/${name.topic}@${movedTo}`,
    ...(movedTo === undefined ? {} : { data: { movedToVersion: movedTo } })
  })
}

export function notJoined(name: SpaceName, agent: LocalAgent): RookeryError {
  return new RookeryError('SPACE_NOT_JOINED', `${agent.name} has neither joined nor announced ${nameText(name)}`, {
    kind: 'notFound',
    field: 'name',
    value: nameText(name),
    remedy: '`rookery space list` shows what it has'
  })
}

export function unknownPolicy(name: SpaceName, policy: string): RookeryError {
  return new RookeryError('SPACE_POLICY', `${nameText(name)} has the policy "${policy}", which this version does not know`, {
    kind: 'refused',
    field: 'name',
    value: nameText(name)
  })
}

export function versionPassed(name: SpaceName, highest: number, curator: LocalAgent): RookeryError {
  return new RookeryError(
    'SPACE_VERSION',
    `${curator.name} already announced version ${highest} of ${name.ns}/${name.topic}; versions only go up`,
    {
      kind: 'conflict',
      field: 'name',
      value: nameText(name),
      remedy: `announce ${name.ns}/${name.topic}@${highest} again or a higher version`
    }
  )
}

export function notCurated(name: SpaceName, agent: LocalAgent): RookeryError {
  return new RookeryError('SPACE_NOT_CURATED', `${agent.name} does not curate ${nameText(name)}`, {
    kind: 'notFound',
    field: 'name',
    value: nameText(name),
    remedy: 'only who announced a space may change it; `rookery space list` shows what each agent curates'
  })
}

export function handedOver(name: SpaceName, agent: LocalAgent, to: Eid): RookeryError {
  return new RookeryError('SPACE_HANDED_OVER', `${agent.name} handed ${nameText(name)} over to ${eidToDid(to)}`, {
    kind: 'conflict',
    field: 'name',
    value: nameText(name),
    remedy: 'let that curator hand it back first, or announce a space of another name or version'
  })
}

export function contestedError(name: SpaceName, candidates: readonly Candidate[]): RookeryError {
  const curators = candidates.map(({ record }) => eidToDid(record.payload.curator))
  return new RookeryError('SPACE_CONTESTED', `${nameText(name)} has ${curators.length} curators that equally many registrars hold`, {
    kind: 'conflict',
    field: 'name',
    value: nameText(name),
    remedy: `pin the curator that you trust: ${nameText(name)}#${curators[0]}`,
    data: { curators }
  })
}

export const FIND_LIMIT_MAX = 10_000

/** @throws RookeryError `LIMIT_INVALID` */
export function checkedLimit(field: 'limit' | 'page.size', limit: number | undefined): number | undefined {
  if (limit === undefined) return undefined
  if (Number.isInteger(limit) && limit >= 1 && limit <= FIND_LIMIT_MAX) return limit
  throw new RookeryError('LIMIT_INVALID', `${field} ${limit} is not an integer from 1 to ${FIND_LIMIT_MAX}`, {
    kind: 'usage',
    field,
    value: limit,
    remedy: 'leave it out for all members'
  })
}

/** @throws RookeryError `SHARDS_INVALID` */
export function checkedShards(shards: number | undefined): number | undefined {
  if (shards === undefined || SHARD_NUMBERS.includes(shards)) return shards
  throw new RookeryError('SHARDS_INVALID', `${shards} is not a number of parts`, {
    kind: 'usage',
    field: 'shards',
    value: shards,
    remedy: `one of ${SHARD_NUMBERS.join(', ')}; left out, the node doubles them as the space grows`
  })
}
const SHARD_NUMBERS = [1, 2, 4, 8, 16, 32, 64, 128, 256]

import { equals } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { announceKey, joinKey } from '../../protocol/discovery/dht-key.ts'
import { memberKey, prefixIds } from '../../protocol/discovery/names.ts'
import type { RegistrySet } from '../../protocol/discovery/registry-messages.ts'
import { memberWriteKeys } from '../../protocol/discovery/shards.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { dhtRecords } from './dht-records.ts'
import type { OwnJoin, OwnSpace } from './own-spaces.ts'
import type { PutOutcome, RegistryClient, RequestOptions } from './registry-client.ts'

type Place = { set: RegistrySet; key: Uint8Array }

export interface Published {
  /** registrars of the main set: announcements for a curator, members for a member */
  registrars: number
  stored: number
  coverage: 'full' | 'partial'
  /** the highest number of ours that some registrar holds instead */
  seen: number
}

/** Puts our records where they belong: the DHT key and the sets of protocol/README.md §3 and §4. */
export interface SpacePublisher {
  publish(space: OwnSpace, options?: RequestOptions): Promise<Published>
  /** The highest number of this signer under its DHT key, -1 for none; asked, with the next, before the first signature of a run. */
  seenInDht(space: Pick<OwnSpace, 'role' | 'eid' | 'dsid'>, options?: RequestOptions): Promise<number>
  /** The highest number of this signer at the registrars, -1 for none. */
  seenAtRegistrars(space: Pick<OwnSpace, 'role' | 'eid' | 'name' | 'dsid' | 'shards'>, options?: RequestOptions): Promise<number>
}

export function createSpacePublisher({
  host,
  registry,
  clock,
  crypto,
  logger
}: {
  host: Host
  registry: RegistryClient
  clock: Clock
  crypto: CryptoProvider
  logger: Logger
}): SpacePublisher {
  const dhtKeyOf = (space: Pick<OwnSpace, 'role' | 'eid' | 'dsid'>) =>
    space.role === 'curator' ? announceKey(space.dsid) : joinKey(space.dsid, space.eid)

  const announcePlaces = (space: Pick<OwnSpace, 'name' | 'dsid'>): Place[] => [
    { set: 'announcements', key: space.dsid },
    ...prefixIds(crypto, space.name).map((key) => ({ set: 'children' as const, key }))
  ]

  /** A member is written by the present number of shards and, for the life of a join, by those that some reader may still go by. */
  function joinPlaces({ dsid, eid, shards, earlier }: OwnJoin): Place[] {
    const nowSec = clock.nowMs() / 1_000
    const numbers = [shards, ...earlier.filter((one) => one.untilSec > nowSec).map((one) => one.shards)]
    return memberWriteKeys(crypto, dsid, eid, numbers).map((key) => ({ set: 'members', key }))
  }

  /** @returns false when nobody took it who should */
  async function putToDht(space: OwnSpace, signal: AbortSignal | undefined): Promise<boolean> {
    if (space.role === 'member' && space.record.payload.unlisted === true) return true
    try {
      const { stored } = await host.dht.put(dhtKeyOf(space), space.record.bytes, signal === undefined ? {} : { signal })
      return stored > 0
    } catch (error) {
      signal?.throwIfAborted()
      logger.warn({ error, space: space.id }, 'the DHT did not take a record of ours; the registrars may have')
      return false
    }
  }

  return {
    async publish(space, options = {}) {
      const record = space.record.bytes
      const [outcomes, isInDht] = await Promise.all([
        Promise.all(
          (space.role === 'member' ? joinPlaces(space) : announcePlaces(space)).map((place, i) =>
            registry.put({ ...place, record }, i === 0 ? options : options.signal === undefined ? {} : { signal: options.signal })
          )
        ),
        putToDht(space, options.signal)
      ])
      const main = outcomes[0] as PutOutcome
      const everywhere = outcomes.every((one) => one.registrars > 1 && one.stored === one.registrars)
      return {
        registrars: main.registrars,
        stored: main.stored,
        // a tombstone that the DHT refuses has nothing there to take back
        coverage: everywhere && (isInDht || space.record.payload.gone === true) ? 'full' : 'partial',
        seen: Math.max(...outcomes.map((one) => one.seen))
      }
    },

    async seenAtRegistrars(space, { signal } = {}) {
      const place: Place =
        space.role === 'member'
          ? { set: 'members', key: memberKey(crypto, space.dsid, space.eid, space.shards) }
          : { set: 'announcements', key: space.dsid }
      const listed = await registry.list({ ...place, id: space.eid }, signal === undefined ? {} : { signal })
      return Math.max(-1, ...listed.entries.map(({ entry }) => entry.number))
    },

    async seenInDht(space, { signal } = {}) {
      let highest = -1
      for await (const record of dhtRecords({ dht: host.dht, crypto, clock }, dhtKeyOf(space), signal)) {
        if (record.kind === 'join') highest = Math.max(highest, record.payload.seq)
        if (record.kind === 'announce' && equals(record.payload.curator, space.eid)) highest = Math.max(highest, record.payload.seq)
      }
      return highest
    }
  }
}

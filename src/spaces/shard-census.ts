import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { shardIndex, shardKey } from '../../protocol/discovery/names.ts'
import { countedPart, SHARD_SPLIT_AT, shardsAfter } from '../../protocol/discovery/shards.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'
import type { OwnAnnounce } from './own-spaces.ts'
import type { RegistryClient } from './registry-client.ts'

/** How often a curator's node counts, up to a tenth earlier by chance: with half an hour between two joins, growth shows within one. */
const CENSUS_MS = 15 * 60_000
const JITTER = 0.1

export interface ShardCensusComponents {
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  registry: Pick<RegistryClient, 'list'>
  /** the live announcements of our agents, as they are at the moment of asking */
  spaces: () => OwnAnnounce[]
  grow: (space: OwnAnnounce, shards: number, signal: AbortSignal) => Promise<void>
}

/** Counts one part of every space that we curate and doubles the parts of one that outgrows them (protocol/README.md §4). */
export class ShardCensus {
  readonly #c: ShardCensusComponents
  readonly #splitAt: number
  readonly #stopping = new AbortController()
  #cancel: () => void = () => {}
  #running: Promise<void> = Promise.resolve()

  constructor(components: ShardCensusComponents, { splitAt = SHARD_SPLIT_AT }: { splitAt?: number | undefined } = {}) {
    this.#c = components
    this.#splitAt = splitAt
  }

  begin(): void {
    if (this.#stopping.signal.aborted) return
    const waitMs = CENSUS_MS * (1 - JITTER * randomFraction(this.#c.random))
    this.#cancel = this.#c.clock.after(waitMs, () => {
      this.#running = this.#round().finally(() => this.begin())
    })
  }

  async #round(): Promise<void> {
    const { signal } = this.#stopping
    for (const space of this.#c.spaces()) {
      if (signal.aborted) return
      try {
        await this.#count(space, signal)
      } catch (error) {
        if (!signal.aborted) this.#c.logger.warn({ error, space: space.id }, 'the members of a space could not be counted; tried again')
      }
    }
  }

  async #count(space: OwnAnnounce, signal: AbortSignal): Promise<void> {
    const { crypto, registry, random, logger, grow } = this.#c
    const part = countedPart(space.shards, randomFraction(random))
    const key = shardKey(crypto, space.dsid, space.shards, part)
    const { entries } = await registry.list({ set: 'members', key, curator: space.eid, limit: this.#splitAt }, { signal })
    const counted = entries.filter(
      ({ entry }) => entry.set === 'members' && !entry.gone && shardIndex(crypto, entry.record.payload.eid, space.shards) === part
    ).length
    const shards = shardsAfter(space.shards, counted, this.#splitAt)
    if (shards === space.shards) return
    logger.info({ space: toHex(space.dsid), counted, from: space.shards, to: shards }, 'a space grew: its members go to twice as many keys')
    await grow(space, shards, signal)
  }

  /** Resolves when no count is under way. */
  idle(): Promise<void> {
    return this.#running
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the node stops'))
    this.#cancel()
    await this.#running
  }
}

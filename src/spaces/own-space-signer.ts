import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import {
  ANNOUNCE_TTL_SEC,
  type Announce,
  type AnnounceRecord,
  announceTombstone,
  announceType,
  type SpaceLink
} from '../../protocol/records/announce.ts'
import { buildRecord } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, type Join, type JoinRecord, joinTombstone, joinType } from '../../protocol/records/join.ts'
import { SEQUENCE_WAIT_MAX_MS } from '../../protocol/records/sequence.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { checkedInput } from './input.ts'
import { earlierShards, type OwnSpace, type OwnSpaces } from './own-spaces.ts'
import type { SequenceBook } from './sequence-book.ts'
import type { OwnSpaceChange } from './space-follower.ts'
import type { SpacePublisher } from './space-publisher.ts'
import type { PublishOptions } from './spaces.ts'

export interface OwnSpaceSignerComponents {
  crypto: CryptoProvider
  clock: Clock
  own: OwnSpaces
  sequences: SequenceBook
  publisher: Pick<SpacePublisher, 'seenInDht' | 'seenAtRegistrars'>
}

/** Signs our announcements, joins and tombstones, each under a number above all that we used and all that were seen of us. */
export class OwnSpaceSigner {
  readonly #c: OwnSpaceSignerComponents
  /** the highest number of ours found in the network, by own id; asked once in a run, one entry for each space of our own agents */
  readonly #seen = new Map<string, number>()

  constructor(components: OwnSpaceSignerComponents) {
    this.#c = components
  }

  /** The same again, in the agent's present mode; a member follows its space to another curator or number of shards. */
  async alive(space: OwnSpace, agent: LocalAgent, signal: AbortSignal | undefined, change?: OwnSpaceChange): Promise<OwnSpace> {
    const { own } = this.#c
    if (space.role === 'curator') {
      const { payload } = space.record
      const record =
        change?.kind === 'taken-over'
          ? await this.announceGone(space.id, agent, payload, signal, payload.next)
          : await this.announce(space.id, agent, payload, signal)
      return own.announceOf(space.name, record)
    }
    const { curator, shards } = change?.kind === 'follow' ? change : { curator: space.record.payload.curator, shards: space.shards }
    const { dsid, eid, tags, unlisted } = space.record.payload
    const payload = { dsid, eid, curator, tags, mode: agent.reachability.mode, ...(unlisted === true ? { unlisted } : {}) }
    const record = await this.join(space.id, agent, payload, signal)
    return own.joinOf(space.name, record, shards, earlierShards(space, shards, this.#nowSec()))
  }

  /** The same as a tombstone. */
  async gone(space: OwnSpace, agent: LocalAgent, signal: AbortSignal | undefined): Promise<OwnSpace> {
    const { own, crypto } = this.#c
    if (space.role === 'curator') return own.announceOf(space.name, await this.announceGone(space.id, agent, space.record.payload, signal))
    const seq = await this.#number(space.id, signal)
    const payload = joinTombstone(space.record.payload, { seq, nowSec: this.#nowSec() })
    return own.joinOf(space.name, buildRecord(crypto, joinType, payload, agent.signer), space.shards, space.earlier)
  }

  /** @param next - the version that follows (protocol/README.md §3) */
  async announceGone(
    id: string,
    agent: LocalAgent,
    last: Announce,
    signal: AbortSignal | undefined,
    next?: SpaceLink
  ): Promise<AnnounceRecord> {
    const seq = await this.#number(id, signal)
    const payload = announceTombstone(last, { seq, nowSec: this.#nowSec(), ...(next === undefined ? {} : { next }) })
    return buildRecord(this.#c.crypto, announceType, payload, agent.signer)
  }

  /** An announcement under the next number, from now for its whole lifetime. */
  async announce(
    id: string,
    curator: LocalAgent,
    what: Omit<Announce, 'seq' | 'ts' | 'exp' | 'gone'>,
    signal: AbortSignal | undefined
  ): Promise<AnnounceRecord> {
    const seq = await this.#number(id, signal)
    const ts = this.#nowSec()
    return buildRecord(this.#c.crypto, announceType, { ...what, seq, ts, exp: ts + ANNOUNCE_TTL_SEC }, curator.signer)
  }

  /** A join in the same way. @throws RookeryError `usage`, field `tags`, for tags that no record takes */
  async join(
    id: string,
    agent: LocalAgent,
    what: Omit<Join, 'seq' | 'ts' | 'exp' | 'gone'>,
    signal: AbortSignal | undefined
  ): Promise<JoinRecord> {
    const seq = await this.#number(id, signal)
    const ts = this.#nowSec()
    const payload = { ...what, seq, ts, exp: ts + JOIN_TTL_SEC }
    return checkedInput('tags', what.tags, 'at most 16 tags of 1 to 64 printable ASCII characters, 768 bytes with the rest', () =>
      buildRecord(this.#c.crypto, joinType, payload, agent.signer)
    )
  }

  /** Once in a run, before the first signature: what the network holds of ours. */
  async lookUp(id: string, space: OwnSpace, options: PublishOptions): Promise<void> {
    if (this.#seen.has(id)) return
    await Promise.all([this.lookUpInDht(id, space, options), this.lookUpAtRegistrars(id, space, options)])
  }

  async lookUpInDht(id: string, space: Pick<OwnSpace, 'role' | 'eid' | 'dsid'>, { signal }: PublishOptions): Promise<void> {
    if (this.#seen.has(id)) return
    this.raise(id, await this.#c.publisher.seenInDht(space, signal === undefined ? {} : { signal }))
  }

  async lookUpAtRegistrars(
    id: string,
    space: Pick<OwnSpace, 'role' | 'eid' | 'name' | 'dsid' | 'shards'>,
    { signal }: PublishOptions
  ): Promise<void> {
    this.raise(id, await this.#c.publisher.seenAtRegistrars(space, signal === undefined ? {} : { signal }))
  }

  /** Somebody holds this number of ours. */
  raise(id: string, seen: number): void {
    this.#seen.set(id, Math.max(seen, this.#seen.get(id) ?? -1))
  }

  /** The highest number of ours that was seen, -1 for none, undefined before anyone was asked. One that only a wrong clock can have made counts as none. */
  seen(id: string): number | undefined {
    const seen = this.#seen.get(id)
    return seen !== undefined && seen > this.#c.clock.nowMs() + SEQUENCE_WAIT_MAX_MS ? -1 : seen
  }

  #number(id: string, signal: AbortSignal | undefined): Promise<number> {
    return this.#c.sequences.next(id, this.#seen.get(id) ?? -1, signal)
  }

  #nowSec(): number {
    return Math.floor(this.#c.clock.nowMs() / 1_000)
  }
}

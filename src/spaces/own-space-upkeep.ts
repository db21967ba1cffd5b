import { type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { ANNOUNCE_TTL_SEC } from '../../protocol/records/announce.ts'
import { recordExpiresAtMs, recordIsAhead } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC } from '../../protocol/records/join.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { OwnSpaceSigner } from './own-space-signer.ts'
import { isOffered, type OwnSpace, type OwnSpaces } from './own-spaces.ts'
import type { Refreshed, Refresher } from './refresher.ts'
import type { SequenceBook } from './sequence-book.ts'
import type { OwnSpaceChange, SpaceFollower } from './space-follower.ts'
import type { Published, SpacePublisher } from './space-publisher.ts'
import type { PublishOptions } from './spaces.ts'

export interface OwnSpaceUpkeepComponents {
  clock: Clock
  /** the agents of this node, as they are at the moment of asking; what an agent that is gone published is not refreshed */
  agents: (eidHex: EidHex) => LocalAgent | undefined
  own: OwnSpaces
  sequences: SequenceBook
  signer: OwnSpaceSigner
  publisher: Pick<SpacePublisher, 'publish'>
  refresher: Refresher
  /** what became of a space elsewhere */
  follower: Pick<SpaceFollower, 'change'>
}

/** Saves, publishes and refreshes what our agents announced and joined, and takes back what they left. */
export class OwnSpaceUpkeep {
  readonly #c: OwnSpaceUpkeepComponents
  readonly #locks = new KeyedLock()

  constructor(components: OwnSpaceUpkeepComponents) {
    this.#c = components
  }

  /** Goes on where the last process stopped. */
  async resume(): Promise<void> {
    for (const space of this.#c.own.all()) {
      const last = await this.#c.sequences.last(space.id)
      // a withdrawal at the last stop used a higher number than the record on disk
      const stale = last !== space.record.payload.seq && space.record.payload.gone !== true
      this.#keep(space, { signedAtMs: stale ? Number.NEGATIVE_INFINITY : space.record.payload.ts * 1_000, coverage: 'none' })
    }
  }

  /** Puts and goes on refreshing; signs once more where a registrar holds a higher number of ours. */
  async publish(space: OwnSpace, agent: LocalAgent, options: PublishOptions): Promise<Published> {
    this.#c.refresher.forget(space.id)
    let current = space
    let published: Published | undefined
    try {
      published = await this.#c.publisher.publish(current, options)
      if (published.seen > current.record.payload.seq) {
        this.#c.signer.raise(space.id, published.seen)
        current = await this.#again(current, agent, options.signal)
        published = await this.#c.publisher.publish(current, options)
      }
      return published
    } finally {
      await this.#afterPut(current, published)
    }
  }

  /** A tombstone that lies everywhere, or that nobody needs any more, is done with. */
  async #afterPut(space: OwnSpace, published: Published | undefined): Promise<void> {
    const gone = space.record.payload.gone === true
    if (gone && published?.coverage === 'full') await this.#removeIfSame(space)
    else this.#keep(space, { signedAtMs: space.record.payload.ts * 1_000, coverage: coverageOf(space, published) })
  }

  #keep(space: OwnSpace, state: { signedAtMs: number; coverage: 'full' | 'partial' | 'none' }): void {
    const ttlMs = (space.role === 'curator' ? ANNOUNCE_TTL_SEC : JOIN_TTL_SEC) * 1_000
    this.#c.refresher.keep(space.id, {
      ttlMs,
      ...state,
      sign: (signal) => this.#refresh(space.id, 'sign', signal),
      put: (signal) => this.#refresh(space.id, 'put', signal)
    })
  }

  async #refresh(id: string, verb: 'sign' | 'put', signal: AbortSignal): Promise<Refreshed> {
    const { own, agents, publisher, clock } = this.#c
    const forget: Refreshed = { signedAtMs: 0, coverage: 'full', next: 'forget' }
    let space = own.get(id)
    if (space === undefined) return forget
    const agent = agents(eidHex(space.eid))
    const gone = space.record.payload.gone === true
    if (agent === undefined || (gone && recordExpiresAtMs(space.record) <= clock.nowMs())) {
      await own.remove(id)
      return forget
    }
    await this.#c.signer.lookUp(id, space, { signal })
    const change = gone ? undefined : await this.#c.follower.change(space, verb, signal)
    const behind = (this.#c.signer.seen(id) ?? -1) > space.record.payload.seq
    const expired = recordExpiresAtMs(space.record) <= clock.nowMs()
    const ahead = recordIsAhead(space.record, clock.nowMs())
    if ((verb === 'sign' && !gone) || behind || expired || ahead || change !== undefined) {
      space = await this.#again(space, agent, signal, change)
    }
    const published = await publisher.publish(space, { signal })
    this.#c.signer.raise(id, published.seen)
    if (space.record.payload.gone === true && published.coverage === 'full') {
      await this.#removeIfSame(space)
      return forget
    }
    return { signedAtMs: space.record.payload.ts * 1_000, coverage: coverageOf(space, published) }
  }

  /** The same again under a new number, in the agent's present mode; whatever it is by the time of signing. */
  async #again(space: OwnSpace, agent: LocalAgent, signal: AbortSignal | undefined, change?: OwnSpaceChange): Promise<OwnSpace> {
    return await this.renew(space.id, () => {
      const now = this.#c.own.get(space.id) ?? space
      return now.record.payload.gone === true ? this.#c.signer.gone(now, agent, signal) : this.#c.signer.alive(now, agent, signal, change)
    })
  }

  /** Signs and saves, one at a time for each own id: a refresh never overtakes what its owner just changed. */
  async renew<T extends OwnSpace>(id: string, sign: () => Promise<T>): Promise<T> {
    return await this.#locks.run(id, async () => {
      const space = await sign()
      await this.#c.own.save(space)
      return space
    })
  }

  /** As {@link renew} for two records that belong together: a crash leaves both as they were or both as they are. */
  async renewBoth<A extends OwnSpace, B extends OwnSpace>(ids: readonly [string, string], sign: () => Promise<[A, B]>): Promise<[A, B]> {
    return await this.#locks.run(ids, async () => {
      const spaces = await sign()
      await this.#c.own.save(...spaces)
      return spaces
    })
  }

  async #removeIfSame(space: OwnSpace): Promise<void> {
    await this.#locks.run(space.id, async () => {
      if (this.#c.own.get(space.id) === space) await this.#c.own.remove(space.id)
    })
  }

  /** Tells others, but keeps the row as it is: the next start joins and announces again under a higher number. */
  async withdraw(space: OwnSpace, signal: AbortSignal): Promise<void> {
    const agent = this.#c.agents(eidHex(space.eid))
    if (agent === undefined) return
    const gone = space.record.payload.gone === true ? space : await this.#c.signer.gone(space, agent, signal)
    await this.#c.publisher.publish(gone, { signal })
  }
}

/** An offer that nobody took yet is looked after as if some registrar lacked it. */
function coverageOf(space: OwnSpace, published: Published | undefined): 'full' | 'partial' {
  return published === undefined || isOffered(space) ? 'partial' : published.coverage
}

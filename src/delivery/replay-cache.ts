import { CLOCK_SKEW_MAX_MS, OBJECT_LIFE_MAX_MS } from '../../protocol/delivery/object.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { bytesCodec, type Store, type Table, type WriteOp } from '../store/store.ts'

/** Names held at once; at the bound new objects wait, live names are never evicted (G-11). About 250 bytes of disk each. */
export const REPLAY_NAMES_MAX = 100_000
/** No valid object ends later than this from now: its issuer's clock may be ahead, its life is bounded. */
export const REPLAY_RETENTION_MS = OBJECT_LIFE_MAX_MS + 2 * CLOCK_SKEW_MAX_MS
const PRUNE_BATCH = 1_000
const EMPTY = new Uint8Array(0)

/** A name taken for one effect: commit `ops` together with it, then `done`; or `abandon` when the commit failed. */
export interface ReplayClaim {
  readonly ops: readonly WriteOp[]
  done(): void
  abandon(): void
}

/**
 * The objects that had their effect, by (issuer, id), until their end plus the clock skew, as durable as the queue (OD-36, OD-42, G-11,
 * G-12). Enter a name only after the object's signature verified.
 */
export class ReplayCache {
  readonly #store: Store
  readonly #names: Table<Uint8Array>
  readonly #ends: Table<Uint8Array>
  readonly #namesMax: number
  /** claims between their commit's start and end; bounded by the drains at work, one an agent */
  readonly #claimed = new Set<string>()
  #size = 0

  private constructor(store: Store, namesMax: number) {
    this.#store = store
    this.#namesMax = namesMax
    this.#names = store.table('replay', bytesCodec)
    this.#ends = store.table('replay-ends', bytesCodec)
  }

  static async open({ store }: { store: Store }, { namesMax = REPLAY_NAMES_MAX } = {}): Promise<ReplayCache> {
    const cache = new ReplayCache(store, namesMax)
    for await (const _ of cache.#names.keys()) cache.#size++
    return cache
  }

  get size(): number {
    return this.#size
  }

  get namesMax(): number {
    return this.#namesMax
  }

  has(issuer: EidHex, idHex: string): Promise<boolean> {
    return this.#names.has(nameOf(issuer, idHex))
  }

  /**
   * @param endMs - the object's `exp`
   * @returns `seen` when it had its effect or is about to, `full` at the bound, `beyond` for an end that we could not remember long enough
   */
  async claim(issuer: EidHex, idHex: string, endMs: number, nowMs: number): Promise<ReplayClaim | 'seen' | 'full' | 'beyond'> {
    if (endMs > nowMs + REPLAY_RETENTION_MS) return 'beyond'
    const name = nameOf(issuer, idHex)
    if (this.#claimed.has(name)) return 'seen'
    this.#claimed.add(name)
    let answer: ReplayClaim | 'seen' | 'full' = 'seen'
    try {
      if (!(await this.#names.has(name))) {
        if (this.#size + this.#claimed.size > this.#namesMax) await this.prune(nowMs)
        answer = this.#size + this.#claimed.size > this.#namesMax ? 'full' : this.#claimOf(name, endMs + CLOCK_SKEW_MAX_MS)
      }
    } finally {
      if (typeof answer === 'string') this.#claimed.delete(name)
    }
    return answer
  }

  #claimOf(name: string, untilMs: number): ReplayClaim {
    const until = sortable(untilMs)
    return {
      ops: [this.#names.put(name, new TextEncoder().encode(until)), this.#ends.put(`${until}/${name}`, EMPTY)],
      done: () => {
        if (this.#claimed.delete(name)) this.#size++
      },
      abandon: () => {
        this.#claimed.delete(name)
      }
    }
  }

  /**
   * Forgets the names whose objects have ended for every clock within the skew.
   * @throws RookeryError `STORE_WRITE_FAILED`
   */
  async prune(nowMs: number): Promise<number> {
    let pruned = 0
    for (;;) {
      const ends: string[] = []
      for await (const key of this.#ends.keys({ lt: sortable(nowMs), limit: PRUNE_BATCH })) ends.push(key)
      if (ends.length === 0) return pruned
      await this.#store.commit(ends.flatMap((key) => [this.#ends.del(key), this.#names.del(key.slice(key.indexOf('/') + 1))]))
      this.#size = Math.max(0, this.#size - ends.length)
      pruned += ends.length
    }
  }
}

function nameOf(issuer: EidHex, idHex: string): string {
  return `${issuer}/${idHex}`
}

/** Milliseconds as 14 hex digits, so that text order is time order. */
function sortable(ms: number): string {
  return Math.max(0, Math.floor(ms)).toString(16).padStart(14, '0')
}

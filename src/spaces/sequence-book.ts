import { NO_NUMBERS, nextSequence, type UsedNumbers } from '../../protocol/records/sequence.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import { jsonCodec, type Store, type Table } from '../store/store.ts'

/** A wait for the clock looks at it this often: it may be set right meanwhile. */
const LOOK_MS = 5_000

/** The last number, or [top, lane, last] while the numbers went back below the highest. */
type Row = number | [number, number, number]

/**
 * The `gen` and `seq` that this node used for each signer, kind and key. A number is on disk, synced, before anything is signed with it
 * (protocol/README.md §3), so that neither a crash nor a second caller nor a clock that jumps uses one twice.
 */
export class SequenceBook {
  readonly #store: Store
  readonly #clock: Clock
  readonly #table: Table<Row>
  readonly #locks = new KeyedLock()

  constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#clock = clock
    this.#table = store.table('published-sequences', jsonCodec<Row>())
  }

  /** -1 when none was ever used. */
  async last(name: string): Promise<number> {
    return (await this.#used(name)).last
  }

  async #used(name: string): Promise<UsedNumbers> {
    const row = await this.#table.get(name)
    if (row === undefined) return NO_NUMBERS
    if (typeof row === 'number') return { top: row, lane: 0, last: row }
    const [top, lane, last] = row
    return { top, lane, last }
  }

  /**
   * Takes the next number; waits where the clock is a little behind the numbers that were seen.
   * @param name - kind, signer and key, in hex and joined by colons
   * @param seen - the highest number that others hold of this signer, -1 for none
   */
  async next(name: string, seen: number, signal?: AbortSignal): Promise<number> {
    return await this.#locks.run(name, async () => {
      for (;;) {
        signal?.throwIfAborted()
        const { number, waitMs, used } = nextSequence({ used: await this.#used(name), seen, nowMs: this.#clock.nowMs() })
        if (waitMs === 0) {
          await this.#store.commit([this.#table.put(name, used.lane === 0 ? number : [used.top, used.lane, number])])
          return number
        }
        await this.#clock.sleep(Math.min(waitMs, LOOK_MS), signal === undefined ? {} : { signal })
      }
    })
  }
}

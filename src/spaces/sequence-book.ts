import { nextSequence } from '../../protocol/records/sequence.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import { jsonCodec, type Store, type Table } from '../store/store.ts'

/**
 * The last `gen` or `seq` that this node used for each signer, kind and key. A number is on disk, synced, before anything is signed with it
 * (protocol/README.md §3), so that neither a crash nor a second caller uses one twice.
 */
export class SequenceBook {
  readonly #store: Store
  readonly #clock: Clock
  readonly #table: Table<number>
  readonly #locks = new KeyedLock()

  constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#clock = clock
    this.#table = store.table('published-sequences', jsonCodec<number>())
  }

  /** -1 when none was ever used. */
  async last(name: string): Promise<number> {
    return (await this.#table.get(name)) ?? -1
  }

  /**
   * Takes the next number; waits where the clock is behind the numbers that were seen.
   * @param name - kind, signer and key, in hex and joined by colons
   * @param seen - the highest number that others hold of this signer, -1 for none
   */
  async next(name: string, seen: number, signal?: AbortSignal): Promise<number> {
    return await this.#locks.run(name, async () => {
      for (;;) {
        signal?.throwIfAborted()
        const { number, waitMs } = nextSequence({ last: await this.last(name), seen, nowMs: this.#clock.nowMs() })
        if (waitMs === 0) {
          await this.#store.commit([this.#table.put(name, number)])
          return number
        }
        await this.#clock.sleep(waitMs, signal === undefined ? {} : { signal })
      }
    })
  }
}

import type { ListOutcome } from './registry-client.ts'
import type { FindResult } from './spaces.ts'

/** Registrars of all the listings of one search, each peer once. */
export class SearchTally {
  readonly #known = new Set<string>()
  readonly #asked = new Set<string>()
  readonly #answered = new Set<string>()
  #hops = 0
  complete = true

  add(outcome: ListOutcome): void {
    this.#hops = Math.max(this.#hops, outcome.hops)
    for (const peer of outcome.known) this.#known.add(peer)
    for (const peer of outcome.asked) this.#asked.add(peer)
    for (const peer of outcome.answered) this.#answered.add(peer)
    if (!outcome.complete) this.complete = false
  }

  counts(): FindResult['registrars'] {
    return { known: this.#known.size, asked: this.#asked.size, answered: this.#answered.size, hops: this.#hops }
  }
}

import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { nodesEstimated, placeOfPeer } from './key-region.ts'

/** Drawn places that are looked up beside our own: nobody can lie near them all. */
const PLACES = 3
/** An estimate is used for so long. */
const FRESH_MS = 600_000
/** That nothing can be told yet, for so long only: tables grow. */
const FRESH_UNKNOWN_MS = 15_000

export interface NetworkSizeComponents {
  /** PeerId of this node, text form */
  self: string
  crypto: CryptoProvider
  clock: Clock
  random: Random
  /** the peers of our own table nearest to ourselves, text form */
  neighbours(): string[]
  /** those nearest to a key, text form */
  lookUp(key: Uint8Array): Promise<string[]>
}

/**
 * How many nodes the network has, about: the median of what our own neighbours and those of three drawn places tell. One place alone misleads whoever
 * has a thin table, and blinds whoever lies beside a crowd.
 * @see protocol/README.md §4
 */
export class NetworkSize {
  readonly #c: NetworkSizeComponents
  #known: { nodes: number | undefined; untilMs: number } | undefined
  #asking: Promise<number | undefined> | undefined

  constructor(components: NetworkSizeComponents) {
    this.#c = components
  }

  /** undefined where nobody is known, or too few. Look-ups that fail are left out. */
  async nodes(): Promise<number | undefined> {
    const { clock } = this.#c
    if (this.#known !== undefined && clock.monotonicMs() < this.#known.untilMs) return this.#known.nodes
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined
    })
    return await this.#asking
  }

  async #ask(): Promise<number | undefined> {
    const { self, crypto, clock, random, neighbours, lookUp } = this.#c
    const keys = Array.from({ length: PLACES }, () => random.bytes(32))
    const drawn = await Promise.all(keys.map(async (key) => nodesEstimated(crypto, crypto.sha256(key), await lookUp(key).catch(() => []))))
    const place = placeOfPeer(crypto, self)
    const own = place === undefined ? undefined : nodesEstimated(crypto, place, neighbours())
    const nodes = median([own, ...drawn].filter((one) => one !== undefined))
    this.#known = { nodes, untilMs: clock.monotonicMs() + (nodes === undefined ? FRESH_UNKNOWN_MS : FRESH_MS) }
    return nodes
  }
}

function median(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((a, b) => a - b)
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]]
  return low === undefined || high === undefined ? undefined : (low + high) / 2
}

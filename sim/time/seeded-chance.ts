import type { FastRandom } from '../model/random.ts'

/** Where a thread's libraries draw from. */
export interface Chance {
  Math: Pick<typeof Math, 'random'>
  crypto: Pick<typeof globalThis.crypto, 'getRandomValues'>
}

/**
 * Puts a stream in the place of a thread's own chance, for good: libp2p draws names of connections and keys to look up from it, which the nodes' own
 * streams do not reach. For simulated nodes alone: whoever knows the seed knows what is drawn.
 */
export function seedChance(chance: Chance, random: FastRandom): void {
  chance.Math.random = () => random.fraction()
  chance.crypto.getRandomValues = (array) => {
    if (array !== null) {
      const { buffer, byteOffset, byteLength } = array as unknown as Uint8Array
      new Uint8Array(buffer, byteOffset, byteLength).set(random.bytes(byteLength))
    }
    return array
  }
}

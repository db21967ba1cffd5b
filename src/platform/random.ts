/** Cryptographic randomness, handed in so that tests and the simulator can replay it. */
export interface Random {
  bytes(length: number): Uint8Array
}

/** WebCrypto gives no more at a time. */
const BYTES_AT_ONCE_MAX = 65_536

/** Of the platform, in Node and in pages alike. */
export const systemRandom: Random = {
  bytes(length) {
    const bytes = new Uint8Array(length)
    for (let at = 0; at < length; at += BYTES_AT_ONCE_MAX) globalThis.crypto.getRandomValues(bytes.subarray(at, at + BYTES_AT_ONCE_MAX))
    return bytes
  }
}

/** A reproducible stream for tests and simulations; never for a real node's keys. */
export function seededRandom(seed: number): Random {
  let state = (seed ^ 0x9e3779b9) >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) & 0xff
  }
  return { bytes: (length) => Uint8Array.from({ length }, next) }
}

/** A number from 0 (with) to 1 (without). */
export function randomFraction(random: Random): number {
  const [a = 0, b = 0, c = 0, d = 0] = random.bytes(4)
  return (a * 0x1000000 + b * 0x10000 + c * 0x100 + d) / 0x100000000
}

import { type Random, randomFraction } from '../../src/platform/random.ts'

/** A whole number from 0 to `below` - 1. */
export function drawInteger(random: Random, below: number): number {
  return Math.floor(randomFraction(random) * below)
}

/** `count` different members of `from`, in the order drawn; all of them where there are no more. */
export function drawDistinct<T>(random: Random, from: readonly T[], count: number): T[] {
  const left = [...from]
  const drawn: T[] = []
  while (drawn.length < count && left.length > 0) {
    const at = drawInteger(random, left.length)
    drawn.push(left[at] as T)
    left[at] = left.at(-1) as T
    left.pop()
  }
  return drawn
}

/** `count` different unordered pairs of 0 to `below` - 1, each with a first and a second; all there are where there are no more. */
export function drawPairs(random: Random, below: number, count: number): [first: number, second: number][] {
  const most = Math.min(count, (below * (below - 1)) / 2)
  const taken = new Set<number>()
  const pairs: [number, number][] = []
  while (pairs.length < most) {
    const first = drawInteger(random, below)
    const second = drawInteger(random, below)
    const key = Math.min(first, second) * below + Math.max(first, second)
    if (first === second || taken.has(key)) continue
    taken.add(key)
    pairs.push([first, second])
  }
  return pairs
}

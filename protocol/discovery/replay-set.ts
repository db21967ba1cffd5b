/** Requests remembered at once; a node that holds so many takes no new ones until some have run out. */
export const REPLAYS_MAX = 65_536

/**
 * Names of what was taken, each kept until its time and never forgotten before: at the bound new ones are refused, so that nobody can push an old one
 * out and send it again.
 */
export class ReplaySet {
  readonly #max: number
  /** Unix seconds up to which each name is kept */
  readonly #names = new Set<string>()
  /** names by the second in which they run out; at most as many seconds as a window has */
  readonly #bySecond = new Map<number, string[]>()
  #sweptSec = 0

  constructor(max = REPLAYS_MAX) {
    this.#max = max
  }

  get size(): number {
    return this.#names.size
  }

  /** @param untilMs - Unix ms up to which the name is kept */
  enter(name: string, { nowMs, untilMs }: { nowMs: number; untilMs: number }): 'entered' | 'known' | 'full' {
    this.#forget(nowMs)
    if (this.#names.has(name)) return 'known'
    if (this.#names.size >= this.#max) return 'full'
    this.#names.add(name)
    const second = Math.ceil(untilMs / 1_000)
    const names = this.#bySecond.get(second)
    if (names === undefined) this.#bySecond.set(second, [name])
    else names.push(name)
    return 'entered'
  }

  #forget(nowMs: number): void {
    const second = Math.floor(nowMs / 1_000)
    if (second === this.#sweptSec) return
    this.#sweptSec = second
    for (const [due, names] of this.#bySecond) {
      if (due >= second) continue
      for (const name of names) this.#names.delete(name)
      this.#bySecond.delete(due)
    }
  }
}

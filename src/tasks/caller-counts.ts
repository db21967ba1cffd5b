/** A count for each caller and their sum. Holds nothing for a caller at zero. */
export class CallerCounts {
  readonly #counts = new Map<string, number>()
  #all = 0

  get all(): number {
    return this.#all
  }

  of(caller: string): number {
    return this.#counts.get(caller) ?? 0
  }

  add(caller: string, more: number): void {
    const count = this.of(caller) + more
    if (count > 0) this.#counts.set(caller, count)
    else this.#counts.delete(caller)
    this.#all += more
  }
}

/** What bounds the Todos on disk, open and ended; at a bound the oldest ended ones of whoever holds most go first. */
export interface KeptBounds {
  keptMax: number
  keptBytesMax: number
  keptPerCallerMax: number
  keptBytesPerCallerMax: number
}

export interface Overflow {
  bound: keyof KeptBounds
  max: number
  /** whose ended Todos make room */
  caller: string
}

interface Share {
  count: number
  bytes: number
}

/** How many Todos lie on disk and how large they are, in all and by caller; bounded with them. */
export class KeptTodos {
  readonly #bounds: KeptBounds
  readonly #shares = new Map<string, Share>()
  readonly #all: Share = { count: 0, bytes: 0 }

  constructor(bounds: KeptBounds) {
    this.#bounds = bounds
  }

  get count(): number {
    return this.#all.count
  }

  get bytes(): number {
    return this.#all.bytes
  }

  add(caller: string, count: number, bytes: number): void {
    const share = this.#shares.get(caller) ?? { count: 0, bytes: 0 }
    for (const one of [share, this.#all]) {
      one.count += count
      one.bytes += bytes
    }
    if (share.count > 0) this.#shares.set(caller, share)
    else this.#shares.delete(caller)
  }

  /** The bound that this much more of `caller` would pass; a caller's own come first, so that one who fills them forgets its own Todos alone. */
  overflow(caller: string, count: number, bytes: number): Overflow | undefined {
    const { keptMax, keptBytesMax, keptPerCallerMax, keptBytesPerCallerMax } = this.#bounds
    const own = this.#shares.get(caller) ?? { count: 0, bytes: 0 }
    if (own.count + count > keptPerCallerMax) return { bound: 'keptPerCallerMax', max: keptPerCallerMax, caller }
    if (own.bytes + bytes > keptBytesPerCallerMax) return { bound: 'keptBytesPerCallerMax', max: keptBytesPerCallerMax, caller }
    if (this.#all.count + count > keptMax) return { bound: 'keptMax', max: keptMax, caller: this.#most('count') ?? caller }
    if (this.#all.bytes + bytes > keptBytesMax) return { bound: 'keptBytesMax', max: keptBytesMax, caller: this.#most('bytes') ?? caller }
    return undefined
  }

  #most(measure: keyof Share): string | undefined {
    let most: [string, Share] | undefined
    for (const entry of this.#shares) if (most === undefined || entry[1][measure] > most[1][measure]) most = entry
    return most?.[0]
  }
}

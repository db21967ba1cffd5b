import type { Table } from '../store/store.ts'

/** What a row says of its work and its end. */
interface Worked {
  /** leading zero bits; absent in rows that were written before there was work */
  w?: number
  /** Unix seconds */
  e: number
}

export interface Least {
  rowKey: string
  /** -1 for a row that has expired and was not swept yet */
  bits: number
}

/**
 * The entry of a full set that goes first: one that has expired, else the one with the least work, of several the one that expires first. Found by
 * a look at the whole set and remembered until that entry changes; one memory a full set.
 */
export class LeastWork {
  readonly #rows: Pick<Table<Worked>, 'entries'>
  readonly #bySet = new Map<string, Least>()

  constructor(rows: Pick<Table<Worked>, 'entries'>) {
    this.#rows = rows
  }

  /** Undefined for an empty set. */
  async of(setKey: string, nowSec: number): Promise<Least | undefined> {
    const known = this.#bySet.get(setKey)
    if (known !== undefined) return known
    let least: (Least & { e: number }) | undefined
    for await (const [rowKey, { w = 0, e }] of this.#rows.entries({ gt: `${setKey}:`, lt: `${setKey};` })) {
      const bits = e <= nowSec ? -1 : w
      if (least === undefined || bits < least.bits || (bits === least.bits && e < least.e)) least = { rowKey, bits, e }
      if (bits < 0) break
    }
    if (least === undefined) return undefined
    const found = { rowKey: least.rowKey, bits: least.bits }
    this.#bySet.set(setKey, found)
    return found
  }

  /** A row was written. */
  wrote(setKey: string, rowKey: string, bits: number): void {
    const known = this.#bySet.get(setKey)
    if (known !== undefined && (known.rowKey === rowKey || bits < known.bits)) this.#bySet.delete(setKey)
  }

  /** A row went: there is room, nobody has to go now. */
  removed(setKey: string): void {
    this.#bySet.delete(setKey)
  }
}

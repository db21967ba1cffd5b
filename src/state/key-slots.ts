import { wipe } from '../../protocol/bytes.ts'
import type { Random } from '../platform/random.ts'

export const KEY_BYTES = 32
/** Keys that are made at once, with one sync: as many as there are, within these. */
const GROWTH_MIN = 16
const GROWTH_MAX = 256
/** Keys in all: two for each session on disk, and room for those that are being replaced. */
export const KEY_SLOTS_MAX = 262_144

/** Keys that stand apart from what they seal, each of which can be destroyed for good (protocol/README.md §6, Erasure). */
export interface KeySlots {
  /** A fresh key, on disk. The copy is the caller's to overwrite. @throws RangeError beyond KEY_SLOTS_MAX */
  take(): { slot: number; key: Uint8Array }
  /** The key of a slot; undefined where there is no such slot. The copy is the caller's to overwrite. */
  read(slot: number): Uint8Array | undefined
  /** The key is overwritten, on disk too, when this returns; the slot is free. */
  destroy(slot: number): void
  /** It protected nothing: the slot is free, and gets another key before its next use. */
  release(slot: number): void
  /** At a start: whatever no one refers to is destroyed, with one sync. */
  sweep(used: ReadonlySet<number>): void
}

/** Where the keys' bytes stand. */
export interface Cells {
  readonly size: number
  read(slot: number): Uint8Array
  write(slot: number, keys: Uint8Array): void
  sync(): void
}

export class Slots implements KeySlots {
  readonly #cells: Cells
  readonly #random: Random
  /** with a key that nobody has used */
  #free: number[] = []
  /** with a key that was used */
  #stale: number[] = []

  constructor(cells: Cells, random: Random) {
    this.#cells = cells
    this.#random = random
  }

  take(): { slot: number; key: Uint8Array } {
    if (this.#free.length === 0) this.#renew(this.#stale)
    if (this.#free.length === 0) this.#grow()
    const slot = this.#free.pop() as number
    return { slot, key: this.#cells.read(slot) }
  }

  read(slot: number): Uint8Array | undefined {
    return slot < this.#cells.size ? this.#cells.read(slot) : undefined
  }

  destroy(slot: number): void {
    if (slot < this.#cells.size) this.#renew([slot])
  }

  release(slot: number): void {
    this.#stale.push(slot)
  }

  sweep(used: ReadonlySet<number>): void {
    const rest: number[] = []
    for (let slot = 0; slot < this.#cells.size; slot++) if (!used.has(slot)) rest.push(slot)
    this.#free = []
    this.#stale = []
    this.#renew(rest)
  }

  #renew(slots: number[]): void {
    if (slots.length === 0) return
    for (const slot of slots) this.#cells.write(slot, this.#random.bytes(KEY_BYTES))
    this.#cells.sync()
    this.#free.push(...slots)
    if (slots === this.#stale) this.#stale = []
  }

  #grow(): void {
    const { size } = this.#cells
    if (size >= KEY_SLOTS_MAX) throw new RangeError(`more than ${KEY_SLOTS_MAX} keys of ESEs`)
    const count = Math.min(GROWTH_MAX, Math.max(GROWTH_MIN, size))
    const keys = this.#random.bytes(count * KEY_BYTES)
    this.#cells.write(size, keys)
    this.#cells.sync()
    wipe(keys)
    for (let i = 0; i < count; i++) this.#free.push(size + i)
  }
}

/** In memory only: for nodes without a data directory. */
export function memoryKeySlots(random: Random): KeySlots {
  let bytes = new Uint8Array(0)
  const cells: Cells = {
    get size() {
      return bytes.length / KEY_BYTES
    },
    read: (slot) => bytes.slice(slot * KEY_BYTES, (slot + 1) * KEY_BYTES),
    write(slot, keys) {
      const end = slot * KEY_BYTES + keys.length
      if (end > bytes.length) {
        const grown = new Uint8Array(end)
        grown.set(bytes)
        wipe(bytes)
        bytes = grown
      }
      bytes.set(keys, slot * KEY_BYTES)
    },
    sync() {}
  }
  return new Slots(cells, random)
}

import type { Clock } from '../platform/clock.ts'

const MIB = 1_048_576
/** Measured anew after this long, and before anything is refused. */
const MEASURE_EVERY_MS = 1_000
/** What LevelDB may write for one byte that goes in, until its logs and tables are merged. */
const AMPLIFICATION = 3

export interface DiskSpace {
  freeBytes: number
  totalBytes: number
}

/**
 * Bytes of a volume that nothing new may take: 5 % of it, at least 16 and at most 64 MiB, and never more than a quarter. LevelDB that runs into the end
 * of a disk may lose what it held; and what takes work off the node needs some room itself.
 */
export function reserveOf(totalBytes: number): number {
  return Math.floor(Math.min(64 * MIB, Math.max(16 * MIB, totalBytes / 20), totalBytes / 4))
}

/** Room on the volume of a store, measured now and then, counted in between. */
export class DiskRoom {
  readonly #measure: () => Promise<DiskSpace>
  readonly #clock: Clock
  readonly #reserve: number | undefined
  #space: DiskSpace | undefined
  #measuredAtMs = 0
  #spentBytes = 0

  constructor(measure: () => Promise<DiskSpace>, { clock, reserveBytes }: { clock: Clock; reserveBytes?: number | undefined }) {
    this.#measure = measure
    this.#clock = clock
    this.#reserve = reserveBytes
  }

  /** Free space, and how much of it is kept. */
  async state(): Promise<DiskSpace & { reserveBytes: number }> {
    const space = await this.#look(0)
    return { ...space, reserveBytes: this.#reserveBytes(space) }
  }

  /** Whether `bytes` more may come in without touching the reserve. A volume that cannot be measured admits all. */
  async admits(bytes: number): Promise<boolean> {
    if (await this.#fits(bytes, MEASURE_EVERY_MS)) return true
    return await this.#fits(bytes, 0)
  }

  /** What was written since the last look. */
  spent(bytes: number): void {
    this.#spentBytes += bytes * AMPLIFICATION
  }

  async #fits(bytes: number, ageMaxMs: number): Promise<boolean> {
    const space = await this.#look(ageMaxMs)
    return space.freeBytes - this.#spentBytes - bytes * AMPLIFICATION >= this.#reserveBytes(space)
  }

  #reserveBytes({ totalBytes }: DiskSpace): number {
    return this.#reserve ?? reserveOf(totalBytes)
  }

  async #look(ageMaxMs: number): Promise<DiskSpace> {
    const nowMs = this.#clock.monotonicMs()
    if (this.#space === undefined || nowMs - this.#measuredAtMs >= ageMaxMs) {
      this.#measuredAtMs = nowMs
      this.#space = await this.#measure().catch(() => ({ freeBytes: Number.MAX_SAFE_INTEGER, totalBytes: 0 }))
      this.#spentBytes = 0
    }
    return this.#space
  }
}

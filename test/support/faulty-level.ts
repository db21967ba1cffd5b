import { closeSync, ftruncateSync, openSync, readdirSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Level } from 'level'
import { randomFraction, seededRandom } from '../../src/platform/random.ts'

/** What goes wrong with one write batch. */
export interface Fault {
  /**
   * `before`: the process dies and nothing is written. `after`: it is written and synced, and nobody hears of it. `torn`: the process dies in the
   * middle of the write; what stands in the log from some byte of this batch on is not what was meant. `error`: the write is refused.
   */
  how: 'before' | 'after' | 'torn' | 'error'
  /** the first batch that meets it, counted from 1 among those that touch `table` */
  at: number
  /** absent: any */
  table?: string
  /** batches that touch this table are spared */
  spares?: string
  /** `torn`: the log ends there, or goes on with zeros or with noise up to the batch's end */
  tail: 'cut' | 'zeros' | 'noise'
  /** `error`: whether the batch is on disk all the same, as after a failing fsync */
  written: boolean
  /** `error`: LevelDB refuses every write after a failing fsync until it is opened again; a full disk may have room for the next */
  lasts: 'once' | 'until reopened'
  seed: number
}

export interface BatchOp {
  type: 'put' | 'del'
  table: string
  key: string
  value?: Uint8Array
}

type Batch = { type: 'put' | 'del'; sublevel: { prefix: string }; key: string; value?: Uint8Array }[]

/** Puts faults into the batches of a LevelDB on disk: `level.batch` is the only write that a Store makes, one at a time. */
export class FaultyLevel {
  readonly level: Level<string, Uint8Array>
  readonly #directory: string
  readonly #die: () => never
  readonly #written: (ops: BatchOp[]) => void
  #fault: Fault | undefined
  #met = 0
  #refuses = false

  /**
   * @param directory - where the database is
   * @param die - ends the process without any goodbye
   * @param written - learns of every batch that is synced, before whoever waits for it
   */
  constructor(
    level: Level<string, Uint8Array>,
    { directory, die, written }: { directory: string; die: () => never; written: (ops: BatchOp[]) => void }
  ) {
    this.level = level
    this.#directory = directory
    this.#die = die
    this.#written = written
    const write = level.batch.bind(level) as unknown as (ops: Batch, options: unknown) => Promise<void>
    level.batch = (async (ops: Batch, options: unknown) => await this.#batch(ops, () => write(ops, options))) as never
  }

  arm(fault: Fault): void {
    this.#fault = fault
    this.#met = 0
  }

  async #batch(batch: Batch, write: () => Promise<void>): Promise<void> {
    if (this.#refuses) throw new Error('the disk takes no write until it is opened again')
    const ops = batch.map(({ type, sublevel, key, value }) => ({
      type,
      table: sublevel.prefix.replaceAll('!', ''),
      key,
      ...(value === undefined ? {} : { value })
    }))
    const fault = this.#due(ops)
    if (fault === undefined) {
      await write()
      this.#written(ops)
      return
    }
    switch (fault.how) {
      case 'before':
        return this.#die()
      case 'after':
        await write()
        return this.#die()
      case 'torn':
        return await this.#tear(fault, write)
      case 'error':
        if (fault.written) await write()
        this.#refuses = fault.lasts === 'until reopened'
        throw new Error('no space left on device, or a failing fsync')
    }
  }

  #due(ops: BatchOp[]): Fault | undefined {
    const fault = this.#fault
    if (fault === undefined) return undefined
    if (fault.table !== undefined && !ops.some(({ table }) => table === fault.table)) return undefined
    if (fault.spares !== undefined && ops.some(({ table }) => table === fault.spares)) return undefined
    this.#met += 1
    if (this.#met < fault.at) return undefined
    this.#fault = undefined
    return fault
  }

  async #tear({ seed, tail }: Fault, write: () => Promise<void>): Promise<never> {
    const before = this.#log()
    await write()
    const after = this.#log()
    const from = before.name === after.name ? before.bytes : 0
    const random = seededRandom(seed)
    const at = from + Math.floor(randomFraction(random) * (after.bytes - from + 1))
    const file = openSync(join(this.#directory, after.name), 'r+')
    if (tail === 'cut') ftruncateSync(file, at)
    else {
      const bytes = tail === 'zeros' ? new Uint8Array(after.bytes - at) : random.bytes(after.bytes - at)
      writeSync(file, bytes, 0, bytes.length, at)
    }
    closeSync(file)
    return this.#die()
  }

  /** The log that LevelDB writes to: the one with the highest number. */
  #log(): { name: string; bytes: number } {
    const name = readdirSync(this.#directory)
      .filter((one) => one.endsWith('.log'))
      .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
      .at(-1)
    if (name === undefined) return { name: '', bytes: 0 }
    return { name, bytes: statSync(join(this.#directory, name)).size }
  }
}

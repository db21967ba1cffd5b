import { Level } from 'level'
import { makePrivateDir } from '../platform/files.ts'

/** What waits to be written at a time, in rows and in bytes. */
const ROWS_AT_ONCE = 500
const BYTES_AT_ONCE = 4 * 1_048_576

/** Fills a store that nobody reads yet. */
export class RowWriter {
  readonly #level: Level<string, Uint8Array>
  #batch: { type: 'put'; key: string; value: Uint8Array }[] = []
  #bytes = 0

  private constructor(level: Level<string, Uint8Array>) {
    this.#level = level
  }

  /** @param path - folder of the store. @throws RookeryError `DATA_DIR_UNUSABLE`; LevelDB's errors */
  static async open(path: string): Promise<RowWriter> {
    makePrivateDir(path)
    const level = new Level<string, Uint8Array>(path, { keyEncoding: 'utf8', valueEncoding: 'view' })
    await level.open()
    return new RowWriter(level)
  }

  async put(key: string, value: Uint8Array): Promise<void> {
    this.#batch.push({ type: 'put', key, value })
    this.#bytes += value.length
    if (this.#batch.length >= ROWS_AT_ONCE || this.#bytes >= BYTES_AT_ONCE) await this.#flush(false)
  }

  /** Writes the rest, so that it lasts, and closes. */
  async end(): Promise<void> {
    await this.#flush(true)
    await this.#level.close()
  }

  /** Gives up what waits. */
  async close(): Promise<void> {
    await this.#level.close()
  }

  async #flush(sync: boolean): Promise<void> {
    await this.#level.batch(this.#batch, { sync } as never)
    this.#batch = []
    this.#bytes = 0
  }
}

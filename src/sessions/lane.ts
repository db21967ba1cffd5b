import type { ByteStream } from '../net/byte-stream.ts'

export interface LaneFrame {
  bytes: Uint8Array
  /** called once the transport took it */
  written: (() => void) | undefined
}

/**
 * The stream on which we send one channel. Frames are pulled, never pushed: while a write is under way what waits piles up in the session's
 * queue and goes out together in the next record.
 */
export class Lane {
  readonly #stream: () => Promise<ByteStream>
  readonly #next: () => LaneFrame | undefined
  readonly #failed: (error: unknown) => void
  #running: Promise<void> | undefined

  constructor(stream: () => Promise<ByteStream>, next: () => LaneFrame | undefined, failed: (error: unknown) => void) {
    this.#stream = stream
    this.#next = next
    this.#failed = failed
  }

  /** Sends everything that is due, unless that is under way. */
  pump(): void {
    this.#running ??= this.#run()
  }

  /** Resolves when nothing is being written. */
  async idle(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    try {
      const stream = await this.#stream()
      for (let frame = this.#next(); frame !== undefined; frame = this.#next()) {
        await stream.write(frame.bytes)
        frame.written?.()
      }
    } catch (error) {
      this.#failed(error)
    } finally {
      this.#running = undefined
    }
  }
}

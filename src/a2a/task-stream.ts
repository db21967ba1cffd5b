import { A2aError } from './a2a-error.ts'
import type { TaskEvent } from './task-events.ts'

/** Events that a slow reader has not taken, in bytes of JSON; above it the stream ends with a reason (TD-R4). */
export const STREAM_BUFFER_BYTES_MAX = 262_144

/**
 * The events of one task for one reader, in the order made. Ends by itself after the task's last event; leaving the loop closes it. A reader that does
 * not keep up is told `RATE_LIMITED` (cause `STREAM_TOO_SLOW`): the task goes on, and a new subscription begins with all that it has.
 */
export class TaskStream implements AsyncIterableIterator<TaskEvent> {
  readonly #left: () => void
  readonly #bufferBytesMax: number
  readonly #queue: { event: TaskEvent; bytes: number }[] = []
  readonly #over = new AbortController()
  #bytes = 0
  #began: 'snapshot' | 'resumed' = 'snapshot'
  #state: 'open' | 'ending' | 'closed' = 'open'
  #error: { reason: unknown } | undefined
  #waiting: PromiseWithResolvers<IteratorResult<TaskEvent>> | undefined

  /** @param init.left - called once, when the stream takes nothing more */
  constructor(init: { bufferBytesMax: number; left: () => void }) {
    this.#bufferBytesMax = init.bufferBytesMax
    this.#left = init.left
  }

  /** Fires when the reader has to stop what it is at: its stream was closed or failed. Not when it ended well. */
  get over(): AbortSignal {
    return this.#over.signal
  }

  /** How the stream began: with the whole task, or with what the reader had not. */
  get began(): 'snapshot' | 'resumed' {
    return this.#began
  }

  /** @param events - never too much: what a stream begins with has a bound of its own */
  begin(began: 'snapshot' | 'resumed', events: readonly TaskEvent[]): void {
    this.#began = began
    for (const event of events) this.#put(event, 0)
  }

  push(event: TaskEvent): void {
    this.#put(event, event.text.length)
    if (this.#bytes <= this.#bufferBytesMax) return
    this.fail(
      new A2aError(
        'RATE_LIMITED',
        `the reader of this stream let more than ${this.#bufferBytesMax} bytes wait; the task goes on: subscribe again`,
        {
          metadata: { cause: 'STREAM_TOO_SLOW', bytesMax: String(this.#bufferBytesMax) }
        }
      )
    )
  }

  #put(event: TaskEvent, bytes: number): void {
    if (this.#state !== 'open') return
    const waiting = this.#waiting
    if (waiting === undefined) {
      this.#queue.push({ event, bytes })
      this.#bytes += bytes
    } else {
      this.#waiting = undefined
      waiting.resolve({ done: false, value: event })
    }
  }

  /** After what was pushed nothing follows. */
  end(): void {
    if (this.#state !== 'open') return
    this.#state = 'ending'
    if (this.#queue.length === 0) this.#close()
  }

  /** Drops what waits; the reader gets the error. */
  fail(error: unknown): void {
    if (this.#state === 'closed') return
    this.#error = { reason: error }
    this.#drop()
    this.#close(error)
  }

  /** Without a word: nobody reads any more. */
  close(): void {
    if (this.#state === 'closed') return
    this.#drop()
    this.#close(new DOMException('the stream is closed', 'AbortError'))
  }

  #drop(): void {
    this.#queue.length = 0
    this.#bytes = 0
  }

  #close(reason?: unknown): void {
    this.#state = 'closed'
    this.#left()
    if (reason !== undefined) this.#over.abort(reason)
    const waiting = this.#waiting
    this.#waiting = undefined
    if (waiting === undefined) return
    if (this.#error !== undefined) waiting.reject(this.#taken())
    else waiting.resolve({ done: true, value: undefined })
  }

  /** The error is given once. */
  #taken(): unknown {
    const reason = this.#error?.reason
    this.#error = undefined
    return reason
  }

  async next(): Promise<IteratorResult<TaskEvent>> {
    const waits = this.#queue.shift()
    if (waits !== undefined) {
      this.#bytes -= waits.bytes
      if (this.#state === 'ending' && this.#queue.length === 0) this.#close()
      return { done: false, value: waits.event }
    }
    if (this.#error !== undefined) throw this.#taken()
    if (this.#state !== 'open') return { done: true, value: undefined }
    this.#waiting ??= Promise.withResolvers<IteratorResult<TaskEvent>>()
    return await this.#waiting.promise
  }

  async return(): Promise<IteratorResult<TaskEvent>> {
    this.close()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}

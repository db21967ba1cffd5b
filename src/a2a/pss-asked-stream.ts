import type { JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import { isObject } from './json-rpc.ts'
import { END_MEMBER, EVENT_MEMBER } from './pss-texts.ts'
import { isAfter, placeOf, TaskEvent } from './task-events.ts'
import { STREAM_BUFFER_BYTES_MAX, TaskStream } from './task-stream.ts'

/** The asker's end of a stream over a session: from its first event on it is a {@link TaskStream}. */
export class AskedStream {
  /** rejects with what the peer refused, or with why no answer came */
  readonly opened: Promise<TaskStream>
  readonly #opening = Promise.withResolvers<TaskStream>()
  readonly #stream: TaskStream
  #isOpen = false
  #lastEventId: string | undefined
  #isEnded = false

  /** @param init.left - the reader wants nothing more, or there is nothing; `peerEnded`: the peer knows */
  constructor(init: { lastEventId: string | undefined; left: (how: 'peer-ended' | 'reader-left') => void }) {
    this.opened = this.#opening.promise
    this.#lastEventId = init.lastEventId
    this.#stream = new TaskStream({
      bufferBytesMax: STREAM_BUFFER_BYTES_MAX,
      left: () => init.left(this.#isEnded ? 'peer-ended' : 'reader-left')
    })
  }

  /** Whether the peer has let it in: a refusal from then on is its end. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** The last event that came, for who asks again. */
  get lastEventId(): string | undefined {
    return this.#lastEventId
  }

  /** A text of the peer with a result. What came before, and comes again after a resume, is dropped. */
  take(text: JsonObject): void {
    if (text[END_MEMBER] === true) {
      this.#isEnded = true
      this.#open()
      this.#stream.end()
      return
    }
    const { result } = text
    const id = text[EVENT_MEMBER]
    if (!isObject(result) || typeof id !== 'string' || placeOf(id) === undefined) {
      this.fail(new A2aError('INTERNAL_ERROR', 'the agent sent an event that is none'))
      return
    }
    if (!this.#isOpen) this.#stream.begin(isObject(result.task) ? 'snapshot' : 'resumed', [])
    this.#open()
    const place = this.#lastEventId === undefined ? undefined : placeOf(this.#lastEventId)
    // a task that was restored from an older copy begins again with all of it
    if (place !== undefined && !isAfter(id, place) && !isObject(result.task)) return
    if (this.#lastEventId === id) return
    this.#lastEventId = id
    this.#stream.push(new TaskEvent(id, result))
  }

  /** The peer refused, or went. */
  refuse(error: unknown): void {
    this.#isEnded = true
    this.fail(error)
  }

  fail(error: unknown): void {
    if (this.#isOpen) this.#stream.fail(error)
    else {
      this.#isOpen = true
      this.#opening.reject(error)
      this.#stream.close()
    }
  }

  close(): void {
    this.#stream.close()
  }

  #open(): void {
    if (this.#isOpen) return
    this.#isOpen = true
    this.#opening.resolve(this.#stream)
  }
}

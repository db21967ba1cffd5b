import { CHANGES_WAITING_MAX, type GroupChange } from './groups.ts'

interface Reader {
  readonly waiting: GroupChange[]
  wake: () => void
}

/** Hands changes to any number of readers, each at its own pace; a slow one learns that it missed some, and holds up nobody. */
export class ChangeFeed {
  readonly #readers = new Set<Reader>()
  #isOver = false

  push(change: GroupChange): void {
    for (const reader of this.#readers) {
      if (reader.waiting.length >= CHANGES_WAITING_MAX) reader.waiting.splice(0, reader.waiting.length, { kind: 'missed' })
      reader.waiting.push(change)
      reader.wake()
    }
  }

  /** Readers get what waits, then end. */
  end(): void {
    this.#isOver = true
    for (const reader of this.#readers) reader.wake()
  }

  /** Listens from the call on, not from the first `next`. */
  read({ signal }: { signal?: AbortSignal } = {}): AsyncIterableIterator<GroupChange> {
    const reader: Reader = { waiting: [], wake: () => {} }
    this.#readers.add(reader)
    return this.#loop(reader, signal)
  }

  async *#loop(reader: Reader, signal: AbortSignal | undefined): AsyncGenerator<GroupChange, void, undefined> {
    const wake = () => reader.wake()
    signal?.addEventListener('abort', wake, { once: true })
    try {
      for (;;) {
        if (signal?.aborted === true) return
        const next = reader.waiting.shift()
        if (next !== undefined) yield next
        else if (this.#isOver) return
        else {
          await new Promise<void>((resolve) => {
            reader.wake = resolve
            if (reader.waiting.length > 0 || this.#isOver || signal?.aborted === true) resolve()
          })
          reader.wake = () => {}
        }
      }
    } finally {
      this.#readers.delete(reader)
      signal?.removeEventListener('abort', wake)
    }
  }
}

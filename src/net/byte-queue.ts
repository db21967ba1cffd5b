import { Uint8ArrayList } from 'uint8arraylist'

/** Bytes that came and were not read yet. Its owner bounds it: the queue takes what it is given. */
export class ByteQueue {
  readonly #chunks = new Uint8ArrayList()

  get byteLength(): number {
    return this.#chunks.byteLength
  }

  push(chunk: Uint8Array | Uint8ArrayList): void {
    this.#chunks.append(chunk)
  }

  /** Moves the first bytes, as many as `target` has, into it: the one copy between the transport and its reader. */
  moveInto(target: Uint8Array): void {
    if (this.#chunks.byteLength < target.length) throw new RangeError(`${this.#chunks.byteLength} of ${target.length} bytes are there`)
    let at = 0
    for (const chunk of this.#chunks) {
      if (at === target.length) break
      const part = chunk.length > target.length - at ? chunk.subarray(0, target.length - at) : chunk
      target.set(part, at)
      at += part.length
    }
    this.#chunks.consume(target.length)
  }

  clear(): void {
    this.#chunks.consume(this.#chunks.byteLength)
  }
}

/** Longest input of any target. */
export const INPUT_BYTES_MAX = 1 << 20

const STOP = 0
const LENGTH = 1
const BEATS = 2
const HEAD_BYTES = 16

/** What a fuzzing thread and its keeper share: the input under way, which outlives a thread that hangs or dies, and the wish to stop. */
export class SharedInput {
  readonly memory: SharedArrayBuffer
  readonly #head: Int32Array
  readonly #bytes: Uint8Array

  constructor(memory = new SharedArrayBuffer(HEAD_BYTES + INPUT_BYTES_MAX)) {
    this.memory = memory
    this.#head = new Int32Array(memory, 0, HEAD_BYTES / 4)
    this.#bytes = new Uint8Array(memory, HEAD_BYTES)
  }

  put(input: Uint8Array): void {
    this.#bytes.set(input)
    this.#head[LENGTH] = input.length
    Atomics.add(this.#head, BEATS, 1)
  }

  get input(): Uint8Array {
    return Uint8Array.from(this.#bytes.subarray(0, Atomics.load(this.#head, LENGTH)))
  }

  /** Changes with every input. */
  get beats(): number {
    return Atomics.load(this.#head, BEATS)
  }

  stop(): void {
    Atomics.store(this.#head, STOP, 1)
  }

  get stopped(): boolean {
    return Atomics.load(this.#head, STOP) === 1
  }
}

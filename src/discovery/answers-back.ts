import { Allowance } from '../../protocol/discovery/relay.ts'
import { encodeRejection, encodeResponse, type Rejection } from '../../protocol/discovery/response.ts'
import type { ByteStream } from '../net/byte-stream.ts'

/** Where the answers to one request go: back along the stream that it came by, one after the other and within the hop's allowance. */
export class AnswersBack {
  readonly #stream: ByteStream
  readonly #signal: AbortSignal
  readonly #allowance = new Allowance()
  #turn: Promise<unknown> = Promise.resolve()

  constructor(stream: ByteStream, signal: AbortSignal) {
    this.#stream = stream
    this.#signal = signal
  }

  get isFull(): boolean {
    return this.#allowance.items === 0
  }

  /** An item beyond the allowance is dropped. */
  async item(bytes: Uint8Array): Promise<void> {
    if (this.#allowance.takeItem()) await this.#write(encodeResponse([bytes]))
  }

  async reject(rejection: Rejection): Promise<void> {
    if (this.#allowance.takeRejection()) await this.#write(encodeRejection(rejection))
  }

  #write(bytes: Uint8Array): Promise<void> {
    const run = this.#turn.then(() => this.#stream.write(bytes, { signal: this.#signal }))
    this.#turn = run.catch(() => {})
    return run
  }
}

/** The little of protobuf that libp2p's messages need: fields of varints and of bytes. */

const VARINT_BYTES_MAX = 10

export interface Field {
  readonly number: number
  /** of a varint; else the field has bytes */
  readonly value: bigint
  /** a view of the message */
  readonly bytes: Uint8Array
}

const NONE = new Uint8Array(0)

/** @returns the value and where the next byte is. @throws RangeError where the varint does not end, or is longer than 64 bits */
function readVarint(from: Uint8Array, at: number): { value: bigint; next: number } {
  // nearly all lengths and tags are of one byte
  const first = from[at]
  if (first !== undefined && first < 0x80) return { value: BigInt(first), next: at + 1 }
  let value = 0n
  for (let i = 0; i < VARINT_BYTES_MAX; i++) {
    const byte = from[at + i]
    if (byte === undefined) break
    value |= BigInt(byte & 0x7f) << BigInt(7 * i)
    if (byte < 0x80) return { value: BigInt.asUintN(64, value), next: at + i + 1 }
  }
  throw new RangeError('a varint of protobuf does not end')
}

function lengthOf(value: bigint, left: number): number {
  if (value > BigInt(left)) throw new RangeError('a field of protobuf is longer than its message')
  return Number(value)
}

/**
 * The fields of a message in their order; unknown ones are for the caller to pass over.
 * @throws RangeError where it is not well-formed
 */
export function* fieldsOf(message: Uint8Array): Generator<Field> {
  let at = 0
  while (at < message.length) {
    const tag = readVarint(message, at)
    at = tag.next
    const number = Number(tag.value >> 3n)
    const wire = Number(tag.value & 7n)
    if (wire === 0) {
      const { value, next } = readVarint(message, at)
      at = next
      yield { number, value, bytes: NONE }
      continue
    }
    const fixed = wire === 1 ? 8 : wire === 5 ? 4 : undefined
    if (fixed === undefined && wire !== 2) throw new RangeError(`protobuf knows no wire type ${wire}`)
    const length = fixed ?? readVarint(message, at)
    if (typeof length !== 'number') at = length.next
    const size = typeof length === 'number' ? lengthOf(BigInt(length), message.length - at) : lengthOf(length.value, message.length - at)
    yield { number, value: 0n, bytes: message.subarray(at, at + size) }
    at += size
  }
}

/**
 * Takes the messages that stand one after another in `bytes`, each after its length.
 * @returns those that are whole, as views
 * @throws RangeError where one is longer than `bytesMax`
 */
export function delimited(bytes: Uint8Array, bytesMax: number): Uint8Array[] {
  const messages: Uint8Array[] = []
  for (let at = 0; at < bytes.length; ) {
    if (!hasVarint(bytes, at)) break
    const { value, next } = readVarint(bytes, at)
    if (value > BigInt(bytesMax)) throw new RangeError(`a message of ${value} bytes, at most ${bytesMax} are taken`)
    const end = next + Number(value)
    if (end > bytes.length) break
    messages.push(bytes.subarray(next, end))
    at = end
  }
  return messages
}

function hasVarint(bytes: Uint8Array, at: number): boolean {
  const end = Math.min(bytes.length, at + VARINT_BYTES_MAX)
  for (let i = at; i < end; i++) if ((bytes[i] as number) < 0x80) return true
  return end === at + VARINT_BYTES_MAX // it is too long, and reading it says so
}

/** Writes fields one after another. */
export class FieldWriter {
  readonly #parts: number[] = []

  varint(number: number, value: number | bigint): this {
    this.#push(BigInt(number) << 3n)
    this.#push(BigInt(value))
    return this
  }

  /** A length on its own */
  length(value: number): this {
    this.#push(BigInt(value))
    return this
  }

  bytes(number: number, bytes: Uint8Array): this {
    this.#push((BigInt(number) << 3n) | 2n)
    return this.lengthAndBytes(bytes)
  }

  lengthAndBytes(bytes: Uint8Array): this {
    this.length(bytes.length)
    for (const byte of bytes) this.#parts.push(byte)
    return this
  }

  #push(value: bigint): void {
    let left = BigInt.asUintN(64, value)
    while (left > 0x7fn) {
      this.#parts.push(Number(left & 0x7fn) | 0x80)
      left >>= 7n
    }
    this.#parts.push(Number(left))
  }

  finish(): Uint8Array {
    return Uint8Array.from(this.#parts)
  }
}

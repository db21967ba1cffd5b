/** Reads an input as a list of steps: every input is one, and a prefix of an input is the beginning of the same. Zeros follow its end. */
export class Script {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get isOver(): boolean {
    return this.#at >= this.#bytes.length
  }

  u8(): number {
    return this.#bytes[this.#at++] ?? 0
  }

  u16(): number {
    return (this.u8() << 8) | this.u8()
  }

  below(count: number): number {
    return count <= 1 ? 0 : this.u8() % count
  }

  flag(): boolean {
    return (this.u8() & 1) === 1
  }

  /** At most `max` bytes, behind a byte that says how many. */
  bytes(max: number): Uint8Array {
    const length = Math.min(this.u8() % (max + 1), this.#bytes.length - this.#at)
    if (length <= 0) return new Uint8Array(0)
    this.#at += length
    return this.#bytes.slice(this.#at - length, this.#at)
  }

  rest(): Uint8Array {
    const rest = this.#bytes.slice(this.#at)
    this.#at = this.#bytes.length
    return rest
  }
}

/** A frame that went through a hostile hand: a bit flipped, cut short, made longer, overwritten, or left as it is. */
export function tampered(frame: Uint8Array, script: Script): Uint8Array {
  const made = frame.slice()
  switch (script.below(6)) {
    case 0: {
      const bit = script.u16() % Math.max(1, made.length * 8)
      made[bit >> 3] = (made[bit >> 3] ?? 0) ^ (0x80 >> (bit & 7))
      return made
    }
    case 1:
      return made.slice(0, script.u16() % (made.length + 1))
    case 2:
      return Uint8Array.from([...made, ...script.bytes(16)])
    case 3: {
      const at = script.u16() % Math.max(1, made.length)
      made.set(script.bytes(Math.min(32, made.length - at)), at)
      return made
    }
    case 4:
      return script.bytes(255)
    default:
      return made
  }
}

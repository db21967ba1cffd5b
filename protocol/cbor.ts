import { utf8 } from './bytes.ts'
import { ProtocolError } from './errors.ts'

export { CBOR_DEPTH_MAX, decodeCbor } from './cbor-decoder.ts'
export { encodeCbor } from './cbor-encoder.ts'

/** What our CBOR can say: no floats, no null, no tags. Integers stay within ±(2^53 − 1). */
export type CborValue = number | string | boolean | Uint8Array | CborValue[] | { [key: string]: CborValue }

/**
 * Reads the members of a decoded map by name and type; `end()` refuses members that nobody asked for.
 * Every failure is a ProtocolError (`FIELD_MISSING`, `FIELD_INVALID`, `FIELD_UNKNOWN`) that names the field.
 */
export class CborFields {
  readonly #what: string
  readonly #members: Map<string, CborValue>

  constructor(value: CborValue, what: string) {
    if (typeof value !== 'object' || Array.isArray(value) || value instanceof Uint8Array) {
      throw new ProtocolError('FIELD_INVALID', `${what} is not a map`, { field: what })
    }
    this.#what = what
    this.#members = new Map(Object.entries(value))
  }

  #bad(name: string, expected: string): ProtocolError {
    return new ProtocolError('FIELD_INVALID', `${this.#what}.${name} is not ${expected}`, { field: `${this.#what}.${name}` })
  }

  #take(name: string): CborValue {
    const value = this.#members.get(name)
    if (value === undefined)
      throw new ProtocolError('FIELD_MISSING', `${this.#what}.${name} is missing`, { field: `${this.#what}.${name}` })
    this.#members.delete(name)
    return value
  }

  has(name: string): boolean {
    return this.#members.has(name)
  }

  /** Gives `undefined` when the member is absent, else what `read` makes of it. */
  optional<T>(name: string, read: (name: string) => T): T | undefined {
    return this.has(name) ? read(name) : undefined
  }

  bytes(name: string, bound: { length: number } | { max: number; min?: number }): Uint8Array {
    const value = this.#take(name)
    if (!(value instanceof Uint8Array)) throw this.#bad(name, 'bytes')
    if ('length' in bound ? value.length !== bound.length : value.length > bound.max || value.length < (bound.min ?? 0)) {
      throw this.#bad(name, 'length' in bound ? `${bound.length} bytes` : `${bound.min ?? 0} to ${bound.max} bytes`)
    }
    return value
  }

  uint(name: string, bound: { min?: number; max: number } = { max: Number.MAX_SAFE_INTEGER }): number {
    const value = this.#take(name)
    if (typeof value !== 'number' || value < (bound.min ?? 0) || value > bound.max) {
      throw this.#bad(name, `an integer from ${bound.min ?? 0} to ${bound.max}`)
    }
    return value
  }

  /** `bytesMax` counts UTF-8 bytes. */
  text(name: string, bound: { bytesMax: number; pattern?: RegExp }): string {
    const value = this.#take(name)
    if (typeof value !== 'string' || utf8(value).length > bound.bytesMax) throw this.#bad(name, `text of at most ${bound.bytesMax} bytes`)
    if (bound.pattern !== undefined && !bound.pattern.test(value)) throw this.#bad(name, `of the form ${bound.pattern}`)
    return value
  }

  oneOf<const T extends string>(name: string, allowed: readonly T[]): T {
    const value = this.#take(name)
    const found = allowed.find((one) => one === value)
    if (found === undefined) throw this.#bad(name, `one of ${allowed.join(', ')}`)
    return found
  }

  flag(name: string): boolean {
    const value = this.#take(name)
    if (typeof value !== 'boolean') throw this.#bad(name, 'true or false')
    return value
  }

  list<T>(name: string, bound: { max: number; min?: number }, read: (item: CborValue, index: number) => T): T[] {
    const value = this.#take(name)
    if (!Array.isArray(value) || value.length > bound.max || value.length < (bound.min ?? 0)) {
      throw this.#bad(name, `a list of ${bound.min ?? 0} to ${bound.max} items`)
    }
    return value.map(read)
  }

  map(name: string): CborFields {
    return new CborFields(this.#take(name), `${this.#what}.${name}`)
  }

  end(): void {
    for (const name of this.#members.keys()) {
      throw new ProtocolError('FIELD_UNKNOWN', `${this.#what} has an unknown member "${name.slice(0, 64)}"`, {
        field: `${this.#what}.${name.slice(0, 64)}`
      })
    }
  }
}

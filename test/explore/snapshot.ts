import { createHash } from 'node:crypto'

/**
 * Copies a graph of objects: what is shared stays shared, prototypes stay, bytes are copied. Functions are kept as they are, so none in it may hold
 * on to an object that changes.
 * @param kept - objects that never change and are not copied
 */
export function copied<T>(value: T, kept: readonly object[]): T {
  const seen = new Map<object, object>(kept.map((one) => [one, one]))
  const copy = (from: unknown): unknown => {
    if (typeof from !== 'object' || from === null) return from
    const done = seen.get(from)
    if (done !== undefined) return done
    if (from instanceof Uint8Array) return remember(from, from.slice())
    if (Array.isArray(from)) {
      const list = remember(from, [] as unknown[]) as unknown[]
      for (const one of from) list.push(copy(one))
      return list
    }
    if (from instanceof Map) {
      const map = remember(from, new Map()) as Map<unknown, unknown>
      for (const [key, one] of from) map.set(copy(key), copy(one))
      return map
    }
    if (from instanceof Set) {
      const set = remember(from, new Set()) as Set<unknown>
      for (const one of from) set.add(copy(one))
      return set
    }
    const made = remember(from, Object.create(Object.getPrototypeOf(from))) as Record<string, unknown>
    for (const name of Object.keys(from)) made[name] = copy((from as Record<string, unknown>)[name])
    return made
  }
  const remember = (from: object, to: object): object => {
    seen.set(from, to)
    return to
  }
  return copy(value) as T
}

const byText = ([a]: [unknown, unknown], [b]: [unknown, unknown]) => (String(a) < String(b) ? -1 : 1)

/**
 * The same text for the same state, another for another. In which order entries came into a map or a set makes no difference: nothing here asks.
 * @param skipped - names of members that say nothing about what happens next
 */
export function fingerprint(value: unknown, kept: readonly object[], skipped: ReadonlySet<string>): string {
  const seen = new Map<object, number>(kept.map((one, index) => [one, -1 - index]))
  const parts: string[] = []
  const write = (from: unknown): void => {
    if (typeof from === 'function') parts.push('f')
    else if (typeof from === 'bigint') parts.push(`${from}n`)
    else if (typeof from !== 'object' || from === null) parts.push(typeof from === 'string' ? JSON.stringify(from) : String(from))
    else {
      const number = seen.get(from)
      if (number !== undefined) {
        parts.push(`@${number}`)
        return
      }
      seen.set(from, seen.size)
      writeObject(from)
    }
  }
  const writeObject = (from: object): void => {
    if (from instanceof Uint8Array) parts.push(`x${Buffer.from(from.buffer, from.byteOffset, from.length).toString('base64')}`)
    else if (from instanceof Map) {
      parts.push('m(')
      for (const [key, one] of [...from].sort(byText)) {
        write(key)
        write(one)
      }
      parts.push(')')
    } else if (Array.isArray(from) || from instanceof Set) {
      parts.push('[')
      for (const one of Array.isArray(from) ? from : [...from].sort()) write(one)
      parts.push(']')
    } else {
      parts.push('{')
      for (const name of Object.keys(from)) {
        if (skipped.has(name)) continue
        parts.push(name)
        write((from as Record<string, unknown>)[name])
      }
      parts.push('}')
    }
  }
  write(value)
  return createHash('sha256').update(parts.join(',')).digest('base64')
}

/** Settings by their nested names, unchecked. */
export type Raw = { [key: string]: unknown }

/** One source of settings, weakest first in a list of them. */
export interface Layer {
  readonly settings: Raw
  /** where a reader finds the setting at `path`, for error texts */
  where(path: readonly PropertyKey[]): string
}

/** A value given as undefined is a value not given. */
export function defined(settings: object): Raw {
  const out: Raw = {}
  for (const [key, value] of Object.entries(settings)) {
    if (value === undefined) continue
    setOwn(out, key, isRecord(value) ? defined(value) : value)
  }
  return out
}

/** A member of its own, also where its name is `__proto__`. */
function setOwn(out: Raw, key: string, value: unknown): void {
  Object.defineProperty(out, key, { value, enumerable: true, writable: true, configurable: true })
}

export function isRecord(value: unknown): value is Raw {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function merge(base: Raw, over: Raw): Raw {
  const out: Raw = { ...base }
  for (const [key, value] of Object.entries(over)) {
    const under = Object.hasOwn(out, key) ? out[key] : undefined
    const next = isRecord(value) && isRecord(under) ? merge(under, value) : value
    setOwn(out, key, next)
  }
  return out
}

export function holds(settings: unknown, path: readonly PropertyKey[]): boolean {
  let at: unknown = settings
  for (const part of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, part)) return false
    at = (at as Record<PropertyKey, unknown>)[part]
  }
  return true
}

export function fieldName(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : text === '' ? String(part) : `${text}.${String(part)}`),
    ''
  )
}

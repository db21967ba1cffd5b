import { InvalidArgumentError } from 'commander'

/** Readers of option values: each refuses with what is allowed. */
export function list(text: string): string[] {
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
  if (items.length === 0) throw new InvalidArgumentError('it is an empty list.')
  return items
}

export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() === '' || !Number.isInteger(value) || value < min || value > max) {
      throw new InvalidArgumentError(`it must be a whole number from ${min} to ${max}.`)
    }
    return value
  }
}

const UNITS_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** A duration with its unit, `250ms`, `20s`, `5m`, `2h`, `1d`: a bare number could be any of them. */
export function durationMs(text: string): number {
  const match = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text)
  if (match === null) throw new InvalidArgumentError('it must be a duration with its unit, such as 250ms, 20s, 5m, 2h or 1d.')
  return Number(match[1]) * UNITS_MS[match[2] as keyof typeof UNITS_MS]
}

/** A moment to come: a duration from now, or an ISO 8601 date. */
export function moment(nowMs: number): (text: string) => number {
  return (text) => {
    const atMs = /^\d+(ms|s|m|h|d)$/.test(text) ? nowMs + durationMs(text) : Date.parse(text)
    if (Number.isNaN(atMs) || atMs <= nowMs) {
      throw new InvalidArgumentError('it must be a duration such as 8h, or a date to come such as 2030-01-31T07:00:00Z.')
    }
    return atMs
  }
}

/** Members of execution requirements that are lists and whole numbers; all others are texts. */
const REQUIRED_LISTS = new Set(['allowedSites', 'allowedRegions', 'deniedRegions', 'requiredVerification', 'requiredAttestation'])
const REQUIRED_NUMBERS = new Set(['maxLatencyMs'])

/** `name=value,name=value` of execution requirements, entries of a list joined by `+`, or the whole as JSON; the node checks what they say. */
export function requirements(text: string): Record<string, string | number | string[]> {
  if (text.trimStart().startsWith('{')) {
    try {
      return JSON.parse(text) as Record<string, string | number | string[]>
    } catch {
      throw new InvalidArgumentError('it begins like JSON and is none.')
    }
  }
  const wanted: Record<string, string | number | string[]> = {}
  for (const part of list(text)) {
    const at = part.indexOf('=')
    const [name, value] = [part.slice(0, at), part.slice(at + 1)]
    if (at < 1 || value === '') throw new InvalidArgumentError(`"${part}" is no name=value, such as dataClassification=internal.`)
    if (Object.hasOwn(wanted, name)) throw new InvalidArgumentError(`${name} is there twice.`)
    if (REQUIRED_LISTS.has(name)) wanted[name] = value.split('+')
    else wanted[name] = REQUIRED_NUMBERS.has(name) && /^\d{1,15}$/.test(value) ? Number(value) : value
  }
  return wanted
}

/** `name=value,name=value` of a contract's fields: whole numbers, and scopes joined by `+`. Each name once; the node checks the rest. */
export function contractFields(text: string): Record<string, string | number | string[]> {
  const fields: Record<string, string | number | string[]> = {}
  for (const part of list(text)) {
    const [name = '', value, more] = part.split('=')
    if (name === '' || value === undefined || value === '' || more !== undefined) {
      throw new InvalidArgumentError(`"${part}" is no name=value, such as payloadBytesMax=65536.`)
    }
    if (Object.hasOwn(fields, name)) throw new InvalidArgumentError(`${name} is there twice.`)
    if (name === 'scopes') fields[name] = value.split('+')
    else fields[name] = /^\d{1,10}$/.test(value) ? Number(value) : value
  }
  return fields
}

/** Ends after `ms`, or as soon as the signal fires; this timer keeps the command alive. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    function done(): void {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done, { once: true })
  })
}

import { z } from 'zod'

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Milliseconds of `7d`, `1.5h`, `250ms`; undefined for anything else, a bare number above all (F079). */
export function parseDurationMs(text: unknown): number | undefined {
  if (typeof text !== 'string') return undefined
  const match = /^(\d{1,10}(?:\.\d{1,3})?)(ms|s|m|h|d)$/.exec(text)
  if (match === null) return undefined
  const ms = Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS]
  return Number.isInteger(ms) ? ms : undefined
}

/** The shortest text that {@link parseDurationMs} reads back as `ms`. */
export function formatDuration(ms: number): string {
  for (const unit of ['d', 'h', 'm', 's'] as const) if (ms !== 0 && ms % UNIT_MS[unit] === 0) return `${ms / UNIT_MS[unit]}${unit}`
  return `${ms}ms`
}

/** A length of time in a config file: text with its unit. Parses to milliseconds. */
export function duration(range: { minMs: number; maxMs: number }) {
  const allowed = `from ${formatDuration(range.minMs)} to ${formatDuration(range.maxMs)}`
  return z.unknown().transform((value, context) => {
    const ms = parseDurationMs(value)
    if (ms === undefined) {
      const hint = typeof value === 'number' ? 'needs a unit' : 'must be a length of time with its unit'
      context.addIssue({ code: 'custom', message: `${hint}, such as "500ms", "30s", "20m", "12h" or "7d" (${allowed})` })
      return z.NEVER
    }
    if (ms < range.minMs || ms > range.maxMs) {
      context.addIssue({ code: 'custom', message: `must be ${allowed}` })
      return z.NEVER
    }
    return ms
  })
}

/** Where a trace stands: W3C Trace Context's `traceparent` (protocol/README.md §9, Traces). */
export interface TraceContext {
  /** 32 hex digits, not all zero */
  readonly traceId: string
  /** 16 hex digits, not all zero */
  readonly spanId: string
  /** whether who wrote it records the trace; no reason for anybody else to do so */
  readonly isSampled: boolean
}

/** The service parameter that carries it, beside a request on a session and inside a sealed request. */
export const TRACEPARENT_PARAMETER = 'traceparent'
/** What is longer is of no version that could be read. */
export const TRACEPARENT_CHARS_MAX = 128

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]*)?$/

/** Undefined for all that is none: tracing never refuses a request. Later versions are read as far as version 00 goes, as W3C asks. */
export function readTraceparent(text: unknown): TraceContext | undefined {
  if (typeof text !== 'string' || text.length > TRACEPARENT_CHARS_MAX) return undefined
  const [, version, traceId, spanId, flags, more] = FORM.exec(text) ?? []
  if (version === undefined || traceId === undefined || spanId === undefined || flags === undefined) return undefined
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** Version 00. */
export function traceparentOf({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`
}

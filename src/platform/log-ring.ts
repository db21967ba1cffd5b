import type { LogSink } from './pino-logger.ts'

/** A log line as people look at it. */
export interface LogRecord {
  /** counts from 1 with every line of this process */
  seq: number
  atMs: number
  level: 'debug' | 'info' | 'warn' | 'error'
  /** empty: of the node as a whole */
  component: string
  message: string
  /** what else the line tells, as JSON; empty where there is nothing. Cut at {@link LOG_FIELDS_CHARS_MAX} */
  fields: string
}

export const LOG_LINES_MAX = 2_000
export const LOG_CHARS_MAX = 1_000_000
export const LOG_FIELDS_CHARS_MAX = 2_000
const LOG_MESSAGE_CHARS_MAX = 1_000
const LEVELS: ReadonlySet<unknown> = new Set(['debug', 'info', 'warn', 'error'])
/** What an error's text may quote of a request, whoever wrote it. */
const BEARER = /\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi
/** credentials of grants and agents' own tokens */
const CREDENTIAL = /\b(rk[a-z]{0,2}_)[\w.-]{8,}/g

/**
 * The newest log lines of this process, in memory: the oldest go at {@link LOG_LINES_MAX} lines or {@link LOG_CHARS_MAX} characters. It takes the
 * lines that the logger writes, so secrets are replaced in them already; what looks like a credential in a text is replaced here.
 */
export class LogRing implements LogSink {
  readonly #records: LogRecord[] = []
  readonly #listeners = new Set<() => void>()
  #seq = 0
  #chars = 0

  /** number of the newest line; 0 while there is none */
  get newest(): number {
    return this.#seq
  }

  write(line: string): void {
    const record = recordOf(line, this.#seq + 1)
    if (record === undefined) return
    this.#seq++
    this.#records.push(record)
    this.#chars += sizeOf(record)
    while (this.#records.length > LOG_LINES_MAX || this.#chars > LOG_CHARS_MAX) {
      this.#chars -= sizeOf(this.#records.shift() as LogRecord)
    }
    for (const told of this.#listeners) told()
  }

  /** Lines after number `seq`, oldest first, the newest `max` of them; `missed`: how many more there were. */
  after(seq: number, max: number): { records: LogRecord[]; missed: number } {
    const all = this.#seq - Math.min(seq, this.#seq)
    const held = this.#records.slice(Math.max(0, this.#records.length - Math.min(all, max)))
    return { records: held, missed: all - held.length }
  }

  /** Called after each line. Returns the unsubscriber. */
  onLine(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }
}

/** Both sinks get every line. */
export function bothSinks(one: LogSink, other: LogSink): LogSink {
  return {
    write(line) {
      one.write(line)
      other.write(line)
    }
  }
}

function sizeOf({ message, fields, component }: LogRecord): number {
  return message.length + fields.length + component.length + 64
}

function recordOf(line: string, seq: number): LogRecord | undefined {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const { level, time, component, msg, ...rest } = value as Record<string, unknown>
  if (!LEVELS.has(level)) return undefined
  return {
    seq,
    atMs: typeof time === 'number' ? time : 0,
    level: level as LogRecord['level'],
    component: typeof component === 'string' ? component.slice(0, 100) : '',
    message: shortened(typeof msg === 'string' ? msg : '', LOG_MESSAGE_CHARS_MAX),
    fields: Object.keys(rest).length === 0 ? '' : shortened(JSON.stringify(rest), LOG_FIELDS_CHARS_MAX)
  }
}

/** Cut first: what is left of a credential at the very end is too short to be one. */
function shortened(text: string, max: number): string {
  const cut = text.length > max ? `${text.slice(0, max - 1)}…` : text
  return cut.replaceAll(BEARER, '$1 [redacted]').replaceAll(CREDENTIAL, '$1[redacted]')
}

import { pino, stdSerializers } from 'pino'
import type { Logger } from './logger.ts'
import { printableJson } from './printable-json.ts'

/** Members that never reach a log line, at the top or one level down, whoever logs them. */
const SECRET_FIELDS = [
  'seed',
  'secret',
  'privateKey',
  'token',
  'cookie',
  'authorization',
  'payload',
  'plaintext',
  'mailboxSecret',
  'password',
  'passphrase',
  'credential',
  'credentials'
] as const

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Where lines go: anything with `write`, standard error by default. */
export interface LogSink {
  write(line: string): void
}

/** Least levels that are written: by component the longest name that fits (`a2a` is `a2a:edge` too), else `level`. */
export interface LogLevels {
  readonly level: LogLevel
  readonly levels?: { readonly [component: string]: LogLevel }
}

export interface LeveledLogger extends Logger {
  /** takes effect for this logger and all its children at once */
  setLevels(levels: LogLevels): void
  /** lines written since the start, by level */
  lines(): Readonly<Record<'debug' | 'info' | 'warn' | 'error', number>>
}

const RANK = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 } as const

/** JSON lines on standard error (standard output belongs to the command's answer), secrets replaced by "[redacted]". */
export function createLogger(options: LogLevels & { sink?: LogSink }): LeveledLogger {
  const sink = options.sink ?? process.stderr
  const paths = SECRET_FIELDS.flatMap((name) => [name, `*.${name}`])
  const root = pino(
    {
      level: 'debug',
      base: null,
      serializers: { err: stdSerializers.err, error: stdSerializers.err },
      redact: { paths, censor: '[redacted]' },
      formatters: { level: (label) => ({ level: label }) }
    },
    { write: (line: string) => void sink.write(printableJson(line)) }
  )
  let current: LogLevels = options
  const lines = { debug: 0, info: 0, warn: 0, error: 0 }
  const rankOf = (component: string) => {
    const names = Object.keys(current.levels ?? {}).filter((name) => component === name || component.startsWith(`${name}:`))
    const nearest = names.sort((a, b) => b.length - a.length)[0]
    return RANK[nearest === undefined ? current.level : (current.levels?.[nearest] ?? current.level)]
  }
  const wrap = (inner: typeof root, component: string): Logger => {
    let of: LogLevels | undefined
    let rank: number = RANK.silent
    const writes = (level: keyof typeof lines) => {
      if (of !== current) {
        of = current
        rank = rankOf(component)
      }
      if (RANK[level] < rank) return false
      lines[level]++
      return true
    }
    return {
      debug: (fields, message) => writes('debug') && inner.debug(fields, message),
      info: (fields, message) => writes('info') && inner.info(fields, message),
      warn: (fields, message) => writes('warn') && inner.warn(fields, message),
      error: (fields, message) => writes('error') && inner.error(fields, message),
      child(name) {
        const full = component === '' ? name : `${component}:${name}`
        return wrap(root.child({ component: full }), full)
      }
    }
  }
  return {
    ...wrap(root, ''),
    lines: () => ({ ...lines }),
    setLevels: (levels) => {
      current = levels
    }
  }
}

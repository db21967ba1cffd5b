import { pino } from 'pino'
import type { Logger } from './logger.ts'

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
  'password'
] as const

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Where lines go: anything with `write`, standard error by default. */
export interface LogSink {
  write(line: string): void
}

/** JSON lines on standard error (standard output belongs to the command's answer), secrets replaced by "[redacted]". */
export function createLogger(options: { level: LogLevel; sink?: LogSink }): Logger {
  const paths = SECRET_FIELDS.flatMap((name) => [name, `*.${name}`])
  const root = pino(
    { level: options.level, base: null, redact: { paths, censor: '[redacted]' }, formatters: { level: (label) => ({ level: label }) } },
    options.sink ?? process.stderr
  )
  const wrap = (inner: typeof root, component: string): Logger => ({
    debug: (fields, message) => inner.debug(fields, message),
    info: (fields, message) => inner.info(fields, message),
    warn: (fields, message) => inner.warn(fields, message),
    error: (fields, message) => inner.error(fields, message),
    child(name) {
      const full = component === '' ? name : `${component}:${name}`
      return wrap(root.child({ component: full }), full)
    }
  })
  return wrap(root, '')
}

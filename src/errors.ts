/** Kinds of failure, each with the exit code that the CLI ends with (documented in README). */
export const EXIT_CODES = {
  ok: 0,
  internal: 1,
  usage: 2,
  config: 3,
  unavailable: 4,
  notFound: 5,
  refused: 6,
  asleep: 7,
  timeout: 8,
  storage: 9,
  conflict: 10,
  interrupted: 130
} as const

export type ErrorKind = Exclude<keyof typeof EXIT_CODES, 'ok'>

export interface RookeryErrorInit {
  kind: ErrorKind
  /** the setting, argument or member that is wrong, e.g. `listen[0]` or `--topic` */
  field?: string
  /** what it held; keys, tokens and payloads never go here */
  value?: unknown
  /** what the reader can do about it */
  remedy?: string
  cause?: unknown
  /** further members for programs; JSON-safe */
  data?: Record<string, unknown>
}

/**
 * What the node, the API and the CLI throw about the world. `code` is stable (upper snake case); the message is for people.
 * A `TypeError` means our own mistake.
 */
export class RookeryError extends Error {
  override readonly name: string = 'RookeryError'
  readonly code: string
  readonly kind: ErrorKind
  readonly field: string | undefined
  readonly value: unknown
  readonly remedy: string | undefined
  readonly data: Record<string, unknown> | undefined

  constructor(code: string, message: string, init: RookeryErrorInit) {
    super(message, init.cause === undefined ? undefined : { cause: init.cause })
    this.code = code
    this.kind = init.kind
    this.field = init.field
    this.value = init.value
    this.remedy = init.remedy
    this.data = init.data
  }

  /** The form that crosses the control API and that `--json` prints. */
  toJSON(): RookeryErrorJson {
    return {
      code: this.code,
      kind: this.kind,
      message: this.message,
      ...(this.field !== undefined ? { field: this.field } : {}),
      ...(this.value !== undefined ? { value: this.value } : {}),
      ...(this.remedy !== undefined ? { remedy: this.remedy } : {}),
      ...(this.data !== undefined ? { data: this.data } : {})
    }
  }
}

export interface RookeryErrorJson {
  code: string
  kind: ErrorKind
  message: string
  field?: string
  value?: unknown
  remedy?: string
  data?: Record<string, unknown>
}

export function fromErrorJson(json: RookeryErrorJson): RookeryError {
  const { code, message, ...init } = json
  return new RookeryError(code, message, init)
}

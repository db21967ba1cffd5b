import { ProtocolError } from '../../protocol/errors.ts'
import { RookeryError } from '../errors.ts'

/** Runs a check of the protocol over a caller's value and says which one was wrong. */
export function checkedInput<T>(field: string, value: unknown, remedy: string, check: () => T): T {
  try {
    return check()
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause
    throw new RookeryError(cause.code, cause.message, { kind: 'usage', field, value, remedy, cause })
  }
}

export const NAME_REMEDY = 'write a space as namespace/topic@version, such as org.example/marketplace.energy@1'

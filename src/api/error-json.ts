import { ProtocolError } from '../../protocol/errors.ts'
import { A2aError, rookeryErrorOf } from '../a2a/a2a-error.ts'
import { type ErrorKind, RookeryError, type RookeryErrorJson } from '../errors.ts'
import { blamedParam } from './blamed-param.ts'

/** Protocol codes that a caller's own argument causes, with what to do about it; any other came from a peer's bytes. */
const CALLER_REMEDIES: Partial<Record<string, string>> = {
  DID_INVALID: 'give a did:key of an Ed25519 key, as `rookery agent list` prints it',
  KEY_INVALID: 'give a did:key of an Ed25519 key, as `rookery agent list` prints it',
  RANGE: 'give a number in that range',
  NAME_INVALID: 'write a space as namespace/topic@version, for example org.agentnet/marketplace.energy@1'
}

/**
 * Any thrown value in the form that crosses the control API: stacks and causes stay here.
 * @param params - of the call, so that a value that a codec refused is told with its place
 */
export function errorJson(error: unknown, params?: unknown): RookeryErrorJson {
  if (error instanceof RookeryError) return error.toJSON()
  if (error instanceof A2aError) return rookeryErrorOf(error).toJSON()
  if (error instanceof ProtocolError) {
    const remedy = CALLER_REMEDIES[error.code]
    const kind: ErrorKind = remedy === undefined ? 'refused' : 'usage'
    const blamed = blamedParam(error, params)
    const field = blamed?.field ?? error.field
    return {
      code: error.code,
      kind,
      message: error.message,
      ...(field === undefined ? {} : { field }),
      ...(blamed === undefined ? {} : { value: blamed.value }),
      ...(remedy === undefined ? {} : { remedy })
    }
  }
  if (error instanceof DOMException && (error.name === 'AbortError' || error.name === 'TimeoutError')) {
    return error.name === 'TimeoutError'
      ? { code: 'TIMEOUT', kind: 'timeout', message: 'the work took longer than it may', remedy: 'try again' }
      : { code: 'ABORTED', kind: 'interrupted', message: 'the work was stopped' }
  }
  return {
    code: 'INTERNAL',
    kind: 'internal',
    message: error instanceof Error ? error.message : String(error),
    remedy: 'this is a fault of Rookery: report it with the log lines around it'
  }
}

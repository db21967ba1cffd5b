import { fromUtf8 } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { readTraceparent, TRACEPARENT_PARAMETER } from './traceparent.ts'

/** The member beside a request, on a session and inside a sealed message; every name that starts with `a2a-` is reserved there (protocol/README.md §9). */
export const SERVICE_PARAMETERS_MEMBER = 'a2a-service-parameters'
const EXTENSIONS_CHARS_MAX = 4_096
const EXTENSIONS_MAX = 32

/** The member for a sealed request: the extensions that its execution depends on; nothing where there are none, so that the text stays as it was. */
export function sealedParameters(
  extensions: readonly string[],
  traceparent?: string
): { [SERVICE_PARAMETERS_MEMBER]?: { [name: string]: string } } {
  const parameters = {
    ...(extensions.length === 0 ? {} : { 'a2a-extensions': extensions.join(',') }),
    ...(traceparent === undefined ? {} : { [TRACEPARENT_PARAMETER]: traceparent })
  }
  return Object.keys(parameters).length === 0 ? {} : { [SERVICE_PARAMETERS_MEMBER]: parameters }
}

/** The `traceparent` that came along; undefined for none, and for what is none: it decides nothing about the request. */
export function sealedTraceparent(plaintext: Uint8Array): string | undefined {
  try {
    const text = member(member(JSON.parse(fromUtf8(plaintext)), SERVICE_PARAMETERS_MEMBER), TRACEPARENT_PARAMETER)
    return readTraceparent(text) === undefined ? undefined : (text as string)
  } catch {
    return undefined
  }
}

/**
 * The extensions that a sealed request activates; none where the member is not there.
 * @param plaintext - UTF-8 of a JSON object
 * @throws ProtocolError `UTF8_INVALID`, `FIELD_INVALID`
 */
export function sealedExtensions(plaintext: Uint8Array): string[] {
  let request: unknown
  try {
    request = JSON.parse(fromUtf8(plaintext))
  } catch (cause) {
    if (cause instanceof ProtocolError) throw cause
    throw new ProtocolError('FIELD_INVALID', 'the sealed request is not JSON', { cause, field: 'plaintext' })
  }
  const parameters = member(request, SERVICE_PARAMETERS_MEMBER)
  if (parameters === undefined) return []
  const extensions = member(parameters, 'a2a-extensions') ?? ''
  if (typeof extensions !== 'string' || extensions.length > EXTENSIONS_CHARS_MAX) {
    const field = `plaintext.${SERVICE_PARAMETERS_MEMBER}`
    throw new ProtocolError('FIELD_INVALID', `${field} names no extensions`, { field })
  }
  const uris = extensions.split(',').map((uri) => uri.trim())
  return uris.filter((uri) => uri !== '').slice(0, EXTENSIONS_MAX)
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}

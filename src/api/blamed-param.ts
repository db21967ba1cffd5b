import { parseSpaceQuery } from '../../protocol/discovery/names.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { eidFromDid } from '../../protocol/identity/eid.ts'

/** Parameters looked through for the one that is to blame. */
const LOOKED_THROUGH_MAX = 1_000

const READERS: Partial<Record<string, (text: string) => unknown>> = {
  DID_INVALID: (text) => (text.startsWith('did:') ? eidFromDid(text) : text.includes('/') ? parseSpaceQuery(text) : undefined),
  NAME_INVALID: (text) => (text.includes('/') ? parseSpaceQuery(text) : undefined)
}

/**
 * Which parameter of a call a codec refused: by its path, with its value. A codec knows the text that it was given, not where the caller wrote it.
 * @returns undefined where no parameter is refused with that code
 */
export function blamedParam(error: ProtocolError, params: unknown): { field: string; value: string } | undefined {
  const read = READERS[error.code]
  if (read === undefined) return undefined
  const texts = textsOf(params, '', [])
  const refused = texts.find(({ value }) => codeOf(() => read(value)) === error.code)
  // A word that does not even look like one is named all the same where the error shows it.
  const named = refused ?? texts.find(({ value }) => value.length > 0 && error.message.includes(`"${value.slice(0, 80)}"`))
  return named === undefined ? undefined : { field: named.field, value: named.value.slice(0, 200) }
}

function textsOf(value: unknown, field: string, into: { field: string; value: string }[]): { field: string; value: string }[] {
  if (into.length >= LOOKED_THROUGH_MAX) return into
  if (typeof value === 'string') into.push({ field, value })
  else if (Array.isArray(value)) for (const [i, item] of value.entries()) textsOf(item, `${field}[${i}]`, into)
  else if (typeof value === 'object' && value !== null)
    for (const [name, item] of Object.entries(value)) textsOf(item, field === '' ? name : `${field}.${name}`, into)
  return into
}

function codeOf(read: () => unknown): string | undefined {
  try {
    read()
    return undefined
  } catch (error) {
    if (error instanceof ProtocolError) return error.code
    throw error
  }
}

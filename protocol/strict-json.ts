import { canonicalJson, JSON_DEPTH_MAX } from './canonical-json.ts'
import { ProtocolError } from './errors.ts'

const NUMBER = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y

/**
 * Reads JSON that was signed, or will be: what two readers could take for two values is refused. That is a name twice in one object, a whole number
 * that no double holds exactly, one that is too large for any, and half a surrogate pair. The caller bounds the length of `text`.
 * @throws ProtocolError `FIELD_INVALID`
 */
export function parseStrictJson(text: string, depthMax: number = JSON_DEPTH_MAX): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new ProtocolError('FIELD_INVALID', 'is not JSON', { field: 'json', cause })
  }
  refuseAmbiguity(text)
  canonicalJson(value, depthMax)
  return value
}

/** @param text - of the grammar of JSON */
function refuseAmbiguity(text: string): void {
  const open: { names: Set<string>; expects: 'name' | 'value' }[] = []
  for (let at = 0; at < text.length; at++) {
    const letter = text[at] as string
    const holder = open.at(-1)
    if (letter === '{') open.push({ names: new Set(), expects: 'name' })
    else if (letter === '[') open.push({ names: new Set(), expects: 'value' })
    else if (letter === '}' || letter === ']') open.pop()
    else if (letter === ',' && holder !== undefined && holder.names.size > 0) holder.expects = 'name'
    else if (letter === '"') {
      const end = endOfText(text, at)
      if (holder?.expects === 'name') {
        const name = JSON.parse(text.slice(at, end)) as string
        if (holder.names.has(name)) throw invalid(`"${name.slice(0, 64)}" stands twice in one object`)
        holder.names.add(name)
        holder.expects = 'value'
      }
      at = end - 1
    } else if (letter === '-' || (letter >= '0' && letter <= '9')) {
      NUMBER.lastIndex = at
      const [token = letter, fraction, exponent] = NUMBER.exec(text) ?? []
      const isWhole = fraction === undefined && exponent === undefined
      const value = Number(token)
      // what is written without an exponent in canonical form must be read again there
      const isLong = Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21
      if (isWhole ? !Number.isSafeInteger(value) : isLong || !Number.isFinite(value)) {
        throw invalid(`${token.slice(0, 32)} is no number that every reader reads alike`)
      }
      at += token.length - 1
    }
  }
}

/** One past the quote that ends the text which begins at `at`. */
function endOfText(text: string, at: number): number {
  let end = at + 1
  while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1
  return end + 1
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', message, { field: 'json' })
}

/** Names under which somebody may have written a secret, though no setting is a place for one. */
const SECRET_NAME = /pass(word|phrase|wd)|secret|token|credential|cookie|seed|authorization|(api|access|private)[_-]?key|^key$/i
const CREDENTIALS_IN_URL = /^[a-z][a-z0-9+.-]*:\/\/[^/?#\s]*@/i
export const MASK = '[not shown]'

/**
 * A value as it may be printed, logged or put into an error: what stands under a name that sounds secret, and URLs that hold a password, are left out.
 * @param path - names from the outside in
 */
export function masked(value: unknown, path: readonly PropertyKey[]): unknown {
  if (path.some((part) => typeof part === 'string' && SECRET_NAME.test(part))) return MASK
  if (typeof value === 'string') return CREDENTIALS_IN_URL.test(value) ? MASK : value
  if (Array.isArray(value)) return value.map((one) => masked(one, []))
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, masked(one, [name])]))
  }
  return value
}

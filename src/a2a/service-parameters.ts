import { A2aError } from './a2a-error.ts'

/** What A2A calls service parameters: HTTP headers there, a member beside the envelope on a session. */
export interface ServiceParameters {
  /** `1.0` for every patch of it; `0.3` when absent (§3.6); else as it came */
  version: string
  /** URIs that the caller asks to activate */
  extensions: string[]
}

export const A2A_VERSION = '1.0'
/** Absent means this; it is understood only where an asleep agent is refused (G-03). */
export const A2A_VERSION_ABSENT = '0.3'
const EXTENSIONS_MAX = 32
const URI_CHARS_MAX = 2_048

export function readServiceParameters(version: string | undefined, extensions: string | undefined): ServiceParameters {
  const uris = (extensions ?? '')
    .split(',')
    .map((uri) => uri.trim())
    .filter((uri) => uri !== '' && uri.length <= URI_CHARS_MAX)
  return { version: normalVersion(version), extensions: [...new Set(uris)].slice(0, EXTENSIONS_MAX) }
}

function normalVersion(version: string | undefined): string {
  const text = version?.trim() ?? ''
  if (text === '') return A2A_VERSION_ABSENT
  const match = /^(\d{1,4})\.(\d{1,4})(?:\.\d{1,8})?$/.exec(text)
  return match === null ? text.slice(0, 32) : `${Number(match[1])}.${Number(match[2])}`
}

export function isLegacy({ version }: ServiceParameters): boolean {
  return version.startsWith('0.')
}

/** @throws A2aError `VERSION_NOT_SUPPORTED` */
export function checkVersion({ version }: ServiceParameters): void {
  if (version === A2A_VERSION) return
  throw new A2aError('VERSION_NOT_SUPPORTED', `A2A ${version} is not supported: send A2A-Version: ${A2A_VERSION}`, {
    metadata: { requested: version, supported: A2A_VERSION }
  })
}

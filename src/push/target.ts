import { isIP } from 'node:net'
import { RookeryError } from '../errors.ts'
import { addressScope } from '../platform/address-scope.ts'

/** Whom a caller may have this node call: hosts of the internet by https; also this machine by http; also internal networks. */
export type PushTargets = 'public' | 'loopback' | 'internal'

export interface TargetRules {
  targets: PushTargets
  /** ports of public hosts */
  ports: readonly number[]
}

export interface ResolvedAddress {
  address: string
  family: number
}
export type Resolve = (host: string) => Promise<ResolvedAddress[]>

export const URL_CHARS_MAX = 2_048

/**
 * Reads a webhook's URL. What its name resolves to is judged by {@link vetted}, at every connection.
 * @throws RookeryError `PUSH_URL_REFUSED`
 */
export function readTarget(text: string, rules: TargetRules): URL {
  if (text.length > URL_CHARS_MAX) throw refused(text, `has more than ${URL_CHARS_MAX} characters`)
  let url: URL
  try {
    url = new URL(text)
  } catch (cause) {
    throw refused(text, 'is no absolute URL', cause)
  }
  if (url.username !== '' || url.password !== '') throw refused(text, 'holds a user name or password; use authentication')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused(text, 'is neither https nor http')
  if (url.protocol === 'http:' && rules.targets === 'public') throw refused(text, 'is not https')
  const host = hostOf(url)
  if (host === '') throw refused(text, 'names no host')
  if (isIP(host) !== 0) checkAddress(host, url, rules)
  return url
}

/** The name or address without the brackets of IPv6. */
export function hostOf({ hostname }: URL): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
}

export function portOf(url: URL): number {
  return url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
}

/**
 * The addresses that may be connected to. One that may not refuses them all: a name that mixes both is on its way inward.
 * @throws RookeryError `PUSH_URL_REFUSED`, `PUSH_UNRESOLVED`
 */
export async function vetted(url: URL, rules: TargetRules, resolve: Resolve): Promise<ResolvedAddress[]> {
  const host = hostOf(url)
  if (isIP(host) !== 0) {
    checkAddress(host, url, rules)
    return [{ address: host, family: isIP(host) }]
  }
  let addresses: ResolvedAddress[]
  try {
    addresses = await resolve(host)
  } catch (cause) {
    throw new RookeryError('PUSH_UNRESOLVED', `the host ${host.slice(0, 255)} does not resolve`, {
      kind: 'unavailable',
      field: 'url',
      cause
    })
  }
  if (addresses.length === 0)
    throw new RookeryError('PUSH_UNRESOLVED', `the host ${host.slice(0, 255)} has no address`, { kind: 'unavailable', field: 'url' })
  for (const { address } of addresses) checkAddress(address, url, rules)
  return addresses
}

function checkAddress(address: string, url: URL, { targets, ports }: TargetRules): void {
  switch (addressScope(address)) {
    case 'loopback':
      if (targets === 'public') throw refused(url.href, 'leads to this machine')
      return
    case 'internal':
      if (targets !== 'internal') throw refused(url.href, 'leads to an internal network')
      return
    case 'public':
      if (url.protocol !== 'https:') throw refused(url.href, 'is not https')
      if (!ports.includes(portOf(url))) throw refused(url.href, `uses another port than ${ports.join(', ')}`)
  }
}

function refused(text: string, why: string, cause?: unknown): RookeryError {
  return new RookeryError('PUSH_URL_REFUSED', `the URL ${why}`, {
    kind: 'refused',
    field: 'url',
    value: text.slice(0, 200),
    remedy: 'give an https URL of a public host; the operator may allow more by push.targets and push.ports',
    cause
  })
}

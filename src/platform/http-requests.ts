import type { IncomingMessage } from 'node:http'

/** Headers that mean one thing. A second one is a trick: a gateway that goes by the one and a server that goes by the other let through what neither would. */
const SINGLE: ReadonlySet<string> = new Set([
  'a2a-version',
  'authorization',
  'content-encoding',
  'content-length',
  'content-type',
  'host',
  'last-event-id',
  'mcp-session-id',
  'origin',
  'transfer-encoding'
])
const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/** The header that a request has twice though it may be there once, in small letters. Node itself keeps the first and drops the other unseen. */
export function repeatedHeader({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): string | undefined {
  const seen = new Set<string>()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase()
    if (!SINGLE.has(name)) continue
    if (seen.has(name)) return name
    seen.add(name)
  }
  return undefined
}

/** The name in a Host header without its port, in small letters. */
export function hostName(host: string | undefined): string {
  return (host ?? '').toLowerCase().replace(/:\d{1,5}$/, '')
}

/** Whether a Host header names this machine by one of the names that no DNS entry can rebind. */
export function isLoopbackHost(host: string | undefined): boolean {
  return LOOPBACK_NAMES.has(hostName(host))
}

/**
 * Whether a browser sent the request for a page of another site; programs send no Origin. Pages of this machine and of `ownOrigins` are none.
 * @param ownOrigins - as browsers write them: `https://agents.example`
 */
export function isForeignOrigin(origin: string | undefined, ownOrigins: readonly string[] = []): boolean {
  if (origin === undefined || ownOrigins.includes(origin)) return false
  return !/^https?:\/\//.test(origin) || !isLoopbackHost(origin.replace(/^https?:\/\//, ''))
}

import { lookup as systemLookup } from 'node:dns/promises'
import { request as httpRequest, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { LookupFunction } from 'node:net'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import { hostOf, portOf, type Resolve, type TargetRules, vetted } from './target.ts'

export const POST_TIMEOUT_MS = 10_000

export const systemResolve: Resolve = (host) => systemLookup(host, { all: true, verbatim: true })

export interface Posted {
  status: number
}

/**
 * One POST, over a connection of its own to an address that was judged for it: the name is resolved once, here, and there is no second look-up. Redirects
 * are answers like any other, and are not followed.
 * @throws RookeryError `PUSH_URL_REFUSED`, `PUSH_UNRESOLVED`, `PUSH_TIMEOUT`, `PUSH_FAILED`
 */
export async function post(
  url: URL,
  { body, headers }: { body: string; headers: Readonly<Record<string, string>> },
  components: { clock: Clock; resolve: Resolve; rules: TargetRules; signal: AbortSignal; timeoutMs?: number }
): Promise<Posted> {
  const { clock, resolve, rules, signal, timeoutMs = POST_TIMEOUT_MS } = components
  const late = new AbortController()
  const cancel = clock.after(timeoutMs, () =>
    late.abort(new RookeryError('PUSH_TIMEOUT', `no answer within ${timeoutMs} ms`, { kind: 'timeout' }))
  )
  const ends = AbortSignal.any([signal, late.signal])
  try {
    const addresses = await unless(ends, vetted(url, rules, resolve))
    const pinned: LookupFunction = (_host, options, done) => {
      const [first] = addresses
      if (options.all === true) done(null, addresses)
      else done(null, first?.address ?? '', first?.family ?? 0)
    }
    return await send(url, { body, headers }, { pinned, signal: ends })
  } catch (cause) {
    if (ends.aborted) throw ends.reason
    if (cause instanceof RookeryError) throw cause
    throw new RookeryError('PUSH_FAILED', messageOf(cause), { kind: 'unavailable', cause })
  } finally {
    cancel()
  }
}

async function send(
  url: URL,
  { body, headers }: { body: string; headers: Readonly<Record<string, string>> },
  { pinned, signal }: { pinned: LookupFunction; signal: AbortSignal }
): Promise<Posted> {
  const bytes = Buffer.from(body)
  const options: RequestOptions = {
    method: 'POST',
    host: hostOf(url),
    port: portOf(url),
    path: `${url.pathname}${url.search}`,
    headers: { ...headers, 'Content-Length': bytes.length, Connection: 'close' },
    agent: false,
    lookup: pinned,
    signal
  }
  return await new Promise((resolve, reject) => {
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(options, (response) => {
      // Nothing of the answer's body is of use, so nothing of it is read.
      resolve({ status: response.statusCode ?? 0 })
      response.on('error', () => {})
      request.destroy()
    })
    request.on('error', reject)
    request.end(bytes)
  })
}

async function unless<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const aborted = () => reject(signal.reason)
  signal.addEventListener('abort', aborted, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', aborted)
  }
}

function messageOf(cause: unknown): string {
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : undefined
  return code ?? (cause instanceof Error ? cause.message : String(cause))
}

import type { IncomingMessage, ServerResponse } from 'node:http'
import { RookeryError } from '../errors.ts'
import type { SignIns } from './sign-ins.ts'

/** A request of the page: a method and small parameters. */
export const BODY_BYTES_MAX = 65_536

/** Nothing but our own files and our own answers, no frame around the page, no markup made of text. */
export const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'"
].join('; ')

export function setPageHeaders(res: ServerResponse): void {
  res.setHeader('Content-Security-Policy', POLICY)
  res.setHeader('Cross-Origin-Opener-Policy', 'same-origin')
  res.setHeader('Cross-Origin-Embedder-Policy', 'require-corp')
  res.setHeader('Permissions-Policy', 'camera=(), geolocation=(), microphone=(), payment=(), usb=()')
  res.setHeader('X-Frame-Options', 'DENY')
}

/**
 * That a request was sent by our own page: browsers name the page in Origin whenever they post, and no page of another origin can make one with this
 * media type without asking first, which is answered nowhere. The server has checked the Host header before.
 * @throws RookeryError `ORIGIN_REFUSED`, `MEDIA_TYPE_INVALID`
 */
export function checkOwnPage(req: IncomingMessage): void {
  const site = req.headers['sec-fetch-site']
  if (req.headers.origin !== `http://${req.headers.host}` || (site !== undefined && site !== 'same-origin')) {
    throw new RookeryError('ORIGIN_REFUSED', 'this is answered to the dashboard page alone', {
      kind: 'refused',
      field: 'Origin',
      value: (req.headers.origin ?? '').slice(0, 100),
      remedy: 'programs use the control API: `rookery --json`'
    })
  }
  if (!/^application\/json(;|$)/i.test(req.headers['content-type'] ?? '')) {
    throw new RookeryError('MEDIA_TYPE_INVALID', 'send JSON', { kind: 'usage', field: 'Content-Type', remedy: 'application/json' })
  }
}

/** The token that the page sends. @throws RookeryError `SIGNED_OUT` */
export function checkSignedIn(req: IncomingMessage, signIns: SignIns): string {
  const token = /^Bearer ([\w-]{43})$/.exec(req.headers.authorization ?? '')?.[1]
  if (token !== undefined && signIns.accepts(token)) return token
  throw new RookeryError('SIGNED_OUT', 'this page is not signed in', {
    kind: 'refused',
    field: 'Authorization',
    remedy: 'run `rookery dashboard` and open the address that it prints'
  })
}

/** @throws RookeryError `REQUEST_TOO_LARGE`, `JSON_INVALID` */
export async function readJson(req: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of req) {
    length += (chunk as Uint8Array).length
    if (length > BODY_BYTES_MAX) {
      throw new RookeryError('REQUEST_TOO_LARGE', `a request has at most ${BODY_BYTES_MAX} bytes`, {
        kind: 'usage',
        field: 'body',
        value: length,
        remedy: 'send less'
      })
    }
    chunks.push(chunk as Uint8Array)
  }
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)))
  } catch (cause) {
    throw notJson(cause)
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw notJson()
  return body as Record<string, unknown>
}

function notJson(cause?: unknown): RookeryError {
  return new RookeryError('JSON_INVALID', 'the request is not a JSON object in UTF-8', {
    kind: 'usage',
    field: 'body',
    remedy: 'send {}',
    cause
  })
}

/** The status that a refusal of the dashboard is answered with. */
export function statusOf(code: string): number {
  switch (code) {
    case 'SIGNED_OUT':
    case 'CODE_INVALID':
      return 401
    case 'ORIGIN_REFUSED':
    case 'METHOD_REFUSED':
      return 403
    case 'REQUEST_TOO_LARGE':
      return 413
    case 'MEDIA_TYPE_INVALID':
      return 415
    case 'WATCHERS_MAX':
      return 503
    case 'INTERNAL':
      return 500
    default:
      return 400
  }
}

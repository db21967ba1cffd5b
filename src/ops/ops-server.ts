import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { RookeryError } from '../errors.ts'
import { sayAcceptErrors } from '../platform/accept-errors.ts'
import { isForeignOrigin, isLoopbackHost, repeatedHeader } from '../platform/http-requests.ts'
import type { Logger } from '../platform/logger.ts'

/** What one path of the operator's server answers. */
export interface OpsRoute {
  method: 'GET' | 'POST'
  path: string
  handle(req: IncomingMessage, res: ServerResponse, url: URL): Promise<void> | void
}

export interface OpsServer {
  /** `http://127.0.0.1:4712` */
  readonly url: string
  readonly port: number
  close(): Promise<void>
}

const REQUEST_MS_MAX = 10_000
const CONNECTIONS_MAX = 64

/**
 * The operator's HTTP server on loopback: health, metrics, dashboard. It answers to loopback names only, so that no page of another site reaches it
 * by a rebound DNS entry, and tells browsers to keep its answers to themselves.
 * @throws RookeryError `PORT_IN_USE`, `LISTEN_FAILED`
 */
export async function openOpsServer(
  { logger }: { logger: Logger },
  { host, port, routes }: { host: string; port: number; routes: readonly OpsRoute[] }
): Promise<OpsServer> {
  const byName = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]))
  const server = createServer(
    { requestTimeout: REQUEST_MS_MAX, headersTimeout: REQUEST_MS_MAX, connectionsCheckingInterval: 5_000 },
    (req, res) => {
      answer(byName, req, res).catch((error: unknown) => {
        logger.error({ error, path: req.url?.slice(0, 200) }, 'an operator request ended without an answer')
        if (res.headersSent) res.destroy()
        else sendText(res, 500, 'internal error\n')
      })
    }
  )
  server.maxConnections = CONNECTIONS_MAX
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // A browser opens connections before it needs them: an answer that it did not ask for would be taken for the one to its next request.
    if (!socket.writable || socket.bytesRead === 0) return void socket.destroy()
    const status = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? '408 Request Timeout' : '400 Bad Request'
    socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`)
  })
  await listening(server, host, port)
  sayAcceptErrors(server, "the operator's server", logger)
  const taken = (server.address() as AddressInfo).port
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${taken}`,
    port: taken,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}

async function answer(routes: ReadonlyMap<string, OpsRoute>, req: IncomingMessage, res: ServerResponse): Promise<void> {
  res.setHeader('X-Content-Type-Options', 'nosniff')
  res.setHeader('Cache-Control', 'no-store')
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin')
  res.setHeader('Referrer-Policy', 'no-referrer')
  const repeated = repeatedHeader(req)
  if (repeated !== undefined) return sendText(res, 400, `the header ${repeated} is there twice\n`)
  if (!isLoopbackHost(req.headers.host)) return sendText(res, 403, 'this server answers to loopback names only\n')
  if (isForeignOrigin(req.headers.origin)) return sendJson(res, 403, { error: foreignOrigin(req.headers.origin).toJSON() })
  const path = req.url ?? '/'
  if (!path.startsWith('/') || !URL.canParse(path, 'http://localhost')) return sendText(res, 400, 'the path cannot be read\n')
  const url = new URL(path, 'http://localhost')
  const method = req.method === 'HEAD' ? 'GET' : (req.method ?? '')
  const route = routes.get(`${method} ${url.pathname}`)
  if (route !== undefined) return await route.handle(req, res, url)
  const others = [...routes.values()].filter((one) => one.path === url.pathname).map((one) => one.method)
  if (others.length === 0) return sendText(res, 404, 'there is nothing at this path\n')
  res.setHeader('Allow', others.join(', '))
  sendText(res, 405, `send ${others.join(' or ')}\n`)
}

function foreignOrigin(origin: string | undefined): RookeryError {
  return new RookeryError('ORIGIN_REFUSED', 'pages of other sites are not answered', {
    kind: 'refused',
    field: 'Origin',
    value: (origin ?? '').slice(0, 100),
    remedy: 'programs send no Origin'
  })
}

export function sendText(res: ServerResponse, status: number, text: string, type = 'text/plain; charset=utf-8'): void {
  res.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(text) })
  res.end(text)
}

export function sendJson(res: ServerResponse, status: number, body: unknown): void {
  sendText(res, status, `${JSON.stringify(body)}\n`, 'application/json; charset=utf-8')
}

function listening(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: NodeJS.ErrnoException) => {
      const inUse = cause.code === 'EADDRINUSE'
      reject(
        new RookeryError(inUse ? 'PORT_IN_USE' : 'LISTEN_FAILED', `the operator's server cannot listen on ${host}:${port}: ${cause.code}`, {
          kind: inUse ? 'conflict' : 'unavailable',
          field: 'ops.port',
          value: port,
          remedy: 'set ops.port to a free port, to 0 for any, or ops.enabled to false',
          cause
        })
      )
    }
    server.once('error', failed)
    server.listen(port, host, () => {
      server.off('error', failed)
      resolve()
    })
  })
}

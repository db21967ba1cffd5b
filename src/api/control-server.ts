import { createHash, timingSafeEqual } from 'node:crypto'
import { chmodSync, lstatSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { toString as bytesToString } from 'uint8arrays'
import { RookeryError } from '../errors.ts'
import { sayAcceptErrors } from '../platform/accept-errors.ts'
import { removeFile, writePrivateFile } from '../platform/files.ts'
import { isLoopbackHost, repeatedHeader } from '../platform/http-requests.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { realDataDir, socketPath, TCP_FILE } from './control-endpoint.ts'
import { errorJson } from './error-json.ts'
import { CONTROL_BOUNDS, type ControlMethod, type ControlParams, type ControlResults, parseControlCall } from './methods.ts'

/** What a method's code gets beside its parameters. */
export interface ControlContext {
  /** fires when the caller hangs up or the server stops */
  readonly signal: AbortSignal
  /** a line for a person who waits; dropped when the caller reads too slowly */
  progress(text: string): void
  /** A value for programs on the way to the result; dropped, as progress is, where the caller does not keep up. */
  event(value: object): void
  /** As `event`, for what must not be dropped: waits until the caller has read what was told before. */
  emit(value: object): Promise<void>
  /** runs once the answer is written */
  afterAnswer(call: () => void): void
}

export type ControlHandlers = {
  [M in ControlMethod]: (params: ControlParams<M>, context: ControlContext) => Promise<ControlResults[M]>
}

export interface ControlServer {
  /** `node.json`'s form: path of the socket, or `tcp:HOST:PORT` */
  readonly address: string
  /** Ends running calls by their signal, then the connections. */
  close(): Promise<void>
}

const REQUEST_MS_MAX = 30_000
const CONNECTIONS_MAX = 256

/**
 * Serves the control API of a data directory: HTTP over a unix socket that only its owner may open; on Windows over loopback with a token of 32 bytes.
 * POST /v1/call `{"method", "params"}` is answered by NDJSON (`ControlLine`); GET /v1/hello tells pid and start.
 * @throws RookeryError `CONTROL_SOCKET_TAKEN`, `CONTROL_LISTEN_FAILED`
 */
export async function serveControl(
  components: { handlers: ControlHandlers; logger: Logger; random: Random },
  init: { dataDir: string; startedAtMs: number; transport?: 'socket' | 'tcp' }
): Promise<ControlServer> {
  const transport = init.transport ?? (process.platform === 'win32' ? 'tcp' : 'socket')
  const logger = components.logger.child('control')
  const token = transport === 'tcp' ? components.random.bytes(32) : undefined
  const calls = new Set<AbortController>()

  const server = createServer(
    { requestTimeout: REQUEST_MS_MAX, headersTimeout: REQUEST_MS_MAX, connectionsCheckingInterval: 5_000 },
    (request, response) => {
      answer(request, response).catch((error: unknown) => {
        logger.error({ err: error }, 'a control call ended without an answer')
        response.destroy()
      })
    }
  )
  server.maxConnections = CONNECTIONS_MAX
  server.on('clientError', (_error, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n')
    else socket.destroy()
  })

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => {})
    request.on('error', () => {})
    const repeated = repeatedHeader(request)
    if (repeated !== undefined) {
      return finish(request, response, 400, refusal('HEADER_REPEATED', `the header ${repeated} is there twice`, 'send it once'))
    }
    if (request.headers.origin !== undefined || !isLoopbackHost(request.headers.host)) {
      return finish(
        request,
        response,
        403,
        refusal(
          'SENDER_REFUSED',
          'this is answered to programs of this machine alone, and to no page of a browser',
          'send no Origin, and Host: localhost'
        )
      )
    }
    if (token !== undefined && !bearerMatches(request, token)) {
      return finish(
        request,
        response,
        401,
        refusal('TOKEN_INVALID', 'the control token is missing or wrong', `read it from ${TCP_FILE} in the data directory`)
      )
    }
    if (request.method === 'GET' && request.url === '/v1/hello') {
      return finish(request, response, 200, { result: { rookery: 1, pid: process.pid, startedAtMs: init.startedAtMs } })
    }
    if (request.url !== '/v1/call')
      return finish(request, response, 404, refusal('PATH_UNKNOWN', 'there is nothing at this path', 'POST to /v1/call'))
    if (request.method !== 'POST')
      return finish(request, response, 405, refusal('VERB_WRONG', 'only POST is answered here', 'POST to /v1/call'))
    if (calls.size >= CONTROL_BOUNDS.callsMax) {
      const busy = new RookeryError('CONTROL_BUSY', `${CONTROL_BOUNDS.callsMax} calls are running already`, {
        kind: 'unavailable',
        field: 'callsMax',
        value: CONTROL_BOUNDS.callsMax,
        remedy: 'try again when one has ended'
      })
      return finish(request, response, 503, { error: busy.toJSON() })
    }
    const abort = new AbortController()
    calls.add(abort)
    response.on('close', () => {
      if (!response.writableFinished) abort.abort(new DOMException('the caller hung up', 'AbortError'))
    })
    const after: (() => void)[] = []
    let params: unknown
    try {
      const call = await readCall(request)
      params = call.params
      response.writeHead(200, { 'content-type': 'application/x-ndjson; charset=utf-8', 'cache-control': 'no-store' })
      const tell = (text: string) => {
        if (!response.writableEnded && !response.destroyed && !response.writableNeedDrain) response.write(text)
      }
      const context: ControlContext = {
        signal: abort.signal,
        progress: (text) => tell(line({ progress: text })),
        event: (value) => tell(line({ event: value })),
        async emit(value) {
          if (response.writableEnded || response.destroyed || response.write(line({ event: value }))) return
          const { promise, resolve } = Promise.withResolvers<void>()
          response.once('drain', resolve)
          response.once('close', resolve)
          await promise
          response.off('drain', resolve)
          response.off('close', resolve)
        },
        afterAnswer: (run) => after.push(run)
      }
      const handler = components.handlers[call.method] as (params: unknown, context: ControlContext) => Promise<unknown>
      const result = await handler(call.params, context)
      await end(response, line({ result }))
    } catch (error) {
      const json = errorJson(error, params)
      if (json.kind === 'internal') logger.error({ err: error }, 'a control call failed')
      if (!response.headersSent)
        response.writeHead(statusOf(json.code), { 'content-type': 'application/x-ndjson; charset=utf-8', connection: 'close' })
      await end(response, line({ error: json }))
      if (!request.complete) request.socket.destroySoon()
    } finally {
      calls.delete(abort)
      for (const run of after) run()
    }
  }

  const address =
    transport === 'socket' ? await listenSocket(server, init.dataDir) : await listenTcp(server, init.dataDir, token as Uint8Array)
  sayAcceptErrors(server, 'the control API', logger)
  return {
    address,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const abort of calls) abort.abort(new DOMException('the node stops', 'AbortError'))
      server.closeIdleConnections()
      await new Promise((resolve) => setImmediate(resolve))
      server.closeAllConnections()
      await closed
      if (transport === 'tcp') removeFile(join(realDataDir(init.dataDir), TCP_FILE))
    }
  }
}

type Server = ReturnType<typeof createServer>

async function listenSocket(server: Server, dataDir: string): Promise<string> {
  const path = socketPath(dataDir)
  await clearStaleSocket(path)
  await listen(server, { path })
  chmodSync(path, 0o600)
  return path
}

async function listenTcp(server: Server, dataDir: string, token: Uint8Array): Promise<string> {
  await listen(server, { host: '127.0.0.1', port: 0 })
  const { address, port } = server.address() as AddressInfo
  const file = join(realDataDir(dataDir), TCP_FILE)
  writePrivateFile(file, `${JSON.stringify({ host: address, port, token: bytesToString(token, 'base64url') })}\n`)
  return `tcp:${address}:${port}`
}

function listen(server: Server, where: { path: string } | { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: Error) =>
      reject(
        new RookeryError('CONTROL_LISTEN_FAILED', `the control API cannot listen: ${cause.message}`, {
          kind: 'unavailable',
          field: 'dataDir',
          remedy: 'use a data directory on a local file system that allows sockets',
          cause
        })
      )
    server.once('error', failed)
    server.listen(where, () => {
      server.off('error', failed)
      resolve()
    })
  })
}

/** A socket file that a killed process left behind is removed; one that somebody answers at, or a file that is none, is left alone. */
async function clearStaleSocket(path: string): Promise<void> {
  const state = lstatSync(path, { throwIfNoEntry: false })
  if (state === undefined) return
  const taken = (what: string) =>
    new RookeryError('CONTROL_SOCKET_TAKEN', `${path} ${what}`, {
      kind: 'conflict',
      field: 'dataDir',
      value: path,
      remedy: 'stop what uses it, or name another data directory'
    })
  if (!state.isSocket()) throw taken('is not a socket')
  const answered = await new Promise<boolean>((resolve) => {
    const probe = connect(path)
    probe.once('connect', () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', () => resolve(false))
  })
  if (answered) throw taken('is answered by a running process')
  removeFile(path)
}

async function readCall(request: IncomingMessage): Promise<{ method: ControlMethod; params: unknown }> {
  const announced = Number(request.headers['content-length'] ?? 0)
  const tooLarge = () =>
    new RookeryError('REQUEST_TOO_LARGE', `a control request has at most ${CONTROL_BOUNDS.requestBytesMax} bytes`, {
      kind: 'usage',
      field: 'requestBytesMax',
      value: CONTROL_BOUNDS.requestBytesMax,
      remedy: 'send smaller or fewer files'
    })
  if (announced > CONTROL_BOUNDS.requestBytesMax) throw tooLarge()
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of request) {
    length += (chunk as Uint8Array).length
    if (length > CONTROL_BOUNDS.requestBytesMax) throw tooLarge()
    chunks.push(chunk as Uint8Array)
  }
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)))
  } catch (cause) {
    throw new RookeryError('JSON_INVALID', 'the request is not JSON in UTF-8', {
      kind: 'usage',
      remedy: 'send {"method": "status", "params": {}}',
      cause
    })
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new RookeryError('JSON_INVALID', 'the request is not a JSON object', {
      kind: 'usage',
      remedy: 'send {"method": "status", "params": {}}'
    })
  }
  const { method, params } = body as { method?: unknown; params?: unknown }
  return parseControlCall(method, params)
}

function bearerMatches(request: IncomingMessage, token: Uint8Array): boolean {
  const given = /^Bearer ([\w-]{43})$/.exec(request.headers.authorization ?? '')?.[1] ?? ''
  const hash = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(hash(given), hash(bytesToString(token, 'base64url')))
}

function refusal(code: string, message: string, remedy: string) {
  return { error: new RookeryError(code, message, { kind: 'usage', remedy }).toJSON() }
}

function statusOf(code: string): number {
  return code === 'REQUEST_TOO_LARGE' ? 413 : code === 'INTERNAL' ? 500 : 400
}

async function finish(request: IncomingMessage, response: ServerResponse, status: number, body: object): Promise<void> {
  const close = request.complete || request.method === 'GET' ? {} : { connection: 'close' }
  response.writeHead(status, { 'content-type': 'application/x-ndjson; charset=utf-8', ...close })
  await end(response, line(body))
}

const line = (value: object) => `${JSON.stringify(value)}\n`

function end(response: ServerResponse, text: string): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed) return resolve()
    response.once('close', resolve)
    response.end(text, () => resolve())
  })
}

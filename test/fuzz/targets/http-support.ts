import http, { type Server } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { type Duplex, duplexPair } from 'node:stream'
import { concat } from '../../../protocol/bytes.ts'
import { mustBe } from './support.ts'

/** Requests that one server answers before the next one takes its place: what it stores stays small. */
export const REQUESTS_MAX = 2_000
const ANSWER_MS_MAX = 20_000
/** How long an answer that is a stream may go on before the client leaves. */
const STREAM_MS = 40
const SHOWN_CHARS = 400

/** Runs `open` and takes hold of the HTTP server that it makes, so that connections reach it without sockets. */
export async function withServer<T>(open: () => Promise<T>): Promise<{ server: Server; opened: T }> {
  let server: Server | undefined
  const { createServer } = http
  http.createServer = ((...args: Parameters<typeof createServer>) => {
    server = createServer(...args)
    return server
  }) as typeof createServer
  syncBuiltinESMExports()
  try {
    const opened = await open()
    if (server === undefined) throw new Error('no HTTP server was opened')
    return { server, opened }
  } finally {
    http.createServer = createServer
    syncBuiltinESMExports()
  }
}

/** A connection of which nothing is read unless somebody listens. */
export function connected(server: Server): { client: Duplex; leave: () => void } {
  const [client, remote] = duplexPair()
  server.emit('connection', remote)
  client.on('error', () => {})
  return {
    client,
    leave() {
      client.destroy()
      remote.destroy()
    }
  }
}

/**
 * @param streams - media type of answers that may go on without end
 * @returns all that the server wrote until it closed the connection, or, of a stream that goes on, until the client left
 */
export async function exchanged(server: Server, request: Uint8Array, streams = 'text/event-stream'): Promise<string> {
  const { client, leave } = connected(server)
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const chunks: Buffer[] = []
  const late = setTimeout(() => reject(new Error(`no answer within ${ANSWER_MS_MAX} ms`)), ANSWER_MS_MAX)
  const done = () => resolve(Buffer.concat(chunks).toString('latin1'))
  let left: NodeJS.Timeout | undefined
  client
    .on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      if (left === undefined && isStream(Buffer.concat(chunks), streams)) left = setTimeout(done, STREAM_MS)
    })
    .on('end', done)
    .on('close', done)
    .on('error', done)
  client.write(request)
  try {
    return await promise
  } finally {
    clearTimeout(late)
    clearTimeout(left)
    leave()
  }
}

function isStream(answer: Buffer, type: string): boolean {
  const end = answer.indexOf('\r\n\r\n')
  return end >= 0 && answer.toString('latin1', 0, end).toLowerCase().includes(`content-type: ${type}`)
}

/** What the connection was answered; 0: nothing that is HTTP. */
export function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0)
}

/** Every request has an answer, and none of it says that the code is at fault. */
export function mustAnswer(answer: string, internal: RegExp): void {
  const status = statusOf(answer)
  mustBe(status >= 100, 'every request is answered')
  mustBe(status !== 500 && !internal.test(answer), `no request makes the server fail: ${answer.slice(0, SHOWN_CHARS)}`)
}

/** Lets what is under way go on until `holds`, or for as long as `turns`. */
export async function settled(holds: () => boolean, turns = 2_000): Promise<boolean> {
  for (let turn = 0; turn < turns && !holds(); turn++) await new Promise((resolve) => setImmediate(resolve))
  return holds()
}

export interface RequestInit {
  /** added where the input has none; with `own: 'replaced'` in place of its own */
  readonly authorization?: string | undefined
  readonly own?: 'kept' | 'replaced'
  /** what stands in for texts of the input, in its head and in its body, in this order */
  readonly stands?: readonly (readonly [text: string, value: string])[]
}

/** First line: method and path. Then headers, an empty line, the body. Length and close are always true; Host is, unless the input has one. */
export function requestOf(bytes: Uint8Array, { authorization, own = 'kept', stands = [] }: RequestInit): Uint8Array {
  let raw = Buffer.from(bytes).toString('latin1')
  const at = raw.indexOf('\n\n')
  let body = at < 0 ? '' : raw.slice(at + 2)
  raw = at < 0 ? raw : raw.slice(0, at)
  for (const [text, value] of stands) {
    raw = raw.replaceAll(text, () => value)
    body = body.replaceAll(text, () => value)
  }
  const [line = '', ...headers] = raw.split('\n')
  const dropped = own === 'replaced' ? /^\s*(content-length|transfer-encoding|connection|expect|upgrade|authorization)\s*:/i : FRAMING
  const kept = headers.filter((header) => !dropped.test(header))
  const has = (name: string) => kept.some((header) => header.toLowerCase().startsWith(`${name}:`))
  const head = [
    `${line || 'GET /'} HTTP/1.1`,
    ...(has('host') ? [] : ['host: localhost']),
    ...(authorization === undefined || has('authorization') ? [] : [`authorization: ${authorization}`]),
    ...kept,
    `content-length: ${body.length}`,
    'connection: close'
  ]
  return concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'), Buffer.from(body, 'latin1')])
}

const FRAMING = /^\s*(content-length|transfer-encoding|connection|expect|upgrade)\s*:/i

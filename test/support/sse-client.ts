import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import type { JsonObject } from '../../src/tasks/todo.ts'

export interface SseFrame {
  event: string | undefined
  id: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: tests reach into whatever JSON came
  data: any
}

/** A stream as a client without any SDK reads it, one frame after another; comments are counted. */
export interface SseConnection {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  comments: number
  /** @returns undefined once the server has ended the stream or the connection is gone */
  next(): Promise<SseFrame | undefined>
  /** all that come until the end */
  rest(): Promise<SseFrame[]>
  /** cuts the connection */
  cut(): void
  /** stops and goes on reading from the socket */
  pause(): void
  resume(): void
  readonly closed: Promise<void>
}

export async function openSse(
  url: string,
  init: { method?: 'GET' | 'POST'; body?: JsonObject; token?: string; headers?: Record<string, string> }
): Promise<SseConnection> {
  const body = init.body === undefined ? undefined : JSON.stringify(init.body)
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const req: ClientRequest = httpRequest(url, {
    method: init.method ?? 'POST',
    agent: false,
    headers: {
      'A2A-Version': '1.0',
      ...(body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
      ...(init.token === undefined ? {} : { Authorization: `Bearer ${init.token}` }),
      ...init.headers
    }
  })
  req.once('response', resolve)
  req.once('error', reject)
  req.end(body)
  const res = await promise
  req.on('error', () => {})
  const frames: SseFrame[] = []
  let wake = Promise.withResolvers<void>()
  let ended = false
  let text = ''
  const connection = { comments: 0 }
  res.setEncoding('utf8')
  res.on('data', (chunk: string) => {
    text += chunk
    for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n')) {
      const frame = frameOf(text.slice(0, at))
      text = text.slice(at + 2)
      if (frame === undefined) connection.comments++
      else frames.push(frame)
    }
    wake.resolve()
  })
  const over = () => {
    ended = true
    wake.resolve()
  }
  res.once('end', over)
  res.once('close', over)
  res.on('error', over)
  const next = async (): Promise<SseFrame | undefined> => {
    for (;;) {
      const frame = frames.shift()
      if (frame !== undefined || ended) return frame
      await wake.promise
      wake = Promise.withResolvers<void>()
    }
  }
  return Object.assign(connection, {
    status: res.statusCode ?? 0,
    headers: res.headers,
    next,
    async rest() {
      const all: SseFrame[] = []
      for (let frame = await next(); frame !== undefined; frame = await next()) all.push(frame)
      return all
    },
    cut: () => req.destroy(),
    pause: () => void res.pause(),
    resume: () => void res.resume(),
    closed: new Promise<void>((done) => res.once('close', () => done()))
  })
}

function frameOf(text: string): SseFrame | undefined {
  const lines = text.split('\n').filter((line) => !line.startsWith(':'))
  if (lines.length === 0) return undefined
  const value = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
  return { event: value('event'), id: value('id'), data: JSON.parse(value('data') ?? 'null') }
}

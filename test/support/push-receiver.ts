import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { JsonObject } from '../../src/tasks/todo.ts'

export interface ReceivedPush {
  path: string
  headers: IncomingHttpHeaders
  body: JsonObject
}

/** A webhook on loopback that answers as it is told, and remembers what came. */
export class PushReceiver {
  readonly got: ReceivedPush[] = []
  /** status of the next answers; `hang`: none comes */
  answer: (push: ReceivedPush) => number | 'hang' | { redirect: string } = () => 204
  readonly #server: Server
  #waiting: (() => void)[] = []
  #port = 0

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const push = { path: request.url ?? '', headers: request.headers, body: JSON.parse(Buffer.concat(chunks).toString()) as JsonObject }
        this.got.push(push)
        const answer = this.answer(push)
        for (const look of this.#waiting.splice(0)) look()
        if (answer === 'hang') return
        if (typeof answer === 'number') response.writeHead(answer).end('x'.repeat(10_000))
        else response.writeHead(307, { Location: answer.redirect }).end()
      })
    })
  }

  /** On the port that it had before, where it had one. */
  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve))
    this.#port = (this.#server.address() as AddressInfo).port
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    await closed
  }

  get port(): number {
    return this.#port
  }

  url(path = '/hook'): string {
    return `http://127.0.0.1:${this.#port}${path}`
  }

  get ids(): (string | undefined)[] {
    return this.got.map(({ headers }) => headers['a2a-event-id']?.toString().split(':').at(-1))
  }

  /** Resolves once `is` holds; asked again at every notification. */
  async until(is: () => boolean): Promise<void> {
    while (!is()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}

import type { IncomingMessage, ServerResponse } from 'node:http'
import { A2aError } from './a2a-error.ts'
import { readServiceParameters, type ServiceParameters } from './service-parameters.ts'

/** What `path` of a request addresses. */
export interface Address {
  /** text behind `/agents/`, undefined where the path names the default agent */
  did: string | undefined
  /** what the route's template matched */
  params: Readonly<Record<string, string>>
}

/** One HTTP request and its answer, as every door of the edge sees it. */
export class Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly did: string | undefined
  readonly params: Readonly<Record<string, string>>
  readonly #search: string
  #query: URLSearchParams | undefined
  #parameters: ServiceParameters | undefined
  #left: AbortController | undefined
  #isOver = false

  constructor(req: IncomingMessage, res: ServerResponse, { did, params }: Address, search: string) {
    this.req = req
    this.res = res
    this.did = did
    this.params = params
    this.#search = search
  }

  /** Names in small letters; undefined for what came more than once as a list. */
  header(name: string): string | undefined {
    const value = this.req.headers[name]
    return typeof value === 'string' ? value : undefined
  }

  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(this.#search)
    return this.#query
  }

  /** The header wins over the query form (A2A §3.6). */
  get parameters(): ServiceParameters {
    this.#parameters ??= readServiceParameters(this.header('a2a-version') || this.#queriedVersion(), this.header('a2a-extensions'))
    return this.#parameters
  }

  #queriedVersion(): string | undefined {
    if (this.#search === '') return undefined
    const name = [...this.query.keys()].find((one) => one.toLowerCase() === 'a2a-version')
    const values = name === undefined ? [] : this.query.getAll(name)
    return values.length === 1 ? values[0] : undefined
  }

  /** Fires when the client has left or the edge closes: waiting ends, the work goes on. */
  get gone(): AbortSignal {
    if (this.#left === undefined) {
      this.#left = new AbortController()
      if (this.#isOver) this.#left.abort(clientLeft())
    }
    return this.#left.signal
  }

  /** Nobody waits for the answer any more. */
  leave(reason: () => unknown = clientLeft): void {
    this.#isOver = true
    this.#left?.abort(reason())
  }

  /** Whether an answer has begun. */
  get isAnswered(): boolean {
    return this.res.headersSent
  }

  setHeader(name: string, value: string): void {
    this.res.setHeader(name, value)
  }

  sendJson(status: number, body: unknown): void {
    this.sendText(status, JSON.stringify(body))
  }

  /** @param text - JSON, unless `headers` say otherwise */
  sendText(status: number, text: string, headers: Readonly<Record<string, string>> = {}): void {
    this.res.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': Buffer.byteLength(text), ...headers })
    this.res.end(text)
  }
}

function clientLeft(): A2aError {
  return new A2aError('OUTCOME_UNKNOWN', 'the client left')
}

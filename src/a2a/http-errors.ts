import type { A2aError } from './a2a-error.ts'
import type { Exchange } from './http-exchange.ts'
import { errorResponse, type JsonRpcId } from './json-rpc.ts'

/** Answers with a JSON-RPC error in every case, and with the headers that go with it. */
export function sendError(exchange: Exchange, error: A2aError, id: JsonRpcId = null): void {
  if (exchange.isAnswered) return
  setErrorHeaders(exchange, error)
  exchange.sendJson(error.status, errorResponse(id, error))
}

/** The same for the HTTP+JSON binding. */
export function sendRestError(exchange: Exchange, error: A2aError): void {
  if (exchange.isAnswered) return
  setErrorHeaders(exchange, error)
  const { status, body } = error.toRest()
  exchange.sendJson(status, body)
}

function setErrorHeaders(exchange: Exchange, { reason, retryAfterSec }: A2aError): void {
  if (reason === 'UNAUTHENTICATED') exchange.setHeader('WWW-Authenticate', 'Bearer realm="rookery"')
  if (retryAfterSec !== undefined) exchange.setHeader('Retry-After', String(retryAfterSec))
}

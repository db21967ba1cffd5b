import { JSON_DEPTH_MAX, tooDeep } from '../tasks/json-bounds.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { A2aError, type JsonRpcError } from './a2a-error.ts'

export type JsonRpcId = string | number | null

export interface JsonRpcRequest {
  id: JsonRpcId
  method: string
  params: JsonObject
}

export type JsonRpcResponse = { jsonrpc: '2.0'; id: JsonRpcId; result: Json } | { jsonrpc: '2.0'; id: JsonRpcId; error: JsonRpcError }

const ID_CHARS_MAX = 256

/** @throws A2aError `PARSE_ERROR` for bytes that are not UTF-8 JSON */
export function parseJson(bytes: Uint8Array): Json {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Json
  } catch (cause) {
    throw new A2aError('PARSE_ERROR', 'the body is not valid JSON', { cause })
  }
}

/** The id to answer with, null where there is none to trust. */
export function idOf(body: Json): JsonRpcId {
  const id = isObject(body) ? body.id : null
  return (typeof id === 'string' && id.length <= ID_CHARS_MAX) || (typeof id === 'number' && Number.isSafeInteger(id)) ? id : null
}

/**
 * Checks a JSON-RPC 2.0 envelope. Batches and notifications are not part of A2A.
 * @throws A2aError `INVALID_REQUEST`, or `INVALID_PARAMS` where only `params` is wrong
 */
export function checkEnvelope(body: Json): JsonRpcRequest {
  const refuse = (message: string) => new A2aError('INVALID_REQUEST', message)
  if (Array.isArray(body)) throw refuse('batches are not supported: send one request object')
  if (!isObject(body)) throw refuse('the request is not a JSON object')
  if (tooDeep(body)) throw refuse(`the request nests deeper than ${JSON_DEPTH_MAX}`)
  if (body.jsonrpc !== '2.0') throw refuse('jsonrpc is not "2.0"')
  if (!('id' in body)) throw refuse('id is missing: A2A has no notifications')
  if (body.id !== null && idOf(body) === null) throw refuse(`id is not a string of at most ${ID_CHARS_MAX} characters or an integer`)
  if (typeof body.method !== 'string' || body.method === '') throw refuse('method is not a string')
  const params = body.params ?? {}
  if (!isObject(params))
    throw new A2aError('INVALID_PARAMS', 'params is not an object', { violations: [{ field: 'params', description: 'is not an object' }] })
  return { id: idOf(body), method: body.method, params }
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function errorResponse(id: JsonRpcId, error: A2aError): JsonRpcResponse {
  return { jsonrpc: '2.0', id, error: error.toJsonRpc() }
}

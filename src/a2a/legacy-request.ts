import type { Json, JsonObject } from '../tasks/todo.ts'
import { isObject, type JsonRpcRequest } from './json-rpc.ts'

export function isLegacySend(method: string): boolean {
  return method === 'message/send' || method === 'message/stream'
}

/**
 * A2A 0.3's sends as 1.0 ones, so that a message for a sleeping agent is kept whichever version its sender speaks (G-03, G-17). Whatever is no
 * 0.3 send comes back as it is; what does not fit 1.0 afterwards is refused by the checks of 1.0.
 */
export function legacyRequest(request: JsonRpcRequest): JsonRpcRequest {
  if (!isLegacySend(request.method)) return request
  const { message, configuration: _, ...rest } = request.params
  return { ...request, method: 'SendMessage', params: { ...rest, ...(isObject(message) ? { message: legacyMessage(message) } : {}) } }
}

function legacyMessage({ kind: _, role, parts, ...message }: JsonObject): JsonObject {
  return {
    ...message,
    role: role === 'user' ? 'ROLE_USER' : (role ?? null),
    parts: Array.isArray(parts) ? parts.map(legacyPart) : (parts ?? null)
  }
}

function legacyPart(part: Json): Json {
  if (!isObject(part)) return part
  const { kind, file, ...rest } = part
  if (kind !== 'file' || !isObject(file)) return rest
  return {
    ...rest,
    ...(typeof file.bytes === 'string' ? { raw: file.bytes } : {}),
    ...(typeof file.uri === 'string' ? { url: file.uri } : {}),
    ...(typeof file.name === 'string' ? { filename: file.name } : {}),
    ...(typeof file.mimeType === 'string' ? { mediaType: file.mimeType } : {})
  }
}

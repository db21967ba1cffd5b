import { utf8 } from '../../protocol/bytes.ts'
import { SERVICE_PARAMETERS_MEMBER } from '../../protocol/delivery/sealed-request.ts'
import { TRACEPARENT_PARAMETER } from '../../protocol/delivery/traceparent.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import { isObject, type JsonRpcId } from './json-rpc.ts'
import { readServiceParameters, type ServiceParameters } from './service-parameters.ts'
import type { TaskEvent } from './task-events.ts'

/** One JSON text, the payload of one transaction. */
export const A2A_TEXT_BYTES_MAX = 1_048_576
export { SERVICE_PARAMETERS_MEMBER }
/** Beside the result: the id of a stream's event. */
export const EVENT_MEMBER = 'a2a-event'
/** Beside the last, empty result of a stream, so that an end is told from a cut. */
export const END_MEMBER = 'a2a-end'
/** In place of a method: the asker leaves the stream of that id; it gets no answer. */
export const LEAVE_MEMBER = 'a2a-leave'
/** The service parameter that names the last event that the asker has of the task's stream. */
const LAST_EVENT_ID = 'last-event-id'
const PARAMETER_BYTES_MAX = 4_096
const PARAMETERS_BYTES_MAX = 16_384

export interface PssRequest {
  id: JsonRpcId
  method: string
  params: JsonObject
  parameters: ServiceParameters
  lastEventId?: string | undefined
  traceparent?: string | undefined
}

/** @throws A2aError `PAYLOAD_TOO_LARGE` */
export function requestText({ id, method, params, parameters, lastEventId, traceparent }: PssRequest): Uint8Array {
  const { version, extensions } = parameters
  const payload = utf8(
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      method,
      params,
      [SERVICE_PARAMETERS_MEMBER]: {
        'a2a-version': version,
        ...(extensions.length > 0 ? { 'a2a-extensions': extensions.join(',') } : {}),
        ...(lastEventId === undefined ? {} : { [LAST_EVENT_ID]: lastEventId }),
        ...(traceparent === undefined ? {} : { [TRACEPARENT_PARAMETER]: traceparent })
      }
    })
  )
  if (payload.length > A2A_TEXT_BYTES_MAX) throw textTooLarge(payload.length)
  return payload
}

/** @throws A2aError `PAYLOAD_TOO_LARGE` */
export function eventText(id: JsonRpcId, event: TaskEvent, activated: readonly string[] = []): Uint8Array {
  const active = activated.length === 0 ? '' : `,${JSON.stringify(activatedMember(activated)).slice(1, -1)}`
  const rest = `,"id":${JSON.stringify(id)},"${EVENT_MEMBER}":${JSON.stringify(event.id)}${active}}`
  const payload = utf8(`{"jsonrpc":"2.0","result":${event.text}${rest}`)
  if (payload.length > A2A_TEXT_BYTES_MAX) throw textTooLarge(payload.length)
  return payload
}

/** Beside the first result: the extensions that are active in it; nothing where none is. */
export function activatedMember(extensions: readonly string[]): JsonObject {
  return extensions.length === 0 ? {} : { [SERVICE_PARAMETERS_MEMBER]: { 'a2a-extensions': extensions.join(',') } }
}

/** What a peer says is active; a member that is none says nothing. */
export function activatedIn(text: JsonObject): string[] {
  const member = text[SERVICE_PARAMETERS_MEMBER]
  const extensions = isObject(member) ? member['a2a-extensions'] : undefined
  return typeof extensions === 'string' ? readServiceParameters(undefined, extensions.slice(0, PARAMETER_BYTES_MAX)).extensions : []
}

export function endText(id: JsonRpcId): Uint8Array {
  return utf8(JSON.stringify({ jsonrpc: '2.0', id, result: {}, [END_MEMBER]: true }))
}

export function leaveText(id: JsonRpcId): Uint8Array {
  return utf8(JSON.stringify({ jsonrpc: '2.0', id, [LEAVE_MEMBER]: true }))
}

/** @throws A2aError `INVALID_REQUEST` for parameters that are no text or too long */
export function readParameters(member: Json | undefined): { parameters: ServiceParameters; lastEventId: string | undefined } {
  const refuse = (why: string) => new A2aError('INVALID_REQUEST', `${SERVICE_PARAMETERS_MEMBER} ${why}`)
  if (member !== undefined && !isObject(member)) throw refuse('is not an object')
  const byName = new Map<string, string>()
  let bytes = 0
  for (const [name, value] of Object.entries(member ?? {})) {
    if (typeof value !== 'string' || utf8(value).length > PARAMETER_BYTES_MAX) {
      throw refuse(`has a value that is no text of at most ${PARAMETER_BYTES_MAX} bytes`)
    }
    bytes += utf8(name).length + utf8(value).length
    byName.set(name.toLowerCase(), value)
  }
  if (bytes > PARAMETERS_BYTES_MAX) throw refuse(`is above ${PARAMETERS_BYTES_MAX} bytes in all`)
  return {
    parameters: readServiceParameters(byName.get('a2a-version'), byName.get('a2a-extensions')),
    lastEventId: byName.get(LAST_EVENT_ID)
  }
}

export function textTooLarge(bytes: number): A2aError {
  return new A2aError('PAYLOAD_TOO_LARGE', `the A2A text is ${bytes} bytes; a session takes ${A2A_TEXT_BYTES_MAX}`, {
    metadata: { bytesMax: String(A2A_TEXT_BYTES_MAX) }
  })
}

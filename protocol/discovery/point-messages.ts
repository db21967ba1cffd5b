import { CborFields, decodeCbor, encodeCbor } from '../cbor.ts'
import { TAG } from './names.ts'

/** The channel of a session on which points are read; live items, so nothing of it outlives the epoch. */
export const POINT_CHANNEL = 8
/** Who may read a point: anyone with a session; holders of a grant; those on its trust list. */
export const POINT_ACCESS = ['open', 'grant', 'trust'] as const
export type PointAccess = (typeof POINT_ACCESS)[number]
export const POINT_GRANT_BYTES = 32
/** A point's value, as UTF-8 JSON. */
export const POINT_VALUE_BYTES_MAX = 16_384
/** `unknown`: the agent has no such point; `denied`: the caller may not read it. */
export const POINT_STATUS = ['ok', 'denied', 'unknown'] as const
export type PointStatus = (typeof POINT_STATUS)[number]
const REQUEST_MAX = 0xffff_ffff

export type PointMessage =
  | { readonly type: 'read'; readonly request: number; readonly tag: string; readonly grant?: Uint8Array }
  | { readonly type: 'answer'; readonly request: number; readonly status: PointStatus; readonly value?: Uint8Array }

/** CBOR map (protocol/README.md §5, Points). */
export function encodePointMessage(message: PointMessage): Uint8Array {
  if (message.type === 'read') {
    const { request, tag, grant } = message
    return encodeCbor({ v: 1, type: 'read', request, tag, ...(grant === undefined ? {} : { grant }) })
  }
  const { request, status, value } = message
  return encodeCbor({ v: 1, type: 'answer', request, status, ...(value === undefined ? {} : { value }) })
}

/** @throws ProtocolError `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_MISSING`, `FIELD_INVALID`, `FIELD_UNKNOWN` */
export function decodePointMessage(bytes: Uint8Array): PointMessage {
  const fields = new CborFields(decodeCbor(bytes), 'point')
  fields.uint('v', { min: 1, max: 1 })
  const type = fields.oneOf('type', ['read', 'answer'])
  const request = fields.uint('request', { max: REQUEST_MAX })
  if (type === 'read') {
    const tag = fields.text('tag', { bytesMax: 64, pattern: TAG })
    const grant = fields.optional('grant', (name) => fields.bytes(name, { length: POINT_GRANT_BYTES }))
    fields.end()
    return { type, request, tag, ...(grant === undefined ? {} : { grant }) }
  }
  const status = fields.oneOf('status', POINT_STATUS)
  const value = status === 'ok' ? fields.bytes('value', { max: POINT_VALUE_BYTES_MAX }) : undefined
  fields.end()
  return { type, request, status, ...(value === undefined ? {} : { value }) }
}

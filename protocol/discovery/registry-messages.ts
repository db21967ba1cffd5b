import { CborFields, type CborValue, decodeCbor, encodeCbor } from '../cbor.ts'
import { ProtocolError } from '../errors.ts'

/** libp2p protocol id of the registry (protocol/README.md §4). */
export const REGISTRY_PROTOCOL = '/rookery/registry/1.0.0'
/** Bounds of one exchange: u32 length ‖ CBOR each way. */
export const REGISTRY_REQUEST_BYTES_MAX = 16 * 1024
export const REGISTRY_RESPONSE_BYTES_MAX = 1024 * 1024

/** The sets that a registrar keeps, each under a 32-byte key. */
export const REGISTRY_SETS = ['members', 'announcements', 'children', 'prunes', 'poms', 'relays'] as const
export type RegistrySet = (typeof REGISTRY_SETS)[number]

export const REGISTRY_STATUSES = ['ok', 'stale', 'invalid', 'full', 'need-work'] as const
export type RegistryStatus = (typeof REGISTRY_STATUSES)[number]

export const REGISTRY_KEY_BYTES = 32
/** The largest record of any kind that a set takes, with its envelope (`pom`, protocol/README.md §3). */
export const REGISTRY_RECORD_BYTES_MAX = 4_096
export const LIST_LIMIT_MAX = 100
export const KEYS_LIMIT_MAX = 1_000
export const QUERY_TAGS_MAX = 16
export const TAG_BYTES_MAX = 64
/** An entry's name within its set: EID for members, curator for announcements, DS_ID ‖ curator for children, curator ‖ EID for prunes, the node's key for relays. */
export const ENTRY_ID_BYTES_MAX = 64
/** A set's code and its key. */
const KEYS_CURSOR_BYTES = 1 + REGISTRY_KEY_BYTES
const WORK_NONCE_BYTES = 8
const WORK_BITS_MAX = 32

export interface PutRequest {
  verb: 'put'
  set: RegistrySet
  /** 32 bytes */
  key: Uint8Array
  /** a whole signed record, envelope and all */
  record: Uint8Array
  /** the nonce that `need-work` asked for, 8 bytes */
  pow?: Uint8Array
}

export interface ListRequest {
  verb: 'list'
  set: RegistrySet
  key: Uint8Array
  /** only entries that follow (or are by) this curator */
  curator?: Uint8Array
  /** only entries that bear all of these */
  tags?: string[]
  /** entries whose name is greater than this, bytewise; empty: from the start */
  cursor: Uint8Array
  /** 1 to 100 */
  limit: number
}

export interface KeysRequest {
  verb: 'keys'
  /** code of the set ‖ key, exclusive; empty: from the start */
  cursor: Uint8Array
}

export type RegistryRequest = PutRequest | ListRequest | KeysRequest

export interface PutResponse {
  status: RegistryStatus
  /** with `need-work`: leading zero bits asked */
  bits?: number
  /** with `stale`: the record that is held, so that its signer learns which number to pass */
  held?: Uint8Array
}

export interface ListResponse {
  status: RegistryStatus
  records: Uint8Array[]
  /** one for each record where any has one: the nonce of its work, 8 bytes, or none */
  pows?: Uint8Array[]
  /** where to go on; absent at the end */
  next?: Uint8Array
}

export interface KeysResponse {
  status: RegistryStatus
  keys: { set: RegistrySet; key: Uint8Array }[]
  next?: Uint8Array
}

/** One CBOR map, `v` = 1, at most 16 KiB. */
export function encodeRegistryRequest(request: RegistryRequest): Uint8Array {
  switch (request.verb) {
    case 'put':
      return encodeCbor({ v: 1, verb: 'put', set: request.set, key: request.key, record: request.record, pow: request.pow })
    case 'list':
      return encodeCbor({
        v: 1,
        verb: 'list',
        set: request.set,
        key: request.key,
        curator: request.curator,
        tags: request.tags === undefined || request.tags.length === 0 ? undefined : request.tags,
        cursor: request.cursor,
        limit: request.limit
      })
    case 'keys':
      return encodeCbor({ v: 1, verb: 'keys', cursor: request.cursor })
  }
}

/**
 * Byte fields are views of `bytes`.
 * @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_MISSING`, `FIELD_INVALID`, `FIELD_UNKNOWN`
 * @see protocol/README.md §4
 */
export function decodeRegistryRequest(bytes: Uint8Array): RegistryRequest {
  const fields = open(bytes, REGISTRY_REQUEST_BYTES_MAX, 'request')
  const verb = fields.oneOf('verb', ['put', 'list', 'keys'])
  const request = verb === 'put' ? readPut(fields) : verb === 'list' ? readList(fields) : readKeys(fields)
  fields.end()
  return request
}

function readPut(fields: CborFields): PutRequest {
  const set = fields.oneOf('set', REGISTRY_SETS)
  const key = fields.bytes('key', { length: REGISTRY_KEY_BYTES })
  const record = fields.bytes('record', { min: 1, max: REGISTRY_RECORD_BYTES_MAX })
  const pow = fields.optional('pow', (name) => fields.bytes(name, { length: WORK_NONCE_BYTES }))
  return { verb: 'put', set, key, record, ...(pow === undefined ? {} : { pow }) }
}

function readList(fields: CborFields): ListRequest {
  const set = fields.oneOf('set', REGISTRY_SETS)
  const key = fields.bytes('key', { length: REGISTRY_KEY_BYTES })
  const curator = fields.optional('curator', (name) => fields.bytes(name, { length: 32 }))
  const tags = fields.optional('tags', (name) => fields.list(name, { min: 1, max: QUERY_TAGS_MAX }, readTag))
  const cursor = fields.bytes('cursor', { max: ENTRY_ID_BYTES_MAX })
  const limit = fields.uint('limit', { min: 1, max: LIST_LIMIT_MAX })
  return { verb: 'list', set, key, ...(curator === undefined ? {} : { curator }), ...(tags === undefined ? {} : { tags }), cursor, limit }
}

function readTag(value: CborValue): string {
  if (typeof value !== 'string' || value.length === 0 || value.length > TAG_BYTES_MAX) {
    throw new ProtocolError('FIELD_INVALID', `a tag is text of 1 to ${TAG_BYTES_MAX} bytes`, { field: 'request.tags' })
  }
  return value
}

function readKeys(fields: CborFields): KeysRequest {
  const cursor = fields.bytes('cursor', { max: KEYS_CURSOR_BYTES })
  if (cursor.length !== 0 && cursor.length !== KEYS_CURSOR_BYTES) {
    throw new ProtocolError('FIELD_INVALID', `request.cursor is empty or ${KEYS_CURSOR_BYTES} bytes`, { field: 'request.cursor' })
  }
  return { verb: 'keys', cursor }
}

export function encodePutResponse(response: PutResponse): Uint8Array {
  return encodeCbor({ v: 1, status: response.status, bits: response.bits, held: response.held })
}

/** @throws ProtocolError as {@link decodeRegistryRequest} */
export function decodePutResponse(bytes: Uint8Array): PutResponse {
  const fields = open(bytes, REGISTRY_RESPONSE_BYTES_MAX, 'response')
  const status = fields.oneOf('status', REGISTRY_STATUSES)
  const bits = status === 'need-work' ? fields.uint('bits', { min: 1, max: WORK_BITS_MAX }) : undefined
  const held =
    status === 'stale' ? fields.optional('held', (name) => fields.bytes(name, { min: 1, max: REGISTRY_RECORD_BYTES_MAX })) : undefined
  fields.end()
  return { status, ...(bits === undefined ? {} : { bits }), ...(held === undefined ? {} : { held }) }
}

export function encodeListResponse(response: ListResponse): Uint8Array {
  return encodeCbor({ v: 1, status: response.status, records: response.records, pows: response.pows, next: response.next })
}

/** @throws ProtocolError as {@link decodeRegistryRequest} */
export function decodeListResponse(bytes: Uint8Array): ListResponse {
  const fields = open(bytes, REGISTRY_RESPONSE_BYTES_MAX, 'response')
  const status = fields.oneOf('status', REGISTRY_STATUSES)
  const records = fields.list('records', { max: LIST_LIMIT_MAX }, (item) => {
    if (!(item instanceof Uint8Array) || item.length === 0 || item.length > REGISTRY_RECORD_BYTES_MAX) {
      throw new ProtocolError('FIELD_INVALID', `a record is 1 to ${REGISTRY_RECORD_BYTES_MAX} bytes`, { field: 'response.records' })
    }
    return item
  })
  const pows = fields.optional('pows', (name) => fields.list(name, { min: records.length, max: records.length }, readNonce))
  const next = fields.optional('next', (name) => fields.bytes(name, { min: 1, max: ENTRY_ID_BYTES_MAX }))
  fields.end()
  return { status, records, ...(pows === undefined ? {} : { pows }), ...(next === undefined ? {} : { next }) }
}

function readNonce(item: CborValue): Uint8Array {
  if (item instanceof Uint8Array && (item.length === 0 || item.length === WORK_NONCE_BYTES)) return item
  throw new ProtocolError('FIELD_INVALID', `a nonce is ${WORK_NONCE_BYTES} bytes, or none`, { field: 'response.pows' })
}

export function encodeKeysResponse(response: KeysResponse): Uint8Array {
  return encodeCbor({
    v: 1,
    status: response.status,
    keys: response.keys.map((one) => registryKeyName(one.set, one.key)),
    next: response.next
  })
}

/** @throws ProtocolError as {@link decodeRegistryRequest} */
export function decodeKeysResponse(bytes: Uint8Array): KeysResponse {
  const fields = open(bytes, REGISTRY_RESPONSE_BYTES_MAX, 'response')
  const status = fields.oneOf('status', REGISTRY_STATUSES)
  const keys = fields.list('keys', { max: KEYS_LIMIT_MAX }, (item) => {
    const set = item instanceof Uint8Array && item.length === KEYS_CURSOR_BYTES ? REGISTRY_SETS[item[0] as number] : undefined
    if (set === undefined) {
      throw new ProtocolError('FIELD_INVALID', `a key is ${KEYS_CURSOR_BYTES} bytes that start with a set's code`, {
        field: 'response.keys'
      })
    }
    return { set, key: (item as Uint8Array).subarray(1) }
  })
  const next = fields.optional('next', (name) => fields.bytes(name, { length: KEYS_CURSOR_BYTES }))
  fields.end()
  return { status, keys, ...(next === undefined ? {} : { next }) }
}

/** The set's code (its place in {@link REGISTRY_SETS}) ‖ key: how KEYS names and orders keys. */
export function registryKeyName(set: RegistrySet, key: Uint8Array): Uint8Array {
  const name = new Uint8Array(KEYS_CURSOR_BYTES)
  name[0] = REGISTRY_SETS.indexOf(set)
  name.set(key, 1)
  return name
}

/**
 * The cursor just before the entry `id`: a LIST from it with limit 1 asks for that entry alone.
 * All names of one set have one length, so no other lies between.
 */
export function cursorBefore(id: Uint8Array): Uint8Array {
  const cursor = Uint8Array.from(id)
  for (let i = cursor.length - 1; i >= 0; i--) {
    const byte = cursor[i] as number
    cursor[i] = (byte + 255) & 255
    if (byte !== 0) return cursor
  }
  return new Uint8Array(0)
}

function open(bytes: Uint8Array, bytesMax: number, what: string): CborFields {
  if (bytes.length > bytesMax) throw new ProtocolError('TOO_LARGE', `${what} of ${bytes.length} bytes exceeds ${bytesMax}`, { field: what })
  const fields = new CborFields(decodeCbor(bytes), what)
  fields.uint('v', { min: 1, max: 1 })
  return fields
}

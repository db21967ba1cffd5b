import type { CborFields, CborValue } from '../cbor.ts'
import { ProtocolError } from '../errors.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { ROTATION_BYTES_MAX } from '../identity/rotation.ts'
import { RECORD_BYTES_MAX } from '../records/envelope.ts'
import type { QueueBounds } from './bounds.ts'
import { CONFIRMATION_BYTES_MAX } from './confirmation.ts'
import { OBJECT_ID_BYTES, type ObjectId, objectId } from './object.ts'

/** Objects in one answer to a FETCH; fewer where their bytes fill the message. */
export const PAGE_OBJECTS_MAX = 256
/** What an answer to a FETCH adds around its objects, and around each of them, at the most. */
export const PAGE_OVERHEAD_BYTES = 58
export const PAGE_OBJECT_OVERHEAD_BYTES = 5
/** Names in one ASK, confirmations in one RELEASE. */
export const NAMES_MAX = 256
/** Rotations that a KEEP shows. */
export const ROTATIONS_MAX = 8
const OBJECT_BYTES_MAX = 1_048_576

/** To a keeper; numbers of requests are the asker's own, u32, and answers repeat them. */
export type KeeperRequest =
  /** Keep for me, within at most these bounds, and put my `mail` record again while it lives. You may know me by an EID that I had: the certificates, in order. Whoever asks is the audience; again renews. */
  | { type: 'keep'; bounds: QueueBounds; mail?: Uint8Array | undefined; rotations?: Uint8Array[] | undefined }
  /** What you hold for me, in order of arrival, from behind this cursor; 0: from the beginning. */
  | { type: 'fetch'; after: number }
  /** Let go of these: each a confirmation that I signed. */
  | { type: 'release'; confirmations: Uint8Array[] }
  /** What became of these objects that I issued. */
  | { type: 'ask'; audience: Eid; ids: ObjectId[] }

export type KeeperAnswer =
  /** the bounds granted, each at most what was asked, until then unless renewed */
  | { type: 'kept'; bounds: QueueBounds; untilMs: number }
  | { type: 'page'; objects: Uint8Array[]; next: number; more: boolean }
  | { type: 'released'; count: number }
  /** those still held, and confirmations of those that are not; in neither: not known here. `rotations` where the audience showed some: it may sign as what it is now */
  | { type: 'told'; held: ObjectId[]; confirmations: Uint8Array[]; rotations?: Uint8Array[] | undefined }

export const KEEPER_REQUESTS = ['keep', 'fetch', 'release', 'ask'] as const
export const KEEPER_ANSWERS = ['kept', 'page', 'released', 'told'] as const
export type KeeperMessage = KeeperRequest | KeeperAnswer

/** The members beside `v`, `t` and `req`. */
export function keeperMembers(message: KeeperMessage): Record<string, CborValue> {
  switch (message.type) {
    case 'keep':
      return {
        ...boundsMembers(message.bounds),
        ...(message.mail === undefined ? {} : { mail: message.mail }),
        ...(message.rotations === undefined ? {} : { rots: message.rotations })
      }
    case 'kept':
      return { ...boundsMembers(message.bounds), until: message.untilMs }
    case 'fetch':
      return { after: message.after }
    case 'page':
      return { objects: message.objects, next: message.next, more: message.more }
    case 'release':
      return { confs: message.confirmations }
    case 'released':
      return { count: message.count }
    case 'ask':
      return { aud: message.audience, ids: message.ids }
    case 'told':
      return {
        held: message.held,
        confs: message.confirmations,
        ...(message.rotations === undefined ? {} : { rots: message.rotations })
      }
  }
}

/** @throws ProtocolError `FIELD_MISSING`, `FIELD_INVALID` */
export function readKeeperMessage(fields: CborFields, type: KeeperMessage['type']): KeeperMessage {
  switch (type) {
    case 'keep': {
      const mail = fields.optional('mail', (name) => fields.bytes(name, { min: 1, max: RECORD_BYTES_MAX }))
      const rotations = readRotations(fields)
      return {
        type,
        bounds: readBounds(fields),
        ...(mail === undefined ? {} : { mail }),
        ...(rotations === undefined ? {} : { rotations })
      }
    }
    case 'kept':
      return { type, bounds: readBounds(fields), untilMs: fields.uint('until') }
    case 'fetch':
      return { type, after: fields.uint('after') }
    case 'page':
      return {
        type,
        objects: fields.list('objects', { max: PAGE_OBJECTS_MAX }, bytesItem('mailbox.objects', OBJECT_BYTES_MAX)),
        next: fields.uint('next'),
        more: fields.flag('more')
      }
    case 'release':
      return { type, confirmations: readConfirmations(fields) }
    case 'released':
      return { type, count: fields.uint('count', { max: NAMES_MAX }) }
    case 'ask':
      return { type, audience: eid(fields.bytes('aud', { length: 32 })), ids: readIds(fields, 'ids') }
    case 'told': {
      const rotations = readRotations(fields)
      const told = { held: readIds(fields, 'held'), confirmations: readConfirmations(fields) }
      return { type, ...told, ...(rotations === undefined ? {} : { rotations }) }
    }
  }
}

/** The bounds that a keeper grants: for each, what was asked, at most what it allows. */
export function grantedBounds(asked: QueueBounds, allowed: QueueBounds): QueueBounds {
  return {
    messagesMax: Math.min(asked.messagesMax, allowed.messagesMax),
    bytesMax: Math.min(asked.bytesMax, allowed.bytesMax),
    messagesPerPeerMax: Math.min(asked.messagesPerPeerMax, allowed.messagesPerPeerMax),
    ttlMaxMs: Math.min(asked.ttlMaxMs, allowed.ttlMaxMs)
  }
}

function boundsMembers(bounds: QueueBounds): Record<string, CborValue> {
  return { n: bounds.messagesMax, bytes: bounds.bytesMax, peer: bounds.messagesPerPeerMax, ttl: bounds.ttlMaxMs }
}

function readBounds(fields: CborFields): QueueBounds {
  const positive = { min: 1, max: Number.MAX_SAFE_INTEGER }
  return {
    messagesMax: fields.uint('n', positive),
    bytesMax: fields.uint('bytes', positive),
    messagesPerPeerMax: fields.uint('peer', positive),
    ttlMaxMs: fields.uint('ttl', positive)
  }
}

function readConfirmations(fields: CborFields): Uint8Array[] {
  return fields.list('confs', { max: NAMES_MAX }, bytesItem('mailbox.confs', CONFIRMATION_BYTES_MAX))
}

function readRotations(fields: CborFields): Uint8Array[] | undefined {
  return fields.optional('rots', (name) => fields.list(name, { max: ROTATIONS_MAX }, bytesItem('mailbox.rots', ROTATION_BYTES_MAX)))
}

function readIds(fields: CborFields, name: string): ObjectId[] {
  const item = bytesItem(`mailbox.${name}`, OBJECT_ID_BYTES)
  return fields.list(name, { max: NAMES_MAX }, (value) => objectId(item(value)))
}

function bytesItem(field: string, max: number): (item: CborValue) => Uint8Array {
  return (item) => {
    if (!(item instanceof Uint8Array) || item.length === 0 || item.length > max) {
      throw new ProtocolError('FIELD_INVALID', `${field} holds something else than 1 to ${max} bytes`, { field })
    }
    return item
  }
}

import { CborFields, type CborValue, decodeCbor, encodeCbor } from '../cbor.ts'
import { ProtocolError } from '../errors.ts'

/** The channel of a session that carries friend requests and their answers: messages of kind 0x02, both directions (protocol/README.md §9, Friends). */
export const FRIEND_CHANNEL = 5
export const FRIEND_MESSAGE_BYTES_MAX = 2_048
export const FRIEND_ID_BYTES = 16
export const FRIEND_NAME_BYTES_MAX = 64
export const FRIEND_NOTE_BYTES_MAX = 512
const GRANT_ID = /^[0-9a-f]{16}$/
const CREDENTIAL = /^rkg_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$/
/** No control or format characters, no line breaks: what a stranger writes is shown to a person. */
const PRINTABLE = /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]*$/u

/** What a grant may allow. */
export const GRANT_VERBS = ['send', 'read', 'cancel', 'push'] as const
export type GrantVerb = (typeof GRANT_VERBS)[number]

/**
 * `pending`: a person decides; `busy`: nothing was taken, come again later; `ended`: what was approved holds no more.
 */
export const FRIEND_STATES = ['pending', 'busy', 'denied', 'approved', 'ended'] as const
export type FriendState = (typeof FRIEND_STATES)[number]

export interface FriendRequest {
  readonly type: 'request'
  /** chosen by who asks, 16 bytes; its answers repeat it */
  readonly id: Uint8Array
  /** who asks, in its own words */
  readonly name: string
  readonly note: string
  /** what it asks for; the owner may give less */
  readonly verbs: readonly GrantVerb[]
}

/** What was vended. */
export interface FriendGrant {
  /** 16 hex digits */
  readonly id: string
  readonly verbs: readonly GrantVerb[]
  /** Unix ms */
  readonly untilMs: number
  /** for HTTP; only the first time that it is told */
  readonly credential?: string
}

export type FriendAnswer =
  | { readonly type: 'answer'; readonly id: Uint8Array; readonly state: Exclude<FriendState, 'approved'> }
  | { readonly type: 'answer'; readonly id: Uint8Array; readonly state: 'approved'; readonly grant: FriendGrant }

export type FriendMessage = FriendRequest | FriendAnswer

/** CBOR map, closed: `{v, t, id, …}`. */
export function encodeFriendMessage(message: FriendMessage): Uint8Array {
  const head = { v: 1, t: message.type, id: message.id }
  if (message.type === 'request') return encodeCbor({ ...head, name: message.name, note: message.note, verbs: [...message.verbs] })
  if (message.state !== 'approved') return encodeCbor({ ...head, state: message.state })
  const { id, verbs, untilMs, credential } = message.grant
  return encodeCbor({
    ...head,
    state: message.state,
    grant: { id, verbs: [...verbs], until: untilMs, ...(credential === undefined ? {} : { credential }) }
  })
}

/** @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_MISSING`, `FIELD_INVALID`, `FIELD_UNKNOWN` */
export function decodeFriendMessage(bytes: Uint8Array): FriendMessage {
  if (bytes.length > FRIEND_MESSAGE_BYTES_MAX) {
    throw new ProtocolError('TOO_LARGE', `a friend message is at most ${FRIEND_MESSAGE_BYTES_MAX} bytes, not ${bytes.length}`)
  }
  const fields = new CborFields(decodeCbor(bytes), 'friend')
  fields.uint('v', { min: 1, max: 1 })
  const type = fields.oneOf('t', ['request', 'answer'])
  const id = fields.bytes('id', { length: FRIEND_ID_BYTES })
  const message: FriendMessage = type === 'request' ? readRequest(fields, id) : readAnswer(fields, id)
  fields.end()
  return message
}

function readRequest(fields: CborFields, id: Uint8Array): FriendRequest {
  return {
    type: 'request',
    id,
    name: fields.text('name', { bytesMax: FRIEND_NAME_BYTES_MAX, pattern: PRINTABLE }),
    note: fields.text('note', { bytesMax: FRIEND_NOTE_BYTES_MAX, pattern: PRINTABLE }),
    verbs: readVerbs(fields, 'friend.verbs')
  }
}

function readAnswer(fields: CborFields, id: Uint8Array): FriendAnswer {
  const state = fields.oneOf('state', FRIEND_STATES)
  if (state !== 'approved') return { type: 'answer', id, state }
  const given = fields.map('grant')
  const credential = given.optional('credential', (name) => given.text(name, { bytesMax: 64, pattern: CREDENTIAL }))
  const grant: FriendGrant = {
    id: given.text('id', { bytesMax: 16, pattern: GRANT_ID }),
    verbs: readVerbs(given, 'friend.grant.verbs'),
    untilMs: given.uint('until'),
    ...(credential === undefined ? {} : { credential })
  }
  given.end()
  return { type: 'answer', id, state, grant }
}

/** In the order of {@link GRANT_VERBS}, each once. */
function readVerbs(fields: CborFields, field: string): GrantVerb[] {
  const verbs = fields.list('verbs', { min: 1, max: GRANT_VERBS.length }, (item: CborValue) => GRANT_VERBS.find((verb) => verb === item))
  const places = verbs.map((verb) => (verb === undefined ? -1 : GRANT_VERBS.indexOf(verb)))
  if (places.some((place, at) => place < 0 || place <= (places[at - 1] ?? -1))) {
    throw new ProtocolError('FIELD_INVALID', `${field} is no list of verbs in their order, each once`, { field })
  }
  return verbs as GrantVerb[]
}

/** Whether a text may go into a request. */
export function isFriendText(text: string, bytesMax: number): boolean {
  return PRINTABLE.test(text) && new TextEncoder().encode(text).length <= bytesMax
}

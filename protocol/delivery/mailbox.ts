import { concat, equals } from '../bytes.ts'
import { CborFields, decodeCbor, encodeCbor } from '../cbor.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { QUEUE_FULL_KINDS, type QueueFullKind } from './bounds.ts'
import {
  KEEPER_ANSWERS,
  KEEPER_REQUESTS,
  type KeeperAnswer,
  type KeeperRequest,
  keeperMembers,
  readKeeperMessage
} from './keeper-messages.ts'
import { type GovernedObject, OBJECT_ID_BYTES, type ObjectId, objectId, signedPair } from './object.ts'

/** The transaction kind and the channel of a session that carry mailbox messages (protocol/README.md §6). */
export const MAILBOX_KIND = 0x03
export const MAILBOX_CHANNEL = 2
/** One item of a session. */
export const MAILBOX_MESSAGE_BYTES_MAX = 1_048_576
/** What a DEPOSIT adds around its object, at the most. */
export const DEPOSIT_OVERHEAD_BYTES = 64
/** The largest object that a DEPOSIT can carry. */
export const DEPOSIT_OBJECT_BYTES_MAX = MAILBOX_MESSAGE_BYTES_MAX - DEPOSIT_OVERHEAD_BYTES
export const RECEIPT_BYTES_MAX = 512
const REQUEST_MAX = 0xffffffff

/** `invalid` comes with the ProtocolErrorCode that the object failed with; `store-failed` says that nothing was kept. */
export const MAILBOX_REFUSALS = ['asleep_queue_full', 'not-keeping', 'expired', 'too-large', 'conflict', 'invalid', 'store-failed'] as const
export type MailboxRefusalCode = (typeof MAILBOX_REFUSALS)[number]

export interface MailboxRefusal {
  code: MailboxRefusalCode
  /** with `asleep_queue_full` */
  kind?: QueueFullKind | undefined
  /** with `invalid`: the ProtocolErrorCode */
  reason?: string | undefined
  /** the refuser's clock, Unix ms: a hint for a warning about skew, never a time to act on (G-10) */
  nowMs: number
}

/** Numbers of requests are the depositor's own, u32; answers repeat them. */
export type MailboxMessage =
  | { type: 'deposit'; request: number; object: Uint8Array }
  | { type: 'receipt'; request: number; receipt: Uint8Array }
  | ({ type: 'refusal'; request: number } & MailboxRefusal)
  | ((KeeperRequest | KeeperAnswer) & { request: number })

const TYPES = ['deposit', 'receipt', 'refusal', ...KEEPER_REQUESTS, ...KEEPER_ANSWERS] as const

/** CBOR map, closed: `{v, t, req, …}`. */
export function encodeMailboxMessage(message: MailboxMessage): Uint8Array {
  const head = { v: 1, t: message.type, req: message.request }
  switch (message.type) {
    case 'deposit':
      return encodeCbor({ ...head, object: message.object })
    case 'receipt':
      return encodeCbor({ ...head, receipt: message.receipt })
    case 'refusal':
      return encodeCbor({ ...head, code: message.code, kind: message.kind, reason: message.reason, now: message.nowMs })
    default:
      return encodeCbor({ ...head, ...keeperMembers(message) })
  }
}

/** @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_MISSING`, `FIELD_INVALID`, `FIELD_UNKNOWN` */
export function decodeMailboxMessage(bytes: Uint8Array): MailboxMessage {
  if (bytes.length > MAILBOX_MESSAGE_BYTES_MAX) {
    throw new ProtocolError('TOO_LARGE', `a mailbox message is at most ${MAILBOX_MESSAGE_BYTES_MAX} bytes, not ${bytes.length}`)
  }
  const fields = new CborFields(decodeCbor(bytes), 'mailbox')
  fields.uint('v', { min: 1, max: 1 })
  const type = fields.oneOf('t', TYPES)
  const request = fields.uint('req', { max: REQUEST_MAX })
  const message = readBody(fields, type, request)
  fields.end()
  return message
}

function readBody(fields: CborFields, type: MailboxMessage['type'], request: number): MailboxMessage {
  switch (type) {
    case 'deposit':
      return { type, request, object: fields.bytes('object', { min: 1, max: MAILBOX_MESSAGE_BYTES_MAX }) }
    case 'receipt':
      return { type, request, receipt: fields.bytes('receipt', { min: 1, max: RECEIPT_BYTES_MAX }) }
    case 'refusal': {
      const code = fields.oneOf('code', MAILBOX_REFUSALS)
      const kind = fields.optional('kind', (name) => fields.oneOf(name, QUEUE_FULL_KINDS))
      const reason = fields.optional('reason', (name) => fields.text(name, { bytesMax: 64, pattern: /^[A-Z0-9_]+$/ }))
      if ((code === 'asleep_queue_full') !== (kind !== undefined)) {
        throw new ProtocolError('FIELD_INVALID', 'mailbox.kind belongs to asleep_queue_full, and to it alone', { field: 'mailbox.kind' })
      }
      return {
        type,
        request,
        code,
        ...(kind !== undefined ? { kind } : {}),
        ...(reason !== undefined ? { reason } : {}),
        nowMs: fields.uint('now')
      }
    }
    default:
      return { ...readKeeperMessage(fields, type), request }
  }
}

/** What a keeper promises: it holds the object of this hash until then, or has handed it to its audience. */
export interface Receipt {
  /** H(object), 32 bytes */
  objectHash: Uint8Array
  id: ObjectId
  issuer: Eid
  audience: Eid
  storedUntilMs: number
}

/**
 * CBOR `[payload, sig]`, payload CBOR `{v, hash, id, iss, aud, until}`, sig by the keeper over `rookery/v1/receipt` ‖ 0x00 ‖ payload.
 * The same facts give the same bytes.
 */
export function signReceipt(keeper: Signer, receipt: Receipt): Uint8Array {
  const payload = encodeCbor({
    v: 1,
    hash: receipt.objectHash,
    id: receipt.id,
    iss: receipt.issuer,
    aud: receipt.audience,
    until: receipt.storedUntilMs
  })
  return encodeCbor([payload, keeper.sign(concat([context('receipt'), payload]))])
}

/**
 * Decodes a receipt and checks that `keeper` signed it; with `deposited`, that it is for that object.
 * @throws ProtocolError `TOO_LARGE`, CBOR and field codes, `SIGNATURE_INVALID`, `OBJECT_CONFLICT` (a receipt for something else)
 */
export function verifyReceipt(
  crypto: CryptoProvider,
  bytes: Uint8Array,
  { keeper, deposited }: { keeper: Eid; deposited?: { object: GovernedObject; bytes: Uint8Array } }
): Receipt {
  if (bytes.length > RECEIPT_BYTES_MAX) throw new ProtocolError('TOO_LARGE', `a receipt is at most ${RECEIPT_BYTES_MAX} bytes`)
  const [payload, signature] = signedPair(decodeCbor(bytes), 'receipt')
  const fields = new CborFields(decodeCbor(payload), 'receipt')
  fields.uint('v', { min: 1, max: 1 })
  const receipt: Receipt = {
    objectHash: fields.bytes('hash', { length: 32 }),
    id: objectId(fields.bytes('id', { length: OBJECT_ID_BYTES })),
    issuer: eid(fields.bytes('iss', { length: 32 })),
    audience: eid(fields.bytes('aud', { length: 32 })),
    storedUntilMs: fields.uint('until')
  }
  fields.end()
  if (!crypto.ed25519.verify(keeper, concat([context('receipt'), payload]), signature)) {
    throw new ProtocolError('SIGNATURE_INVALID', 'the receipt is not signed by the keeper', { field: 'receipt.sig' })
  }
  if (deposited !== undefined) {
    const same =
      equals(receipt.objectHash, crypto.sha256(deposited.bytes)) &&
      equals(receipt.id, deposited.object.id) &&
      equals(receipt.issuer, deposited.object.issuer) &&
      equals(receipt.audience, deposited.object.audience)
    if (!same) throw new ProtocolError('OBJECT_CONFLICT', 'the receipt is for another object', { field: 'receipt.hash' })
  }
  return receipt
}

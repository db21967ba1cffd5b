import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { fromHex, toHex } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import { QUEUE_FULL_KINDS } from './bounds.ts'
import {
  DEPOSIT_OBJECT_BYTES_MAX,
  decodeMailboxMessage,
  encodeMailboxMessage,
  MAILBOX_MESSAGE_BYTES_MAX,
  MAILBOX_REFUSALS,
  type MailboxMessage,
  signReceipt,
  verifyReceipt
} from './mailbox.ts'
import { decodeObject } from './object.ts'

interface Row {
  id: string
  req: string
  note: string
  hex: string
  keys?: { keeperSeed: string }
  decoded?: Record<string, unknown>
  error?: string
  receipt?: Record<string, string> & { storedUntilMs: number }
  receiptError?: string
}
const rows = JSON.parse(readFileSync(new URL('../vectors/mailbox.json', import.meta.url), 'utf8')) as Row[]
const first = rows[0]
if (first?.keys === undefined) throw new Error('the vector file starts with its keys')
const object = fromHex(first.hex)
const seed = fromHex(first.keys.keeperSeed)
const signer = { publicKey: nodeCrypto.ed25519.publicKey(seed), sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
const check = { keeper: eid(signer.publicKey), deposited: { object: decodeObject(object), bytes: object } }

const inHex = (value: object) =>
  Object.fromEntries(Object.entries(value).map(([name, member]) => [name, member instanceof Uint8Array ? toHex(member) : member]))

const arbRequest = fc.integer({ min: 0, max: 0xffffffff })
const arbMessage: fc.Arbitrary<MailboxMessage> = fc.oneof(
  fc.record({ type: fc.constant('deposit' as const), request: arbRequest, object: fc.uint8Array({ minLength: 1, maxLength: 200 }) }),
  fc.record({ type: fc.constant('receipt' as const), request: arbRequest, receipt: fc.uint8Array({ minLength: 1, maxLength: 200 }) }),
  fc.record({
    type: fc.constant('refusal' as const),
    request: arbRequest,
    code: fc.constant('asleep_queue_full' as const),
    kind: fc.constantFrom(...QUEUE_FULL_KINDS),
    nowMs: fc.nat()
  }),
  fc.record({
    type: fc.constant('refusal' as const),
    request: arbRequest,
    code: fc.constantFrom(...MAILBOX_REFUSALS.filter((code) => code !== 'asleep_queue_full')),
    nowMs: fc.nat()
  })
)

describe('mailbox messages', () => {
  for (const row of rows.slice(1)) {
    it(`[${row.req}] vector ${row.id}: ${row.note}`, () => {
      const bytes = fromHex(row.hex)
      if (row.decoded !== undefined) {
        const message = decodeMailboxMessage(bytes)
        expect(inHex(message)).toEqual(row.decoded)
        expect(toHex(encodeMailboxMessage(message))).toBe(row.hex)
      } else if (row.receipt !== undefined) {
        const receipt = verifyReceipt(nodeCrypto, bytes, check)
        expect(inHex(receipt)).toEqual(row.receipt)
        expect(toHex(signReceipt(signer, receipt))).toBe(row.hex)
      } else {
        const read = () => (row.error === undefined ? verifyReceipt(nodeCrypto, bytes, check) : decodeMailboxMessage(bytes))
        expect(read).toThrow(expect.objectContaining({ name: 'ProtocolError', code: row.error ?? row.receiptError }))
      }
    })
  }

  it('[OD-14] gives back every message it encoded', () => {
    fc.assert(
      fc.property(arbMessage, (message) => {
        expect(decodeMailboxMessage(encodeMailboxMessage(message))).toEqual(message)
      })
    )
  })

  it('[OD-22] meets arbitrary bytes, as message or receipt, with a ProtocolError and nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 1_024 }), (bytes) => {
        expect(() => decodeMailboxMessage(bytes)).toThrow(ProtocolError)
        expect(() => verifyReceipt(nodeCrypto, bytes, check)).toThrow(ProtocolError)
      }),
      { numRuns: 300 }
    )
  })

  it('[OD-14] fits the largest object into one item of a session, and refuses a longer message unread', () => {
    const largest = encodeMailboxMessage({ type: 'deposit', request: 0xffffffff, object: new Uint8Array(DEPOSIT_OBJECT_BYTES_MAX) })
    expect(largest.length).toBeLessThanOrEqual(MAILBOX_MESSAGE_BYTES_MAX)
    expect(() => decodeMailboxMessage(new Uint8Array(MAILBOX_MESSAGE_BYTES_MAX + 1))).toThrow(
      expect.objectContaining({ code: 'TOO_LARGE' })
    )
  })
})

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { judgeBounds, QUEUE_BOUNDS_DEFAULT, QUEUE_FULL_KINDS } from './bounds.ts'
import {
  OFFLINE_DELIVERY_EXTENSION_URI,
  type Refusal,
  type RefusalForm,
  readRefusal,
  refusalFormOf,
  refusalResponse,
  refusalRpcError
} from './refusals.ts'

interface Row {
  id: string
  req: string
  note: string
  refusal: Refusal
  form: RefusalForm
  decoded: { status: number; headers: Record<string, string>; text: string }
}
const rows = JSON.parse(readFileSync(new URL('../vectors/refusals.json', import.meta.url), 'utf8')) as Row[]

const FORMS: RefusalForm[] = ['plain', 'a2a', 'a2a-object', 'extension']
const arbSeconds = fc.option(fc.integer({ min: 0, max: 604_800 }), { nil: undefined })
const arbRefusal: fc.Arbitrary<Refusal> = fc.oneof(
  fc.record({ reason: fc.constant('asleep' as const), queued: fc.boolean(), retryAfterSec: arbSeconds, deposits: fc.boolean() }),
  fc.record({ reason: fc.constant('queue-full' as const), kind: fc.constantFrom(...QUEUE_FULL_KINDS), retryAfterSec: arbSeconds }),
  fc.record({ reason: fc.constant('too-large' as const), bytesMax: fc.nat() }),
  fc.record({ reason: fc.constantFrom('unauthenticated' as const, 'conflict' as const, 'expired' as const, 'store-failed' as const) })
)
const parsed = (body: unknown) => JSON.parse(JSON.stringify(body)) as Record<string, unknown>

describe('refusals', () => {
  for (const row of rows) {
    it(`[${row.req}] vector ${row.id}: ${row.note}`, () => {
      const { status, headers, body } = refusalResponse(row.refusal, row.form, 'r-1')
      expect({ status, headers, text: JSON.stringify(body) }).toEqual(row.decoded)
    })
  }

  it('[OD-17] carries in Retry-After the same number as retryAfterSec, in every form, or neither', () => {
    fc.assert(
      fc.property(arbRefusal, fc.constantFrom(...FORMS), (refusal, form) => {
        const { headers, body } = refusalResponse(refusal, form)
        const text = JSON.stringify(body)
        const named = /"retryAfterSec":"?([0-9]+)/.exec(text)?.[1]
        expect(headers['Retry-After']).toBe(named)
        expect(/"retryDelay":"([0-9]+)s"/.exec(text)?.[1] ?? named).toBe(named)
      })
    )
  })

  it('[OD-18] is application/json; charset=utf-8 in every form', () => {
    fc.assert(
      fc.property(arbRefusal, fc.constantFrom(...FORMS), (refusal, form) => {
        expect(refusalResponse(refusal, form).headers['Content-Type']).toBe('application/json; charset=utf-8')
      })
    )
  })

  it('[OD-13] [OD-44] [OD-48] says agent_asleep for asleep alone, asleep_queue_full for a full queue alone, and queued: true for nothing but a stored message', () => {
    fc.assert(
      fc.property(arbRefusal, fc.constantFrom(...FORMS), (refusal, form) => {
        const text = JSON.stringify(refusalResponse(refusal, form).body)
        expect(text.includes('agent_asleep')).toBe(refusal.reason === 'asleep')
        expect(text.includes('asleep_queue_full')).toBe(refusal.reason === 'queue-full')
        expect(/"queued":"?true/.test(text)).toBe(refusal.reason === 'asleep' && refusal.queued)
      })
    )
  })

  it('[G-04] [G-05] lets our reader get the same facts out of every form', () => {
    fc.assert(
      fc.property(arbRefusal, fc.constantFrom(...FORMS), (refusal, form) => {
        const { status, body } = refusalResponse(refusal, form)
        const read = readRefusal({ status, body: parsed(body), request: { method: 'SendMessage' } })
        if (refusal.reason === 'asleep') {
          expect(read).toEqual({
            token: 'agent_asleep',
            queued: refusal.queued,
            deposits: refusal.deposits,
            retryAfterSec: refusal.retryAfterSec,
            kind: undefined,
            evidence: 'token'
          })
        } else if (refusal.reason === 'queue-full') {
          expect(read).toMatchObject({
            token: 'asleep_queue_full',
            queued: false,
            kind: refusal.kind,
            retryAfterSec: refusal.retryAfterSec
          })
        } else expect(read).toBeUndefined()
      })
    )
  })

  it('[G-04] reads -32003 by its token or reason: a push error is none of ours, a bare code is at most a hint and never stored', () => {
    const push = { error: { code: -32_003, message: '', data: [{ '@type': 'x', reason: 'PUSH_NOTIFICATION_NOT_SUPPORTED' }] } }
    expect(readRefusal({ status: 200, body: push, request: { method: 'SendMessage' } })).toBeUndefined()
    const bare = { error: { code: -32_003, message: 'no' } }
    expect(readRefusal({ status: 200, body: bare, request: { method: 'GetTaskPushNotificationConfig' } })).toBeUndefined()
    expect(readRefusal({ status: 200, body: bare, request: { method: 'SendMessage', carriesPushConfig: true } })).toBeUndefined()
    for (const answer of [
      { status: 503, body: bare, request: { method: 'GetTaskPushNotificationConfig' } },
      { status: 200, body: bare, request: { method: 'SendMessage' } }
    ]) {
      expect(readRefusal(answer)).toMatchObject({ token: 'agent_asleep', queued: false, evidence: 'hint' })
    }
    const sdk = { code: -31_003, message: '', data: [{ '@type': 'x', reason: 'AGENT_ASLEEP', metadata: { queued: 'true' } }] }
    expect(readRefusal({ body: sdk })).toMatchObject({ token: 'agent_asleep', queued: true })
  })

  it('[G-04] reads any JSON without throwing, and believes no waiting time out of range', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (body) => {
        readRefusal({ status: 503, body })
      })
    )
    for (const retryAfterSec of [-1, 1.5, 1e12, '12x', null]) {
      expect(readRefusal({ body: { error: 'agent_asleep', queued: true, retryAfterSec } })?.retryAfterSec).toBeUndefined()
    }
  })

  it('[G-03] [G-04] picks the form by the caller: no version or 0.x plain, 1.0 and later JSON-RPC, the extension the draft’s own', () => {
    const form = (a2aVersion: string | undefined, extensions: string[] = []) => refusalFormOf({ a2aVersion, extensions })
    expect([form(undefined), form(''), form('0.3'), form('0.3.1'), form('x')]).toEqual(Array(5).fill('plain'))
    expect([form('1.0'), form('1.0.1'), form('1.2'), form(' 10.0 ')]).toEqual(Array(4).fill('a2a'))
    expect([form('1.0', [OFFLINE_DELIVERY_EXTENSION_URI]), form(undefined, ['x', OFFLINE_DELIVERY_EXTENSION_URI])]).toEqual([
      'extension',
      'extension'
    ])
  })

  it('[OD-20] gives the JSON-RPC error alone for bindings with an envelope of their own', () => {
    expect(refusalRpcError({ reason: 'asleep', queued: true, retryAfterSec: 3 }, 'extension')).toEqual({
      code: -32_003,
      message: 'asleep, try later',
      data: { error: 'agent_asleep', queued: true, retryAfterSec: 3 }
    })
  })
})

describe('bounds', () => {
  it('[OD-29] defaults to 500 messages, 2 MiB, 50 a peer, 7 days', () => {
    expect(QUEUE_BOUNDS_DEFAULT).toEqual({ messagesMax: 500, bytesMax: 2_097_152, messagesPerPeerMax: 50, ttlMaxMs: 604_800_000 })
  })

  it('[G-07] names the peer’s bound before messages, messages before bytes, bytes before what could never fit', () => {
    const bounds = { messagesMax: 2, bytesMax: 10, messagesPerPeerMax: 1 }
    const judge = (messages: number, bytes: number, peerMessages: number, size: number, objectBytesMax = 20) =>
      judgeBounds({ messages, bytes, peerMessages }, bounds, { bytes: size, objectBytesMax })
    expect(judge(2, 10, 1, 99)).toBe('peer')
    expect(judge(2, 10, 0, 99)).toBe('messages')
    expect(judge(1, 5, 0, 6)).toBe('bytes')
    expect(judge(0, 0, 0, 16)).toBe('bytes')
    expect(judge(0, 0, 0, 9, 8)).toBe('too-large')
    expect(judge(1, 5, 0, 5)).toBe('fits')
  })
})

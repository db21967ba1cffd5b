import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type ReachabilitySetting, reachabilityAt, wakeWindowOfSeed } from '../../protocol/delivery/reachability.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { bench, localAgent } from './delivery-fixtures.ts'

/** The vectors of the draft's author lie beside this repository where they are at all; they are not part of it. */
const folder = process.env.OFFLINE_DELIVERY_VECTORS ?? join(import.meta.dirname, '../../../shared/vectors/offline-delivery')
const present = existsSync(join(folder, 'manifest.json'))

interface Vector {
  id: string
  kind: string
  description: string
  config?: { mode: ReachabilitySetting['mode']; wakeSeed: string }
  now?: string
  action?: string
  caps?: Caps
  input?: { blobBase64: string; fromDid?: string; ttlMs?: number }
  inputs?: { blobBase64: string; fromDid?: string }[]
  opaqueBlobBase64?: string
  ttlMs?: number
  enqueuedAt?: string
  advancedNow?: string
  expect: Record<string, unknown>
}
interface Caps {
  maxMessages?: number
  maxTotalBytes?: number
  maxPendingPerPeer?: number
}

const vectors = !present
  ? []
  : readdirSync(folder)
      .filter((name) => /^od-[0-9]+\.json$/.test(name))
      .sort()
      .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Vector)
const base64 = (text: string) => new Uint8Array(Buffer.from(text, 'base64'))
const ofKind = (...kinds: string[]) => vectors.filter((vector) => kinds.includes(vector.kind))

const bob = localAgent('bob')
const open = (caps: Caps = {}, startMs?: number) =>
  bench(
    {
      bounds: {
        ...(caps.maxMessages !== undefined ? { messagesMax: caps.maxMessages } : {}),
        ...(caps.maxTotalBytes !== undefined ? { bytesMax: caps.maxTotalBytes } : {}),
        ...(caps.maxPendingPerPeer !== undefined ? { messagesPerPeerMax: caps.maxPendingPerPeer } : {})
      }
    },
    new ManualClock(startMs)
  )
type Bench = Awaited<ReturnType<typeof open>>
const enqueue = (b: Bench, object: Uint8Array, from = 'did:unnamed', ttlMs?: number) =>
  b.queue.enqueue({ audience: bob.eidHex, principal: from, object, kind: 'opaque', ...(ttlMs !== undefined ? { ttlMs } : {}) })

describe('the vectors of draft-chapman-a2a-offline-delivery-00', () => {
  it(`[OD-51] ${present ? 'are there, all kinds that the queue and the verdicts answer' : `are absent (${folder}): nothing of them was run`}`, () => {
    if (!present) return expect(vectors).toHaveLength(0)
    expect(ofKind('reachability-verdict')).toHaveLength(5)
    expect(ofKind('asleep-queue')).toHaveLength(6)
  })

  for (const vector of ofKind('reachability-verdict')) {
    it(`[OD-05] ${vector.id}: ${vector.description}`, () => {
      const config = vector.config as NonNullable<Vector['config']>
      const setting = { mode: config.mode, window: wakeWindowOfSeed(config.wakeSeed) }
      const answer = reachabilityAt(setting, { nowMs: Date.parse(vector.now as string), attached: true })
      expect(answer.state === 'accepts').toBe(vector.expect.accept)
      if (answer.state === 'asleep' && vector.expect.retryAfterSecMin !== undefined) {
        expect(answer.retryAfterSec).toBeGreaterThanOrEqual(vector.expect.retryAfterSecMin as number)
        expect(answer.retryAfterSec).toBeLessThanOrEqual(3_600)
      }
    })
  }

  for (const vector of ofKind('asleep-queue')) {
    it(`[OD-24] [OD-27] ${vector.id}: ${vector.description}`, async () => {
      const b = await open(vector.caps, vector.enqueuedAt === undefined ? undefined : Date.parse(vector.enqueuedAt))
      const inputs = vector.inputs ?? [vector.input as NonNullable<Vector['input']>]
      const answers = []
      for (const input of inputs) answers.push(await enqueue(b, base64(input.blobBase64), input.fromDid, vector.input?.ttlMs))
      const count = async (over = b) => (await over.queue.list(bob.eidHex)).length
      const { expect: expected } = vector
      if (expected.listCount !== undefined) expect(await count()).toBe(expected.listCount)
      if (expected.listCountAfterReopen !== undefined) expect(await count(await b.restart())).toBe(expected.listCountAfterReopen)
      if (expected.firstAccepted !== undefined) expect(answers[0]?.status === 'queued').toBe(expected.firstAccepted)
      if (expected.secondKind !== undefined) expect(answers[1]).toEqual({ status: 'full', kind: expected.secondKind })
      if (expected.rejectKind !== undefined) expect(answers[0]).toEqual({ status: 'full', kind: expected.rejectKind })
      if (expected.listCountBefore !== undefined) {
        expect(await count()).toBe(expected.listCountBefore)
        b.clock.advance(Date.parse(vector.advancedNow as string) - Date.parse(vector.enqueuedAt as string))
        expect(await b.queue.sweep()).toBe(expected.purged)
        expect(await count()).toBe(expected.listCountAfter)
      }
    })
  }

  for (const vector of ofKind('asleep-dequeue').filter((one) => one.opaqueBlobBase64 !== undefined)) {
    it(`[OD-38] [OD-39] ${vector.id}: ${vector.description}`, async () => {
      const b = await open({}, vector.enqueuedAt === undefined ? undefined : Date.parse(vector.enqueuedAt))
      await enqueue(b, base64(vector.opaqueBlobBase64 as string), 'did:a', vector.ttlMs)
      const report = await b.drain.drain(bob)
      expect(report.waiting).toBeGreaterThanOrEqual(vector.expect.deferredMin as number)
      expect(report.accepted).toBe(0)
      expect(await b.queue.list(bob.eidHex)).toHaveLength(1)
      if (vector.advancedNow === undefined) return
      b.clock.advance(Date.parse(vector.advancedNow) - Date.parse(vector.enqueuedAt as string))
      await b.queue.sweep()
      expect(await b.queue.list(bob.eidHex)).toHaveLength(vector.expect.listCountAfterPurge as number)
    })
  }
})

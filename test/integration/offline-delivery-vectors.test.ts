import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { fromHex } from '../../protocol/bytes.ts'
import { offlineDeliveryExtension, readOfflineDeliveryExtension } from '../../protocol/delivery/card-extension.ts'
import type { ReachabilityMode } from '../../protocol/delivery/modes.ts'
import { OBJECT_LIFE_MAX_MS, objectId, PURPOSE_A2A_MESSAGE, sealObject } from '../../protocol/delivery/object.ts'
import { wakeWindowOfSeed } from '../../protocol/delivery/reachability.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { startA2aNode, TEST_BOUNDS, type TestAgent, tempDir, testAgent } from '../support/a2a-fixture.ts'
import { bench, crypto, localAgent, principalOf, requestOf } from '../unit/delivery-fixtures.ts'

/**
 * The vectors of the draft's author against the real HTTP server and the real queue. They lie beside this repository where they are at all, and are not
 * part of it: OFFLINE_DELIVERY_VECTORS names another folder. Their queue, verdicts and opaque blobs: test/unit/delivery-author-vectors.test.ts.
 */
const folder = process.env.OFFLINE_DELIVERY_VECTORS ?? join(import.meta.dirname, '../../../shared/vectors/offline-delivery')
const present = existsSync(join(folder, 'manifest.json'))
// biome-ignore lint/suspicious/noExplicitAny: data of others, of as many shapes as kinds
type Vector = any
const read = (name: string): Vector => JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'))
const all: Vector[] = present ? read('manifest').vectors.map(({ id }: { id: string }) => read(id)) : []
const ofKind = (kind: string) => all.filter((vector) => vector.kind === kind)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

describe('the vectors of draft-chapman-a2a-offline-delivery-00', () => {
  it(`[OD-51] ${present ? 'are there, all 34' : `are absent (${folder}): nothing of them was run`}`, () => {
    if (!present) return expect(all).toEqual([])
    expect(all).toHaveLength(34)
    const { byKind } = read('manifest').counts
    for (const [kind, count] of Object.entries(byKind)) expect([kind, ofKind(kind).length]).toEqual([kind, count])
  })

  for (const vector of ofKind('asleep-http-response')) {
    it(`[OD-14] [OD-15] [OD-51] ${vector.id} over HTTP: ${vector.description}`, async () => {
      const dir = tempDir()
      cleanups.push(() => dir.dispose())
      const callers = new Map<string, TestAgent>()
      const callerOf = (did: string) => callers.get(did) ?? callers.set(did, testAgent(callers.size + 1)).get(did)
      const requests = vector.requests ?? [vector.request]
      for (const { atomCallerDid } of requests) if (atomCallerDid !== undefined) callerOf(atomCallerDid)
      const { mode, wakeSeed } = vector.config
      const sleeper = testAgent(9, { mode, ...(mode === 'hourly_wake' ? { window: wakeWindowOfSeed(wakeSeed) } : {}) })
      const { maxMessages, maxTotalBytes, maxPendingPerPeer } = vector.queueCaps ?? {}
      const node = await startA2aNode({
        dir: dir.path,
        agents: [...callers.values(), sleeper],
        clock: new ManualClock(Date.parse(vector.now)),
        bounds: {
          ...TEST_BOUNDS,
          ...(maxMessages === undefined ? {} : { messagesMax: maxMessages }),
          ...(maxTotalBytes === undefined ? {} : { bytesMax: maxTotalBytes }),
          ...(maxPendingPerPeer === undefined ? {} : { messagesPerPeerMax: maxPendingPerPeer })
        }
      })
      cleanups.push(() => node.stop())
      const url = `${node.edge.url}/agents/${sleeper.did}`
      const queued = () => node.queue.list(sleeper.eidHex)
      const wanted = vector.requests === undefined ? [vector.expect] : [vector.expect.first, vector.expect.second]
      for (const [at, request] of requests.entries()) {
        const before = (await queued()).length
        const token = request.atomCallerDid === undefined ? undefined : callerOf(request.atomCallerDid)?.token
        const headers = { 'Content-Type': 'application/json', ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }) }
        const isGet = request.method === 'GET'
        // What may be read of a sleeping agent without a JSON-RPC body is its card.
        const response = await fetch(isGet ? `${url}/.well-known/agent-card.json` : url, {
          method: request.method,
          headers,
          ...(isGet ? {} : { body: request.body })
        })
        const body = (await response.json()) as Record<string, unknown>
        const { statusCode, enqueued, passThrough, retryAfterHeader, retryAfterSecMin, fromDid, ...members } = wanted[at]
        expect(response.status).toBe(statusCode)
        if (passThrough === true) expect(body.error).not.toBe('agent_asleep')
        else expect(body).toMatchObject(members)
        if (enqueued !== undefined) expect((await queued()).length - before).toBe(enqueued ? 1 : 0)
        if (members.queued === true) expect((await queued()).length - before).toBe(1)
        if (retryAfterHeader === true) expect(response.headers.get('retry-after')).toBe(String(body.retryAfterSec))
        if (retryAfterSecMin !== undefined) expect(body.retryAfterSec).toBeGreaterThanOrEqual(retryAfterSecMin)
        if (fromDid !== undefined) expect((await queued()).at(-1)?.principal).toBe(`eid:${callerOf(fromDid)?.eidHex}`)
      }
    })
  }

  /** The author's objects are JSON of another profile: each becomes a governed object of ours with the same name, times and fault. */
  const governed = async (vector: Vector, alice: ReturnType<typeof localAgent>, bob: ReturnType<typeof localAgent>) => {
    const { id, issuedAt, governance } = vector.body.params.message.parts[0].object
    const issuedAtMs = Date.parse(issuedAt)
    return await sealObject(crypto, {
      signer: alice.signer,
      audience: bob.eid,
      mailboxKey: bob.mailboxKey,
      id: objectId(fromHex(id.replaceAll('-', ''))),
      purpose: PURPOSE_A2A_MESSAGE,
      issuedAtMs,
      expiresAtMs: issuedAtMs + Math.min(governance.ttlSeconds * 1_000, OBJECT_LIFE_MAX_MS),
      plaintext: requestOf(id),
      ephemeralSecret: crypto.sha256(Buffer.from(id))
    })
  }
  const dequeued = [...ofKind('asleep-dequeue'), ...ofKind('asleep-dequeue-sequence'), ...ofKind('asleep-dequeue-restart')].filter(
    ({ body }) => body !== undefined
  )
  for (const vector of dequeued) {
    it(`[OD-33] [OD-35] [OD-36] [OD-51] ${vector.id}: ${vector.description}`, async () => {
      const [alice, bob] = [localAgent('alice'), localAgent('bob')]
      const clock = new ManualClock(Date.parse(vector.body.params.message.parts[0].object.issuedAt))
      let b = await bench({}, clock)
      const object = await governed(vector, alice, bob)
      const enqueue = () => b.queue.enqueue({ audience: bob.eidHex, principal: principalOf(alice), object })
      const queued = async () => (await b.queue.list(bob.eidHex)).length
      const { expect: expected } = vector
      if (vector.description.startsWith('Tampered')) {
        // The last byte that the signature covers lies before it and its head of two bytes.
        const at = object.length - 67
        object[at] = (object[at] as number) ^ 1
        await expect(enqueue()).rejects.toMatchObject({ code: 'SIGNATURE_INVALID' })
        expect((await b.drain.drain(bob)).accepted).toBe(expected.accepted)
        return expect(await queued()).toBe(0)
      }
      expect(await enqueue()).toMatchObject({ status: 'queued' })
      clock.advance(Date.parse(vector.wakeNow) - clock.nowMs())
      const first = await b.drain.drain(bob)
      if (expected.rejectedMin !== undefined) expect(first).toMatchObject({ accepted: expected.accepted, discarded: expected.rejectedMin })
      else expect(first.accepted).toBe(expected.acceptedMin ?? expected.firstAcceptedMin)
      if (expected.secondRejectedMin !== undefined) {
        if (vector.kind === 'asleep-dequeue-restart') b = await b.restart()
        expect(await enqueue()).toMatchObject({ status: 'queued' })
        const second = await b.drain.drain(bob)
        expect(second).toMatchObject({ accepted: 0, discarded: expected.secondRejectedMin, events: [{ outcome: 'replayed' }] })
      }
      expect(await queued()).toBe(0)
    })
  }

  for (const vector of ofKind('agent-card-extension')) {
    it(`[OD-12] [OD-51] ${vector.id}: ${vector.description}`, () => {
      expect(readOfflineDeliveryExtension(vector.extension) !== undefined).toBe(vector.expect.schemaOk)
    })
  }

  for (const vector of ofKind('agent-card-build')) {
    it(`[OD-12] [OD-51] ${vector.id}: ${vector.description}`, async () => {
      for (const { offlineDeliveryMode, expectExtension, expectMode } of vector.cases) {
        const mode = (offlineDeliveryMode ?? 'always_on') as ReachabilityMode
        const dir = tempDir()
        const agent = testAgent(9, { mode })
        const node = await startA2aNode({ dir: dir.path, agents: [agent] })
        const card = await (await fetch(`${node.edge.url}/agents/${agent.did}/.well-known/agent-card.json`)).json()
        const found = (card as Vector).capabilities.extensions.filter(
          ({ uri }: { uri: string }) => uri === read('card-od-001').extension.uri
        )
        expect(found.length === 1).toBe(expectExtension)
        if (expectExtension)
          expect([readOfflineDeliveryExtension(found[0]), offlineDeliveryExtension(mode)?.params.mode]).toEqual([expectMode, expectMode])
        await node.stop()
        dir.dispose()
      }
    })
  }
})

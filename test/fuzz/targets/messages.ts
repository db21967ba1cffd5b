import { concat } from '../../../protocol/bytes.ts'
import { verifyConfirmation } from '../../../protocol/delivery/confirmation.ts'
import { decodeMailboxMessage, encodeMailboxMessage, verifyReceipt } from '../../../protocol/delivery/mailbox.ts'
import { decodeObject, type GovernedObject, verifyObject } from '../../../protocol/delivery/object.ts'
import { readRefusal } from '../../../protocol/delivery/refusals.ts'
import { Admission } from '../../../protocol/discovery/admission.ts'
import { decodeAnswer, encodeAnswer, verifyAnswer, verifySpaceAnswer } from '../../../protocol/discovery/answer.ts'
import { decodeCriteria, encodeCriteria, meetsCriteria } from '../../../protocol/discovery/criteria.ts'
import { parseDhtKey } from '../../../protocol/discovery/dht-key.ts'
import { dsId, gpCoordinate } from '../../../protocol/discovery/names.ts'
import { decodePointMessage, encodePointMessage } from '../../../protocol/discovery/point-messages.ts'
import {
  decodeKeysResponse,
  decodeListResponse,
  decodePutResponse,
  decodeRegistryRequest,
  encodeKeysResponse,
  encodeListResponse,
  encodePutResponse,
  encodeRegistryRequest
} from '../../../protocol/discovery/registry-messages.ts'
import { decodeRequestHeader, encodeRequestHeader, REQUEST_HEADER_BYTES } from '../../../protocol/discovery/request.ts'
import { decodeResponseHead } from '../../../protocol/discovery/response.ts'
import { requestSeed, workSeed } from '../../../protocol/discovery/work.ts'
import { decodeFriendMessage, encodeFriendMessage } from '../../../protocol/grants/friend-messages.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { mutateCbor } from '../engine/mutate-cbor.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { json, vectorBytes } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { fuzzSigner, recordSeeds } from './record-seeds.ts'
import { codec, mustBe, mustEqual, NOW_MS, refusedOr, trusting } from './support.ts'

const AGENT = fuzzSigner(1).publicKey

interface Form {
  readonly decode: (bytes: Uint8Array) => unknown
  readonly encode: (value: never) => Uint8Array
}
const form = <T>(decode: (bytes: Uint8Array) => T, encode: (value: T) => Uint8Array): Form => ({ decode, encode })

/** Messages of one kind of conversation: each decoder takes the bytes, and what it takes has one encoding. */
function conversation(name: string, vectors: readonly string[], forms: readonly Form[], words: readonly string[] = []): FuzzTarget {
  return codec({
    name,
    vectors,
    words,
    decode(bytes) {
      for (const { decode, encode } of forms) {
        const value = refusedOr(() => decode(bytes))
        if (value !== undefined) mustEqual(encode(value as never), bytes, 'a message has one encoding')
      }
    }
  })
}

const registry = conversation(
  'registry',
  ['registry'],
  [
    form(decodeRegistryRequest, encodeRegistryRequest),
    form(decodePutResponse, encodePutResponse),
    form(decodeListResponse, encodeListResponse),
    form(decodeKeysResponse, encodeKeysResponse)
  ],
  ['verb', 'set', 'key', 'record', 'cursor', 'limit', 'tags', 'curator', 'pow', 'pows', 'next', 'bits', 'held', 'need-work', 'stale']
)

const small = conversation(
  'friends-and-points',
  ['friend', 'discovery-req'],
  [form(decodeFriendMessage, encodeFriendMessage), form(decodePointMessage, encodePointMessage), form(decodeCriteria, encodeCriteria)],
  ['t', 'id', 'grant', 'verbs', 'until', 'credential', 'state', 'approved', 'type', 'request', 'tag', 'value', 'status', 'minReputation']
)

const mailbox: FuzzTarget = {
  name: 'mailbox',
  bytesMax: 8_192,
  mutators: [
    mutateCbor(['deposit', 'receipt', 'refusal', 'object', 'reason', 'kind', 'keep', 'page', 'ask', 'told', 'names', 'rotations'])
  ],
  seeds: () => vectorBytes(['mailbox', 'governed-object']).filter(({ length }) => length > 32 && length <= 8_192),
  run(bytes) {
    const message = refusedOr(() => decodeMailboxMessage(bytes))
    if (message !== undefined) mustEqual(encodeMailboxMessage(message), bytes, 'a mailbox message has one encoding')
    const object = refusedOr(() => decodeObject(bytes))
    if (object !== undefined) {
      refusedOr(() => verifyObject(trusting, object, { nowMs: object.issuedAtMs, audience: object.audience }))
      refusedOr(() => verifyObject(nodeCrypto, object, { nowMs: NOW_MS, audience: AGENT }))
    }
    refusedOr(() => verifyConfirmation(trusting, bytes, { isAudience: () => true }))
    refusedOr(() => verifyReceipt(trusting, bytes, { keeper: AGENT, deposited: SENT }))
  }
}

/** A good object, for receipts to be about. */
const SENT = vectorBytes(['governed-object']).flatMap((bytes) => {
  const object = refusedOr(() => decodeObject(bytes))
  return object === undefined ? [] : [{ object, bytes }]
})[0] as { object: GovernedObject; bytes: Uint8Array }

/** A body of JSON after a first line with its HTTP status. */
const refusals: FuzzTarget = {
  name: 'refusals',
  bytesMax: 4_096,
  mutators: [
    mutateJson(
      ['agent_asleep', 'asleep_queue_full', 'retryAfterSec', 'queued', 'AGENT_ASLEEP', '@type', 'details', 'data', 'deposit'],
      'line'
    )
  ],
  seeds: () =>
    [
      { error: 'agent_asleep', queued: true, retryAfterSec: 5 },
      { jsonrpc: '2.0', id: 1, error: { code: -32_003, message: 'x', data: [{ reason: 'AGENT_ASLEEP', metadata: { queued: 'true' } }] } },
      { code: 14, details: [{ reason: 'ASLEEP_QUEUE_FULL', metadata: { kind: 'items' } }] }
    ].map((body) => concat([Buffer.from('503\n'), json(body)])),
  run(bytes) {
    const split = bytes.indexOf(10) + 1
    let body: unknown
    try {
      body = JSON.parse(new TextDecoder().decode(bytes.subarray(split)))
    } catch {
      return
    }
    const status = Number.parseInt(new TextDecoder().decode(bytes.subarray(0, split)), 10)
    const read = readRefusal({ body, ...(Number.isInteger(status) ? { status } : {}) })
    readRefusal({ body, request: { method: 'CreateTaskPushNotificationConfig' } })
    if (read?.retryAfterSec !== undefined) mustBe(read.retryAfterSec >= 0 && read.retryAfterSec <= 366 * 86_400, 'a wait has a bound')
  }
}

/** A request's header and criteria, judged by a node that took one before; an answer's head and content. */
const discovery: FuzzTarget = {
  name: 'discovery',
  bytesMax: 4_096,
  mutators: [mutateCbor(['eid', 'sig', 'join', 'gp', 'locator', 'announce'])],
  seeds: () => [
    ...vectorBytes(['discovery-req', 'discovery-res']),
    ...vectorBytes(['discovery-item']).filter(({ length }) => length < 3_000),
    ...recordSeeds().map(({ kind, bytes }) => encodeAnswer({ responder: { eid: AGENT, signature: new Uint8Array(64) }, [kind]: bytes })),
    ...recordSeeds().map(({ kind, bytes }) => encodeAnswer({ [kind]: bytes }))
  ],
  run(bytes) {
    refusedOr(() => parseDhtKey(bytes))
    refusedOr(() => decodeResponseHead(bytes.subarray(0, 4)))
    const criteria = refusedOr(() => decodeCriteria(bytes))
    if (criteria !== undefined) meetsCriteria({ tags: ['a'], reputation: 50 }, criteria)
    answered(bytes)
    const header = bytes.subarray(0, REQUEST_HEADER_BYTES)
    const request = refusedOr(() => decodeRequestHeader(header))
    if (request === undefined) return
    mustEqual(encodeRequestHeader(request), header, 'a request header has one encoding')
    const admission = new Admission({ capacity: 2, replaysMax: 2 })
    const judged = admission.judge(header, request.timestampMs)
    mustBe(judged.kind !== 'faulty', 'a header that is read has no fault')
    mustBe(admission.enter(header, request.timestampMs).kind === 'entered', 'the first request enters')
    mustBe(admission.enter(header, request.timestampMs).kind === 'known', 'the same request does not enter twice')
  }
}

function answered(bytes: Uint8Array): void {
  const answer = refusedOr(() => decodeAnswer(bytes))
  if (answer === undefined) return
  mustEqual(encodeAnswer(answer), bytes, 'an answer has one encoding')
  const seed = workSeed(new Uint8Array(32))
  for (const target of TARGETS) {
    if (answer.announce !== undefined) {
      const { announce } = answer
      refusedOr(() => verifySpaceAnswer(trusting, announce, { target, nowMs: NOW_MS }))
    } else refusedOr(() => verifyAnswer(trusting, answer, { seed, target, nowMs: NOW_MS }))
  }
  refusedOr(() => requestSeed(new Uint8Array(REQUEST_HEADER_BYTES)))
}

const TARGETS = [dsId(nodeCrypto, { ns: 'org.agentnet', topic: 'marketplace.energy', version: 1 }), gpCoordinate(nodeCrypto, AGENT, 'mcp')]

export const targets: readonly FuzzTarget[] = [registry, small, mailbox, refusals, discovery]

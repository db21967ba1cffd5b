import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { equals, fromHex, toHex } from '../../../protocol/bytes.ts'
import { nobleCrypto } from '../../../protocol/crypto/noble.ts'
import { ProtocolError } from '../../../protocol/errors.ts'
import { chainNext, noHead, transactionDigest } from '../../../protocol/session/chain.ts'
import { CHECKPOINT_BYTES, verifyCheckpoint } from '../../../protocol/session/checkpoint.ts'
import { cookie } from '../../../protocol/session/cookie.ts'
import { FRAME } from '../../../protocol/session/header.ts'
import { encodeItems, type Item, isTransaction, readItems } from '../../../protocol/session/items.ts'
import { decodeReady, encodeReady, type Ready } from '../../../protocol/session/ready.ts'
import { type RecordCounters, readRecord, sealRecord } from '../../../protocol/session/record.ts'
import { checkFinal, decodeTeardown, encodeTeardown } from '../../../protocol/session/teardown.ts'
import { generationOf, ReceiveKeys, recordNonce } from '../../../protocol/session/traffic-keys.ts'
import { decodeWindow, encodeWindow } from '../../../protocol/session/window.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'

interface Row<Decoded, Given = undefined> {
  id: string
  req: string[]
  note: string
  given: Given
  hex: string
  decoded?: Decoded
  error?: string
}

function rows<Decoded, Given = undefined>(name: string): Row<Decoded, Given>[] {
  return JSON.parse(readFileSync(new URL(`../../../protocol/vectors/${name}.json`, import.meta.url), 'utf8'))
}

const title = ({ req, id, note }: { req: string[]; id: string; note: string }) => `${req.map((one) => `[${one}]`).join(' ')} ${id}: ${note}`

/** One test a row: the decoded value, or the code of the refusal. */
function holds<Decoded, Given>(name: string, decode: (bytes: Uint8Array, row: Row<Decoded, Given>) => Decoded): void {
  describe(`vectors of ${name}`, () => {
    for (const row of rows<Decoded, Given>(name)) {
      it(title(row), () => {
        if (row.error === undefined) expect(decode(fromHex(row.hex), row)).toEqual(row.decoded)
        else expect(() => decode(fromHex(row.hex), row)).toThrow(expect.objectContaining({ name: 'ProtocolError', code: row.error }))
      })
    }
  })
}

interface ItemRow {
  kind: number
  channel: number
  prev?: string
  payload: string
}
const itemRow = ({ kind, channel, prev, payload }: Item): ItemRow => ({
  kind,
  channel,
  ...(prev === undefined ? {} : { prev: prev.toString() }),
  payload: toHex(payload)
})

holds<ItemRow[], undefined>('pss-items', (bytes) => {
  const items = readItems(bytes)
  expect(toHex(encodeItems(items))).toBe(toHex(bytes))
  return items.map(itemRow)
})

interface RecordGiven {
  key: string
  iv: string
  chain: string
  iCookie: string
  rCookie: string
}
interface RecordDecoded {
  type: string
  finAck: boolean
  rec: string
  seq: string
  ack: string
  hash: string
  items: ItemRow[]
  digests?: string[]
}

for (const crypto of [nodeCrypto, nobleCrypto]) {
  holds<RecordDecoded, RecordGiven>('pss-data-stream', (bytes, { given, decoded }) => {
    const cookies = { i: cookie(fromHex(given.iCookie)), r: cookie(fromHex(given.rCookie)) }
    const { type, finAck, counters, aad, sealed } = readRecord(bytes, cookies)
    const keys = new ReceiveKeys(crypto, { key: fromHex(given.key), iv: fromHex(given.iv) }).for(generationOf(counters.rec))
    const nonce = recordNonce(keys?.iv ?? new Uint8Array(12), counters.rec)
    const plaintext = keys?.aead.open(nonce, aad, sealed)
    if (keys === undefined || plaintext === undefined) throw new ProtocolError('AEAD_OPEN', 'does not open')
    const items = readItems(plaintext)
    expect(toHex(sealRecord({ aead: keys.aead, nonce }, { type, flags: 0, cookies }, counters, items))).toBe(toHex(bytes))
    if (decoded?.digests !== undefined) expect(chainOf(crypto, fromHex(given.chain), counters, items)).toEqual(decoded.digests)
    return {
      type: type === FRAME.DATA_STREAM ? 'DATA_STREAM' : 'other',
      finAck,
      rec: counters.rec.toString(),
      seq: counters.seq.toString(),
      ack: counters.ack.toString(),
      hash: toHex(counters.hash),
      items: items.map(itemRow),
      ...(decoded?.digests === undefined ? {} : { digests: decoded.digests })
    }
  })
}

/** The digests of a record's transactions; the chain after them must be the record's. */
function chainOf(crypto: typeof nodeCrypto, h0: Uint8Array, counters: RecordCounters, items: Item[]): string[] {
  let head = noHead()
  let hash = h0
  const digests: string[] = []
  for (const [i, { kind, channel, payload }] of items.entries()) {
    const seq = counters.seq + BigInt(i)
    const digest = transactionDigest(crypto, head, { seq, kind, channel, payload })
    head = { seq, digest }
    hash = chainNext(crypto, hash, digest)
    digests.push(toHex(digest))
  }
  expect(toHex(hash)).toBe(toHex(counters.hash))
  return digests
}

interface ReadyRow {
  rxSeq: string
  rxHash: string
  txSeq: string
  txHash: string
  eseLost: boolean
  heads: { channel: number; number: string; digest: string }[]
}

holds<ReadyRow, undefined>('pss-ready', (bytes) => {
  const ready = decodeReady(bytes)
  expect(toHex(encodeReady(ready))).toBe(toHex(bytes))
  return {
    rxSeq: ready.rx.seq.toString(),
    rxHash: toHex(ready.rx.hash),
    txSeq: ready.tx.seq.toString(),
    txHash: toHex(ready.tx.hash),
    eseLost: ready.eseLost,
    heads: [...ready.heads].map(([channel, { seq, digest }]) => ({ channel, number: seq.toString(), digest: toHex(digest) }))
  }
})

interface TeardownGiven {
  sid: string
  epoch: string
  direction: 0 | 1
  eid: string
  heldSeq: string
  heldHash: string
}

holds<{ reason: number; finalSeq?: string; finalHash?: string }, TeardownGiven>('pss-teardown', (bytes, { given }) => {
  const teardown = decodeTeardown(bytes)
  expect(toHex(encodeTeardown(teardown))).toBe(toHex(bytes))
  const { reason, final } = teardown
  if (final === undefined) return { reason }
  checkFinal(final, { seq: BigInt(given.heldSeq), hash: fromHex(given.heldHash) }, equals)
  const subject = { sid: fromHex(given.sid), epoch: fromHex(given.epoch), direction: given.direction, eid: fromHex(given.eid) }
  checkFinal(verifyCheckpoint(nodeCrypto, final.checkpoint, subject), final, equals)
  return { reason, finalSeq: final.seq.toString(), finalHash: toHex(final.hash) }
})

describe('properties of the stream codecs', () => {
  const u64 = fc.bigInt({ min: 0n, max: 0xffff_ffff_ffff_ffffn })
  const hash = fc.uint8Array({ minLength: 32, maxLength: 32 })

  it('[PSS-17] reads back every list of items that it writes', () => {
    const arbItems = fc.integer({ min: 0, max: 0xffff }).chain((channel) =>
      fc.array(
        fc
          .tuple(fc.integer({ min: 0, max: 255 }), u64, fc.uint8Array({ maxLength: 80 }))
          .map(([kind, prev, payload]): Item => ({ kind, channel, prev: isTransaction(kind) ? prev : undefined, payload })),
        { minLength: 1, maxLength: 20 }
      )
    )
    fc.assert(
      fc.property(arbItems, (items) => {
        expect(readItems(encodeItems(items))).toEqual(items)
      })
    )
  })

  it('reads back every READY, WINDOW and TEARDOWN that it writes', () => {
    const arbReady = fc
      .record({ rxSeq: fc.bigInt({ min: 0n, max: 1n << 62n }), rxHash: hash, txSeq: u64, txHash: hash, eseLost: fc.boolean() })
      .chain(({ rxSeq, rxHash, txSeq, txHash, eseLost }) =>
        fc
          .uniqueArray(fc.tuple(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 1, max: 4_096 }), hash), {
            selector: ([channel]) => channel,
            maxLength: 64
          })
          .map((heads): Ready => {
            const sorted = [...heads].sort(([a], [b]) => a - b)
            return {
              rx: { seq: rxSeq, hash: rxHash },
              tx: { seq: txSeq, hash: txHash },
              eseLost,
              heads: new Map(sorted.map(([channel, ahead, digest]) => [channel, { seq: rxSeq + BigInt(ahead), digest }]))
            }
          })
      )
    fc.assert(fc.property(arbReady, (ready) => void expect(decodeReady(encodeReady(ready))).toEqual(ready)))
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffff }), fc.bigInt({ min: 0n, max: BigInt(Number.MAX_SAFE_INTEGER) }), (channel, bytes) => {
        expect(decodeWindow(encodeWindow({ channel, bytes }))).toEqual({ channel, bytes })
      })
    )
    const checkpoint = fc.uint8Array({ minLength: CHECKPOINT_BYTES, maxLength: CHECKPOINT_BYTES })
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 0xffff }),
        fc.option(fc.record({ seq: u64, hash, checkpoint }), { nil: undefined }),
        (reason, final) => {
          expect(decodeTeardown(encodeTeardown({ reason, final }))).toEqual({ reason, final })
        }
      )
    )
  })

  it.each([
    ['items', readItems],
    ['READY', decodeReady],
    ['WINDOW', decodeWindow],
    ['TEARDOWN', decodeTeardown],
    [
      'checkpoint',
      (bytes: Uint8Array) =>
        verifyCheckpoint(nodeCrypto, bytes, {
          sid: bytes.slice(0, 16),
          epoch: bytes.slice(16, 48),
          direction: 0,
          eid: bytes.slice(89, 121)
        })
    ],
    ['record', (bytes: Uint8Array) => readRecord(bytes, { i: cookie(new Uint8Array(8)), r: cookie(new Uint8Array(8)) })]
  ] as [string, (bytes: Uint8Array) => unknown][])(
    'meets arbitrary bytes as %s with a value or a ProtocolError, nothing else',
    (_name, decode) => {
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
          try {
            decode(bytes)
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError)
          }
        }),
        { numRuns: 300 }
      )
    }
  )
})

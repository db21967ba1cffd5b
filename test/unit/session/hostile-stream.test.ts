import { describe, expect, it } from 'vitest'
import { Writer } from '../../../protocol/bytes.ts'
import type { ChainPoint } from '../../../protocol/session/chain.ts'
import { signCheckpoint } from '../../../protocol/session/checkpoint.ts'
import {
  CHECKPOINT_MS,
  CHECKPOINT_TRANSACTIONS,
  CHECKPOINTS_AT_ONCE_MAX,
  CHECKPOINTS_HELD_MAX,
  CheckpointExchange
} from '../../../protocol/session/checkpoint-exchange.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { ReceiveSide } from '../../../protocol/session/receive-side.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { establishedOf, fixed, type Side, StreamPair, seedA, seedB, signerOf, text } from './stream-pair.ts'

const closedOf = (side: Side) => side.effects.flatMap((effect) => (effect.kind === 'closed' ? [effect.close] : []))
const { sid, epoch, localEid } = establishedOf('responder')

/** Of b's direction, as only its key can sign it. */
function checkpointOfB(point: ChainPoint): Uint8Array {
  return signCheckpoint({ sid, epoch, direction: 1, eid: localEid }, point, signerOf(seedB))
}

function told(pair: StreamPair, ...payloads: Uint8Array[]): void {
  for (const payload of payloads) {
    pair.b.stream.queue(0, ITEM_KINDS.checkpoint, payload, '')
    pair.run()
  }
}

/** Bytes of the control records that wait for `side` to pull them. */
function controlBytes(side: Side): number {
  let bytes = 0
  for (let frame = side.stream.next(0, 0); frame !== undefined; frame = side.stream.next(0, 0)) bytes += frame.bytes.length
  return bytes
}

describe('a peer that does not read what it asks for', () => {
  it('[PSS-11] [F059] is owed one pong, however many pings it sends', () => {
    const pair = new StreamPair().opened()
    for (let i = 0; i < 5_000; i++) {
      pair.b.stream.queue(0, ITEM_KINDS.ping, new Writer(8).u64(BigInt(i)).finish(), '')
      pair.b.flush()
      pair.deliver(pair.b, 0)
      pair.a.stream.channels(0) // what every pump asks, though the last write still waits
    }
    expect(controlBytes(pair.a)).toBeLessThan(300)
  })

  it('[PSS-11] [F059] is owed one window a channel, however often that grows', () => {
    const receive = new ReceiveSide(nodeCrypto, { seq: 0n, hash: fixed(1) })
    for (let i = 0; i < 400; i++) {
      receive.accept({ seq: 0n, hash: fixed(0) }, [
        { kind: ITEM_KINDS.live, channel: 1 + (i % 4), prev: undefined, payload: fixed(0, 900_000) }
      ])
      receive.handled(1 + (i % 4), 900_000)
    }
    const grants = receive.takeGrants()
    expect(grants.map(({ channel }) => channel).sort()).toEqual([1, 2, 3, 4])
    expect(grants.every(({ bytes }) => bytes > 90_000_000n)).toBe(true)
    expect(receive.takeGrants()).toEqual([])
  })
})

describe('a peer that makes us check signatures', () => {
  const hash = (i: number) => fixed(i + 1)

  it('[TRM-05] may send 16 checkpoints at once; the 17th is a VIOLATION, and is not verified', () => {
    const pair = new StreamPair().opened()
    told(pair, ...Array.from({ length: CHECKPOINTS_AT_ONCE_MAX }, (_, i) => checkpointOfB({ seq: BigInt(i + 1), hash: hash(i) })))
    expect(closedOf(pair.a)).toEqual([])
    told(pair, fixed(0, 185))
    expect(closedOf(pair.a)).toMatchObject([{ reason: 'violation', error: { code: 'RANGE', field: 'checkpoint' } }])
  })

  it('[TRM-05] may send them again at twice the pace of an honest one, by time and by transactions', () => {
    const exchange = new CheckpointExchange(
      { crypto: nodeCrypto, signer: signerOf(seedA), established: establishedOf('initiator'), nowMs: 0 },
      0,
      0n
    )
    const one = checkpointOfB({ seq: 1n, hash: hash(1) })
    const taken = (run: bigint, nowMs: number) => {
      for (let count = 0; ; count++) {
        try {
          exchange.verify(one, run, nowMs)
        } catch (error) {
          expect(error).toMatchObject({ code: 'RANGE' })
          return count
        }
      }
    }
    expect(taken(0n, 1_000_000)).toBe(CHECKPOINTS_AT_ONCE_MAX) // no more are saved up, however long it was silent
    expect(taken(0n, 1_000_000 + CHECKPOINT_MS)).toBe(3)
    expect(taken(BigInt(3 * CHECKPOINT_TRANSACTIONS), 1_000_000 + CHECKPOINT_MS)).toBe(6)
  })
})

describe('two chains for one number', () => {
  it('[TRM-05] [TRM-07] are a proof also where other checkpoints came between them, with the time of the first', () => {
    const pair = new StreamPair().opened()
    const first = checkpointOfB({ seq: 5n, hash: fixed(1) })
    const second = checkpointOfB({ seq: 5n, hash: fixed(2) })
    pair.nowMs = 7
    told(pair, first)
    pair.nowMs = 9
    told(pair, ...Array.from({ length: 10 }, (_, i) => checkpointOfB({ seq: BigInt(i + 6), hash: fixed(i + 6) })), second)
    expect(closedOf(pair.a)).toMatchObject([{ error: { code: 'HASH_MISMATCH' }, conflict: { a: first, b: second, firstSeenMs: 7 } }])
  })

  it('[TRM-05] are forgotten beyond the newest 16 numbers: what is kept is bounded', () => {
    const pair = new StreamPair().opened()
    told(pair, checkpointOfB({ seq: 5n, hash: fixed(1) }))
    for (let i = 0; i < CHECKPOINTS_HELD_MAX; i++) {
      pair.nowMs += 10_000
      told(pair, checkpointOfB({ seq: BigInt(i + 6), hash: fixed(i + 6) }))
    }
    pair.nowMs += 10_000
    told(pair, checkpointOfB({ seq: 5n, hash: fixed(2) }))
    expect(closedOf(pair.a)).toMatchObject([{ error: { code: 'HASH_MISMATCH' } }]) // the run's own claim still differs,
    expect(closedOf(pair.a)[0]?.conflict).toBeUndefined() // which is not signed
  })
})

describe('what is handed over of a large record', () => {
  it('[PSS-17] [F059] keeps no more of it alive than the window counts for it', () => {
    const receive = new ReceiveSide(nodeCrypto, { seq: 0n, hash: fixed(1) })
    const plaintext = new Uint8Array(60_000)
    const [live] = receive.accept({ seq: 0n, hash: fixed(0) }, [
      { kind: 0xf0, channel: 1, prev: undefined, payload: plaintext.subarray(0, 59_000) }, // ignored, and counted nowhere
      { kind: ITEM_KINDS.live, channel: 1, prev: undefined, payload: plaintext.subarray(59_000, 59_010) }
    ])
    expect(live?.payload).toHaveLength(10)
    expect(live?.payload.buffer.byteLength).toBe(10)
  })

  it('[PSS-17] is a view of it where that is all there was: nothing is copied for an honest peer', () => {
    const receive = new ReceiveSide(nodeCrypto, { seq: 0n, hash: fixed(1) })
    const plaintext = new Uint8Array(60_000)
    const items = [0, 30_000].map((at) => ({
      kind: ITEM_KINDS.live,
      channel: 1,
      prev: undefined,
      payload: plaintext.subarray(at, at + 29_900)
    }))
    for (const { payload } of receive.accept({ seq: 0n, hash: fixed(0) }, items)) expect(payload.buffer).toBe(plaintext.buffer)
  })
})

describe('a number beyond 2^63', () => {
  it('[PSS-18] [F076] is refused before it is kept, as it could wrap on disk', () => {
    const receive = new ReceiveSide(nodeCrypto, { seq: 2n ** 64n - 2n, hash: fixed(1) })
    const item = { kind: ITEM_KINDS.a2a, channel: 1, prev: 0n, payload: text('x') }
    expect(() => receive.accept({ seq: 2n ** 64n - 1n, hash: fixed(2) }, [item])).toThrow(
      expect.objectContaining({ code: 'SEQUENCE', field: 'seq', message: expect.stringContaining('2^63') })
    )
  })
})

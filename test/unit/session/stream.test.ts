import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toHex } from '../../../protocol/bytes.ts'
import { ProtocolError } from '../../../protocol/errors.ts'
import { FRAME } from '../../../protocol/session/header.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { Journal } from '../../../protocol/session/journal.ts'
import { NO_HASH, RECORD_CLEAR_BYTES, sealRecord } from '../../../protocol/session/record.ts'
import { inFlightBytesMax, SendSide, UNACKED_MAX } from '../../../protocol/session/send-side.ts'
import { SessionStream } from '../../../protocol/session/stream.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { establishedOf, type Side, StreamPair, seedA, signerOf, text } from './stream-pair.ts'

const A2A = ITEM_KINDS.a2a

describe('an established session', () => {
  it('[PSS-17] sends everything after the handshake as PSS_DATA_STREAM, and refuses any other frame', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.queue(1, A2A, text('hello'), 'hello')
    pair.a.flush()
    const frame = pair.a.wire.get(1)?.[0] as Uint8Array
    expect(frame[1]).toBe(FRAME.DATA_STREAM)
    const close = Uint8Array.from([...frame.subarray(0, 24), 0, 1])
    close[1] = FRAME.CLOSE
    close.set([0, 0, 0, 2], 4)
    expect(() => pair.b.stream.receive(1, close, 0)).toThrow(expect.objectContaining({ code: 'FRAME_TYPE' }))
  })

  it('[PSS-17] sends READY first and nothing else until both are there', () => {
    const pair = new StreamPair()
    pair.a.stream.queue(1, A2A, text('early'), 'early')
    pair.a.flush()
    expect(pair.a.wire.get(0)).toHaveLength(1)
    expect(pair.a.wire.has(1)).toBe(false)
    pair.run()
    expect(pair.b.delivered.map((one) => one.text)).toEqual(['early'])
    expect(pair.a.effects[0]).toMatchObject({ kind: 'ready', resent: 1, snapshot: 'none' })
  })

  it.each([
    ['is cut short', new Uint8Array(81)],
    ['names an unknown flag', new Uint8Array(82).fill(0xff)]
  ])('[PSS-17] a READY that %s is a violation, not a divergence', (_, payload) => {
    const pair = new StreamPair()
    const frame = sealRecord(
      { aead: nodeCrypto.aead.keyed(establishedOf('initiator').keys.i2r.key), nonce: establishedOf('initiator').keys.i2r.iv },
      { type: FRAME.DATA_STREAM, flags: 0, cookies: establishedOf('initiator').cookies },
      { rec: 0n, seq: 0n, ack: 0n, hash: NO_HASH },
      [{ kind: ITEM_KINDS.ready, channel: 0, prev: undefined, payload }]
    )
    const effects = pair.b.stream.receive(0, frame, 0)
    expect(effects).toEqual([{ kind: 'closed', close: expect.objectContaining({ reason: 'violation', by: 'local' }) }])
  })

  it('[PSS-18] gives every record of a stream a higher number, and drops and counts one that repeats or is lower', () => {
    const pair = new StreamPair().opened()
    const frames: Uint8Array[] = []
    for (const word of ['one', 'two', 'three']) {
      pair.a.stream.queue(1, A2A, text(word), word)
      pair.a.flush()
      frames.push(...(pair.a.wire.get(1) as Uint8Array[]).splice(0))
    }
    const numbers = frames.map((frame) => new DataView(frame.buffer, frame.byteOffset).getBigUint64(24))
    expect(numbers).toEqual([...numbers].sort((x, y) => (x < y ? -1 : 1)))
    expect(new Set(numbers).size).toBe(3)
    const [one, two, three] = frames as [Uint8Array, Uint8Array, Uint8Array]
    for (const frame of [one, two, two, one, three, three]) pair.b.take(pair.b.stream.receive(1, frame, 0))
    expect(pair.b.delivered.map((item) => item.text)).toEqual(['one', 'two', 'three'])
    expect(pair.b.stream.recordsDropped).toBe(3)
  })

  it('[D-15] authenticates the header and all counters: no byte of a record can be changed', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.queue(1, A2A, text('exact'), 'exact')
    pair.a.flush()
    const frame = pair.a.wire.get(1)?.[0] as Uint8Array
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const flipped = frame.slice()
      flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7))
      expect(() => pair.b.stream.receive(1, flipped, 0)).toThrow(ProtocolError)
    }
    expect(pair.b.delivered).toEqual([])
    pair.b.take(pair.b.stream.receive(1, frame, 0))
    expect(pair.b.delivered).toHaveLength(1)
    expect(frame.length).toBe(RECORD_CLEAR_BYTES + 15 + 5 + 16)
  })

  it('[PSS-19] [D-16] both sides hold the same 32-byte rolling hash at every acknowledgment', () => {
    const pair = new StreamPair().opened()
    for (let i = 0; i < 50; i++) {
      pair.a.stream.queue(1 + (i % 3), A2A, text(`item ${i}`), `${i}`)
      if (i % 7 === 0) pair.run()
    }
    pair.run()
    expect(pair.a.acked.length).toBeGreaterThan(3)
    for (const { seq, hash } of pair.a.acked) expect(pair.b.rxHashes.get(seq)).toBe(hash)
    expect(toHex(pair.b.stream.rx.hash)).toBe(toHex(pair.a.stream.tx.hash))
    expect(pair.b.stream.rx.seq).toBe(50n)
    expect(pair.b.stream.rx.hash).toHaveLength(32)
  })

  it('[PSS-20] a lost frame of one channel delays no other channel; later ones are handed up first', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.queue(1, A2A, text('held up'), '1')
    pair.a.flush()
    pair.a.stream.queue(2, A2A, text('goes past'), '2')
    pair.a.flush()
    expect(pair.deliver(pair.a, 2)).toBe(true)
    expect(pair.b.delivered.map((one) => [one.seq, one.text])).toEqual([[2n, 'goes past']])
    expect(pair.b.stream.rxSynced).toBe(0n) // acks are cumulative: 1 is missing
    expect(pair.b.stream.rx.seq).toBe(0n)
    pair.run()
    expect(pair.b.delivered.map((one) => one.text)).toEqual(['goes past', 'held up'])
    expect(pair.a.stream.txAcked.seq).toBe(2n)
  })

  it('acknowledges only transactions whose effect is synced, cumulatively', () => {
    const pair = new StreamPair().opened()
    pair.b.syncs = 'never'
    for (const word of ['1', '2', '3']) pair.a.stream.queue(1, A2A, text(word), word)
    pair.run()
    pair.b.stream.synced(2n)
    pair.b.stream.synced(3n)
    pair.run()
    expect(pair.a.ackedTags).toEqual([])
    pair.b.stream.synced(1n)
    pair.run()
    expect(pair.a.ackedTags).toEqual(['1', '2', '3'])
  })

  it('waits for the window: the sender stops at 1 MiB and goes on as the receiver handles what came', () => {
    const pair = new StreamPair().opened()
    pair.b.syncs = 'never'
    const chunk = new Uint8Array(256 * 1024)
    for (let i = 0; i < 8; i++) pair.a.stream.queue(1, A2A, chunk, `${i}`)
    pair.run()
    expect(pair.b.delivered).toHaveLength(4)
    expect(pair.b.stream.waitingBytes(1)).toBe(1_048_576)
    for (const { seq, channel, bytes } of pair.b.unsynced.splice(0)) {
      pair.b.stream.synced(seq)
      pair.b.stream.handled(channel, bytes)
    }
    pair.run()
    expect(pair.b.delivered).toHaveLength(8)
  })

  it('takes an item of 1 MiB at any time once what came before it was handled', () => {
    const pair = new StreamPair().opened()
    for (const bytes of [400_000, 1_048_576, 1, 1_048_576, 700_000, 1_048_576]) {
      pair.a.stream.queue(1, ITEM_KINDS.live, new Uint8Array(bytes), 'live')
    }
    pair.run()
    expect(pair.b.delivered).toHaveLength(6)
  })

  it('counts an empty item, so that nobody can pile up empty ones for nothing', () => {
    const pair = new StreamPair().opened()
    pair.b.syncs = 'never'
    for (let i = 0; i < 5_000; i++) pair.a.stream.queue(1, ITEM_KINDS.live, new Uint8Array(0), '')
    pair.run()
    expect(pair.b.delivered).toHaveLength(4_096)
  })

  it(`keeps at most ${UNACKED_MAX} transactions beyond the acknowledgment`, () => {
    const pair = new StreamPair().opened()
    pair.b.syncs = 'never'
    for (let channel = 1; channel <= 2; channel++) {
      for (let i = 0; i < 3_000; i++) pair.a.stream.queue(channel, A2A, text('x'), 'x')
    }
    pair.run()
    expect(pair.b.stream.rx.seq).toBe(BigInt(UNACKED_MAX))
  })

  it('numbers and acknowledges a transaction of an unknown kind without effect, reports it, and ignores unknown kinds from 0x80', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.queue(1, 0x7f, text('future'), 'future')
    pair.a.stream.queue(1, 0xfe, text('future'), 'control')
    pair.a.stream.queue(1, A2A, text('known'), 'known')
    pair.run()
    expect(pair.b.effects).toContainEqual(expect.objectContaining({ kind: 'unknown', itemKind: 0x7f, seq: 1n }))
    expect(pair.b.delivered.map((one) => one.text)).toEqual(['known'])
    expect(pair.b.stream.itemsIgnored).toBe(1)
    expect(pair.a.ackedTags).toEqual(['future', 'known'])
  })

  it('[PSS-03] hands a live item over as it arrives, unnumbered and outside the chain', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.queue(1, ITEM_KINDS.live, text('now'), 'now')
    pair.a.flush()
    pair.deliver(pair.a, 1)
    expect(pair.b.delivered).toEqual([{ channel: 1, kind: ITEM_KINDS.live, seq: undefined, text: 'now' }])
    expect(pair.a.stream.tx.seq).toBe(0n)
  })

  it('[PSS-19] signs its chain every 1,024 transactions and after 30 s while active; the peer checks and keeps the newest', () => {
    const pair = new StreamPair().opened()
    for (let i = 0; i < 1_030; i++) pair.a.stream.queue(1, A2A, text('x'), 'x')
    pair.run()
    const first = pair.b.stream.peerCheckpoint as Uint8Array
    expect(first).toHaveLength(185)
    pair.a.stream.queue(1, A2A, text('x'), 'x')
    pair.run()
    expect(pair.b.stream.peerCheckpoint).toEqual(first)
    pair.nowMs += 30_000
    pair.a.stream.queue(1, A2A, text('x'), 'x')
    pair.run()
    expect(new DataView((pair.b.stream.peerCheckpoint as Uint8Array).buffer).getBigUint64(49)).toBe(1_031n)
    expect(pair.b.stream.phase).toBe('open')
  })

  it("[PSS-19] signs under the first handshake's direction in a later epoch too, whoever opened that one", () => {
    const start = (hash: number) => ({ seq: 7n, hash: new Uint8Array(32).fill(hash) })
    const pair = new StreamPair({
      counters: { a: { direction: 1, tx: start(1), rx: start(2) }, b: { direction: 0, tx: start(2), rx: start(1) } }
    }).opened()
    pair.a.stream.queue(1, A2A, text('x'), 'x')
    pair.run()
    pair.tick(30_000)
    pair.run()
    const checkpoint = pair.b.stream.peerCheckpoint
    expect(checkpoint?.[48]).toBe(1) // sid 16, epoch 32, then the direction
    expect(pair.a.stream.counters().direction).toBe(1)
    pair.b.stream.close('done', pair.nowMs)
    pair.run()
    expect([pair.a.stream.phase, pair.b.stream.phase]).toEqual(['closed', 'closed'])
    expect(pair.a.stream.peerCheckpoint?.[48]).toBe(0)
  })

  it('holds the window of a channel that was not used yet, for 64 of them, and refuses one that lowers it', () => {
    const side = new SendSide<string>(new Journal(nodeCrypto, { seq: 0n, hash: NO_HASH }))
    for (let channel = 0; channel < 64; channel++) side.grant(channel, 2_097_152)
    expect(() => side.grant(64, 2_097_152)).toThrow(expect.objectContaining({ code: 'RANGE', field: 'channel' }))
    expect(() => side.grant(3, 2_097_151)).toThrow(expect.objectContaining({ code: 'WINDOW' }))
    side.queue(3, ITEM_KINDS.live, new Uint8Array(1_048_576), 'first')
    side.queue(3, ITEM_KINDS.live, new Uint8Array(1_048_576), 'second')
    side.queue(3, ITEM_KINDS.live, new Uint8Array(0), 'beyond')
    expect([side.pack(3)?.items.length, side.pack(3)?.items.length, side.pack(3)]).toEqual([1, 1, undefined])
    side.grant(64, 2_097_152) // channel 3 is used now, so there is room again
  })

  it('[PSS-07] lets out no more than a share of what the connection carries before it is acknowledged, one item alone where it is larger', () => {
    expect([undefined, 131_072, 1_000].map(inFlightBytesMax)).toEqual([undefined, 16_384, 4_096])
    const side = new SendSide<string>(new Journal(nodeCrypto, { seq: 0n, hash: NO_HASH }), { inFlightBytesMax: 4_096 })
    side.begin([])
    for (const bytes of [1_500, 1_500, 1_500, 9_000, 10]) side.queue(3, A2A, new Uint8Array(bytes), `${bytes}`)
    side.queue(4, ITEM_KINDS.live, new Uint8Array(9_000), 'live')
    const sizes = () => side.pack(3)?.items.map(({ payload }) => payload.length)
    expect([...side.ready()]).toEqual([3, 4])
    expect(sizes()).toEqual([1_500, 1_500])
    expect([...side.ready()]).toEqual([4]) // nothing will acknowledge what is live: its windows bound it
    side.ack(1n)
    expect([sizes(), sizes()]).toEqual([[1_500], undefined])
    side.ack(3n)
    expect([sizes(), sizes()]).toEqual([[9_000], undefined])
    side.ack(4n)
    expect(sizes()).toEqual([10])
  })

  it('refuses channel 65', () => {
    const pair = new StreamPair().opened()
    for (let channel = 0; channel < 64; channel++) pair.a.stream.queue(channel, A2A, text('x'), 'x')
    expect(() => pair.a.stream.queue(64, A2A, text('x'), 'x')).toThrow(expect.objectContaining({ code: 'RANGE' }))
  })

  it.each([4_294_967_294n, 9_007_199_254_740_990n])(
    '[F076] counters beyond %s neither wrap nor round, also into the next epoch',
    (seed) => {
      const start = (hash: number) => ({ seq: seed, hash: new Uint8Array(32).fill(hash) })
      const counters = { a: { direction: 0, tx: start(1), rx: start(2) }, b: { direction: 1, tx: start(2), rx: start(1) } } as const
      const first = new StreamPair({ counters }).opened()
      const exchange = (pair: StreamPair, from: number) => {
        for (let i = from; i < from + 5; i++) {
          pair.a.stream.queue(1, A2A, text(`a${i}`), `a${i}`)
          pair.b.stream.queue(1, A2A, text(`b${i}`), `b${i}`)
          pair.run()
        }
      }
      exchange(first, 0)
      const second = new StreamPair({ counters: { a: first.a.stream.counters(), b: first.b.stream.counters() }, salt: 1 }).opened()
      exchange(second, 5)
      const all = [...first.b.delivered, ...second.b.delivered]
      expect(all.map((one) => one.text)).toEqual(Array.from({ length: 10 }, (_, i) => `a${i}`))
      expect(all.map((one) => one.seq)).toEqual(Array.from({ length: 10 }, (_, i) => seed + BigInt(i + 1)))
      expect([...first.a.ackedTags, ...second.a.ackedTags]).toHaveLength(10)
      expect(second.a.stream.tx.seq).toBe(seed + 10n)
      expect(second.b.stream.duplicates).toBe(0)
    }
  )

  it('rekeys by records and bytes and age without losing anything, whatever order the streams arrive in', () => {
    const pair = new StreamPair({ rekey: { recordsMax: 4, bytesMax: 4_000, ageMsMax: 1_000 } }).opened()
    for (let i = 0; i < 40; i++) {
      pair.a.stream.queue(1 + (i % 3), A2A, text(`item ${i}`), `${i}`)
      pair.a.flush(pair.nowMs)
      if (i === 2 || i % 5 === 4) pair.run()
    }
    pair.run()
    expect(pair.a.stream.generation).toBeGreaterThan(8)
    expect(pair.b.delivered).toHaveLength(40)
    const before = pair.a.stream.generation
    pair.nowMs += 1_000
    pair.a.stream.queue(1, A2A, text('aged'), 'aged')
    pair.run()
    expect(pair.a.stream.generation).toBeGreaterThan(before)
    expect(pair.b.delivered).toHaveLength(41)
  })

  it("[PSS-18] leaves no copy of the first generation's secrets behind: the handshake's are overwritten once the stream has its own", () => {
    const established = establishedOf('initiator')
    const { i2r, r2i } = established.keys
    new SessionStream({ crypto: nodeCrypto, established, signer: signerOf(seedA), nowMs: 0 })
    const left = [i2r, r2i].flatMap(({ key, iv, chain }) => [...key, ...iv, ...chain])
    expect(left).toHaveLength(152)
    expect(left.every((byte) => byte === 0)).toBe(true)
  })

  it('asks a quiet peer, and ends the epoch when nothing comes back', () => {
    const pair = new StreamPair().opened()
    expect(pair.a.stream.wakeAtMs).toBe(15_000)
    pair.tick(15_000)
    pair.run()
    expect(pair.a.stream.wakeAtMs).toBe(30_000)
    pair.nowMs = 30_000
    pair.a.take(pair.a.stream.tick(30_000))
    pair.a.flush(30_000)
    const frames = pair.a.wire.get(0) as Uint8Array[]
    expect(frames).toHaveLength(1) // the ping; it goes nowhere
    frames.splice(0)
    pair.a.take(pair.a.stream.tick(45_000))
    expect(pair.a.effects.at(-1)).toEqual({ kind: 'silent' })
  })
})

/** What a session promises, in a few lines: each channel's transactions, in order, exactly once. */
class Model {
  readonly sent = new Map<number, string[]>()
  send(channel: number, word: string): void {
    this.sent.set(channel, [...(this.sent.get(channel) ?? []), word])
  }
  check(side: Side, complete: (channel: number) => boolean): void {
    for (const [channel, words] of this.sent) {
      const got = side.delivered.filter((one) => one.channel === channel).map((one) => one.text)
      expect(got).toEqual(complete(channel) ? words : words.slice(0, got.length))
    }
  }
}

const arbStep = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('send' as const),
      from: fc.boolean(),
      channel: fc.integer({ min: 1, max: 4 }),
      live: fc.boolean()
    })
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('deliver' as const), from: fc.boolean(), channel: fc.integer({ min: 0, max: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('flush' as const), from: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('again' as const), from: fc.boolean(), channel: fc.integer({ min: 0, max: 4 }) }) }
)

describe('a session under disorder', () => {
  it('[PSS-06] delivers each channel in order exactly once under any interleaving and duplication, hashes equal at every ack', () => {
    fc.assert(
      fc.property(fc.array(arbStep, { maxLength: 120 }), fc.option(fc.integer({ min: 1, max: 4 })), (steps, lostChannel) => {
        const pair = new StreamPair({ rekey: { recordsMax: 40, bytesMax: 1e9, ageMsMax: 1e9 } }).opened()
        const models = { a: new Model(), b: new Model() }
        if (lostChannel !== null) pair.a.lost.add(lostChannel)
        let n = 0
        const last = new Map<string, Uint8Array>()
        for (const step of steps) {
          const from = step.from ? pair.a : pair.b
          if (step.do === 'send') {
            const word = `${n++}`
            models[step.from ? 'a' : 'b'].send(step.channel, word)
            from.stream.queue(step.channel, step.live ? ITEM_KINDS.live : A2A, text(word), word)
          } else if (step.do === 'flush') from.flush()
          else if (step.do === 'deliver') {
            const frame = from.wire.get(step.channel)?.[0]
            if (frame !== undefined) last.set(`${step.from}${step.channel}`, frame)
            pair.deliver(from, step.channel)
          } else {
            const frame = last.get(`${step.from}${step.channel}`)
            if (frame !== undefined && !from.lost.has(step.channel)) {
              pair.other(from).take(pair.other(from).stream.receive(step.channel, frame, 0))
            }
          }
        }
        pair.run()
        models.a.check(pair.b, (channel) => channel !== lostChannel)
        models.b.check(pair.a, () => true)
        for (const [sender, receiver] of [
          [pair.a, pair.b],
          [pair.b, pair.a]
        ] as const) {
          for (const { seq, hash } of sender.acked) expect(receiver.rxHashes.get(seq)).toBe(hash)
          if (sender.stream.txAcked.seq === receiver.stream.rx.seq) {
            expect(toHex(sender.stream.txAcked.hash)).toBe(toHex(receiver.stream.rx.hash))
          }
          expect(sender.effects.filter((effect) => effect.kind === 'closed')).toEqual([])
        }
      }),
      { numRuns: 150 }
    )
  })

  it('meets arbitrary bytes with a ProtocolError, nothing else', () => {
    const pair = new StreamPair().opened()
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 0, max: 3 }), (bytes, stream) => {
        expect(() => pair.b.stream.receive(stream, bytes, 0)).toThrow(ProtocolError)
      })
    )
  })
})

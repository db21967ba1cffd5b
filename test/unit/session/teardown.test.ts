import { describe, expect, it } from 'vitest'
import { equals } from '../../../protocol/bytes.ts'
import type { ChainPoint } from '../../../protocol/session/chain.ts'
import { signCheckpoint } from '../../../protocol/session/checkpoint.ts'
import { FRAME } from '../../../protocol/session/header.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { sealRecord } from '../../../protocol/session/record.ts'
import { checkFinal, encodeTeardown } from '../../../protocol/session/teardown.ts'
import { recordNonce } from '../../../protocol/session/traffic-keys.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { eidA, establishedOf, fixed, type Side, StreamPair, seedA, signerOf, text } from './stream-pair.ts'

const closedOf = (side: Side) => side.effects.flatMap((effect) => (effect.kind === 'closed' ? [effect.close] : []))
const typesOn = (side: Side) => (side.wire.get(0) ?? []).map((frame) => frame[1])

describe('closing a session', () => {
  it('[TRM-01] [PSS-10] goes to CLOSED on both sides by PSS_TEARDOWN and its FIN-ACK', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.close('done', 0)
    pair.a.flush()
    expect(typesOn(pair.a)).toEqual([FRAME.TEARDOWN])
    expect(pair.a.stream.phase).toBe('closing')
    pair.run()
    expect(closedOf(pair.a)).toEqual([{ reason: 'done', by: 'local' }])
    expect(closedOf(pair.b)).toEqual([{ reason: 'done', by: 'peer' }])
    expect(() => pair.a.stream.queue(1, ITEM_KINDS.a2a, text('late'), '')).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
  })

  it('[PSS-10] goes to CLOSED by a PSS_TEARDOWN that breaks off, on both sides, and takes nothing more', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.abort('policy')
    pair.run()
    expect(closedOf(pair.b)).toEqual([{ reason: 'policy', by: 'peer' }])
    expect([pair.a.stream.phase, pair.b.stream.phase]).toEqual(['closed', 'closed'])
    expect(() => pair.b.stream.queue(1, ITEM_KINDS.a2a, text('late'), '')).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
    expect(pair.b.stream.wakeAtMs).toBeUndefined()
  })

  it('[PSS-10] goes to CLOSED by PSS_REVOCATION, whose sender has destroyed its keys before the frame is out', () => {
    const pair = new StreamPair().opened()
    const frame = pair.a.stream.revoke(Uint8Array.of(0, 6, 1, 2, 3), 0)
    expect(frame[1]).toBe(FRAME.REVOCATION_PUBLISH)
    expect(pair.a.stream.phase).toBe('closed')
    pair.b.take(pair.b.stream.receive(0, frame, 0))
    expect(pair.b.effects).toContainEqual({ kind: 'revocation', payload: Uint8Array.of(0, 6, 1, 2, 3) })
    expect(closedOf(pair.b)).toEqual([{ reason: 'revoked', by: 'peer' }])
  })

  it('[TRM-06] seals nothing under keys that are gone: a second revocation, or one after the end, is refused', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.revoke(Uint8Array.of(0, 1, 1), 0)
    const gone = expect.objectContaining({ code: 'OUT_OF_ORDER' })
    expect(() => pair.a.stream.revoke(Uint8Array.of(0, 1, 1), 0)).toThrow(gone)
    pair.b.stream.wipe()
    expect(() => pair.b.stream.revoke(Uint8Array.of(0, 1, 1), 0)).toThrow(gone)
  })

  it('[TRM-02] flushes everything outbound first: TEARDOWN follows the last acknowledgment', () => {
    const pair = new StreamPair().opened()
    pair.b.syncs = 'never'
    for (let i = 0; i < 300; i++) pair.a.stream.queue(1 + (i % 2), ITEM_KINDS.a2a, text(`${i}`), `${i}`)
    pair.a.stream.close('done', 0)
    pair.run()
    expect(pair.b.delivered).toHaveLength(300)
    expect(pair.a.stream.phase).toBe('closing')
    expect(closedOf(pair.a)).toEqual([])
    for (const { seq } of pair.b.unsynced) pair.b.stream.synced(seq)
    pair.run()
    expect(pair.a.ackedTags).toHaveLength(300)
    expect(closedOf(pair.a)).toEqual([{ reason: 'done', by: 'local' }])
  })

  it('[TRM-03] [G-51] ends with a terminal checksum equal to what the receiver computed', () => {
    const pair = new StreamPair().opened()
    for (let i = 0; i < 10; i++) pair.a.stream.queue(1, ITEM_KINDS.a2a, text(`${i}`), `${i}`)
    pair.a.stream.close('done', 0)
    pair.run()
    expect(pair.b.stream.rx).toEqual(pair.a.stream.tx)
    expect(closedOf(pair.b)).toEqual([{ reason: 'done', by: 'peer' }])
  })

  it('[TRM-03] reports a terminal checksum that differs, and does not accept it', () => {
    const held = { seq: 5n, hash: new Uint8Array(32).fill(1) }
    expect(() => checkFinal({ ...held }, held, equals)).not.toThrow()
    expect(() => checkFinal({ ...held, seq: 6n }, held, equals)).toThrow(expect.objectContaining({ code: 'SEQUENCE' }))
    expect(() => checkFinal({ ...held, hash: new Uint8Array(32) }, held, equals)).toThrow(
      expect.objectContaining({ code: 'HASH_MISMATCH' })
    )
    // The same through the machine: A closes after B lost what A believes acknowledged (its chain starts elsewhere).
    const pair = new StreamPair({
      counters: {
        a: { direction: 0, tx: { seq: 1n, hash: new Uint8Array(32).fill(1) }, rx: { seq: 0n, hash: new Uint8Array(32).fill(9) } },
        b: { direction: 1, tx: { seq: 0n, hash: new Uint8Array(32).fill(9) }, rx: { seq: 1n, hash: new Uint8Array(32).fill(2) } }
      }
    })
    pair.run()
    expect(closedOf(pair.a)).toEqual([{ reason: 'diverged', by: 'peer' }])
    expect(closedOf(pair.b)).toEqual([
      expect.objectContaining({ reason: 'diverged', error: expect.objectContaining({ code: 'HASH_MISMATCH' }) })
    ])
  })

  it.each([
    ['another checksum', { seq: 1n, hash: new Uint8Array(32).fill(7) }, 'HASH_MISMATCH'],
    ['another number', { seq: 2n, hash: new Uint8Array(32).fill(7) }, 'SEQUENCE']
  ] as [string, ChainPoint, string][])('[TRM-03] a TEARDOWN with %s closes with VIOLATION and gets no FIN-ACK', (_what, final, code) => {
    const pair = new StreamPair().opened()
    pair.a.stream.queue(1, ITEM_KINDS.a2a, text('x'), 'x')
    pair.run()
    const { sid, epoch, cookies } = establishedOf('initiator')
    const checkpoint = signCheckpoint({ sid, epoch, direction: 0, eid: eidA }, final, signerOf(seedA))
    const payload = encodeTeardown({ reason: 0, final: { ...final, checkpoint } })
    const rec = 1_000n
    const frame = sealRecord(
      { aead: nodeCrypto.aead.keyed(fixed(0x11)), nonce: recordNonce(fixed(0x12, 12), rec) },
      { type: FRAME.TEARDOWN, flags: 0, cookies },
      { rec, seq: 0n, ack: 0n, hash: new Uint8Array(32) },
      [{ kind: ITEM_KINDS.teardown, channel: 0, prev: undefined, payload }]
    )
    pair.b.take(pair.b.stream.receive(0, frame, 0))
    expect(closedOf(pair.b)).toEqual([{ reason: 'violation', by: 'local', error: expect.objectContaining({ code }) }])
    pair.run()
    expect(closedOf(pair.a)).toEqual([{ reason: 'violation', by: 'peer' }])
  })

  it('[TRM-05] the checkpoint of a TEARDOWN that contradicts an earlier one is told as a proof, with when the earlier came', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.queue(1, ITEM_KINDS.a2a, text('x'), 'x')
    pair.run()
    const { sid, epoch, cookies } = establishedOf('initiator')
    const signed = (point: ChainPoint) => signCheckpoint({ sid, epoch, direction: 0, eid: eidA }, point, signerOf(seedA))
    const a = signed(pair.a.stream.tx)
    const final = { seq: 1n, hash: new Uint8Array(32).fill(7) }
    const b = signed(final)
    const send = (
      rec: bigint,
      type: typeof FRAME.DATA_STREAM | typeof FRAME.TEARDOWN,
      kind: number,
      payload: Uint8Array,
      nowMs: number
    ) => {
      const frame = sealRecord(
        { aead: nodeCrypto.aead.keyed(fixed(0x11)), nonce: recordNonce(fixed(0x12, 12), rec) },
        { type, flags: 0, cookies },
        { rec, seq: 0n, ack: 0n, hash: new Uint8Array(32) },
        [{ kind, channel: 0, prev: undefined, payload }]
      )
      pair.b.take(pair.b.stream.receive(0, frame, nowMs))
    }
    send(1_000n, FRAME.DATA_STREAM, ITEM_KINDS.checkpoint, a, 40)
    expect(closedOf(pair.b)).toEqual([])
    send(1_001n, FRAME.TEARDOWN, ITEM_KINDS.teardown, encodeTeardown({ reason: 0, final: { ...final, checkpoint: b } }), 90)
    expect(closedOf(pair.b)).toEqual([
      { reason: 'violation', by: 'local', error: expect.objectContaining({ code: 'HASH_MISMATCH' }), conflict: { a, b, firstSeenMs: 40 } }
    ])
  })

  it('[TRM-04] keeps its tracking state and repeats TEARDOWN with a new record number until FIN-ACK comes', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.close('done', 0)
    const records = new Set<string>()
    for (let lost = 0; lost < 2; lost++) {
      pair.a.flush(pair.nowMs)
      const frame = pair.a.wire.get(0)?.[0] as Uint8Array
      records.add(new DataView(frame.buffer, frame.byteOffset).getBigUint64(24).toString())
      pair.deliver(pair.a, 0)
      pair.b.flush(pair.nowMs)
      expect(pair.b.wire.get(0)).toHaveLength(1)
      pair.b.wire.get(0)?.splice(0) // FIN-ACK lost
      expect(pair.a.stream.phase).toBe('closing')
      pair.tick(10_000)
    }
    pair.run()
    expect(records.size).toBe(2)
    expect(closedOf(pair.a)).toEqual([{ reason: 'done', by: 'local' }])
    expect(closedOf(pair.b)).toEqual([{ reason: 'done', by: 'peer' }])
  })

  it('[TRM-04] [G-51] gives up after three TEARDOWNs in 30 s', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.close('done', 0)
    let sent = 0
    for (let second = 0; second <= 40; second++) {
      pair.a.flush(pair.nowMs)
      sent += pair.a.wire.get(0)?.splice(0).length ?? 0
      pair.nowMs += 1_000
      pair.a.take(pair.a.stream.tick(pair.nowMs))
    }
    expect(closedOf(pair.a)).toEqual([{ reason: 'unanswered', by: 'local' }])
    expect(sent).toBe(3 + 1) // and one ping into the silence
  })

  it('[G-51] two TEARDOWNs that cross acknowledge each other', () => {
    const pair = new StreamPair().opened()
    pair.a.stream.close('done', 0)
    pair.b.stream.close('shutdown', 0)
    pair.a.flush()
    pair.b.flush()
    pair.deliver(pair.a, 0)
    pair.deliver(pair.b, 0)
    expect(closedOf(pair.a)).toEqual([{ reason: 'done', by: 'local' }])
    expect(closedOf(pair.b)).toEqual([{ reason: 'shutdown', by: 'local' }])
    pair.run()
    expect(closedOf(pair.a)).toHaveLength(1)
    expect(closedOf(pair.b)).toHaveLength(1)
  })

  it('a side asked to close flushes its own first, accepts what still comes, and starts nothing new', () => {
    const pair = new StreamPair().opened()
    pair.a.syncs = 'never'
    pair.b.stream.queue(1, ITEM_KINDS.a2a, text('own'), 'own')
    pair.run()
    pair.a.stream.close('done', 0)
    pair.run()
    expect(pair.b.effects).toContainEqual({ kind: 'closing', reason: 'done' })
    expect(pair.b.stream.phase).toBe('closing')
    expect(() => pair.b.stream.queue(1, ITEM_KINDS.a2a, text('new'), '')).toThrow(expect.objectContaining({ code: 'OUT_OF_ORDER' }))
    pair.a.stream.synced(1n)
    pair.run()
    expect(pair.b.ackedTags).toEqual(['own'])
    expect(closedOf(pair.b)).toEqual([{ reason: 'done', by: 'peer' }])
    expect(closedOf(pair.a)).toEqual([{ reason: 'done', by: 'local' }])
  })

  it('a refusal is one short TEARDOWN, also before READY', () => {
    const pair = new StreamPair()
    pair.b.stream.abort('policy')
    pair.run()
    expect(closedOf(pair.a)).toEqual([{ reason: 'policy', by: 'peer' }])
    expect(pair.b.stream.next(0, 0)).toBeUndefined()
  })
})

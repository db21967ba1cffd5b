import { describe, expect, it } from 'vitest'
import { toHex } from '../../../protocol/bytes.ts'
import type { RekeyLimits } from '../../../protocol/session/traffic-keys.ts'
import { REKEY_LIMITS } from '../../../protocol/session/traffic-keys.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import { StreamPair } from '../session/stream-pair.ts'
import { Pair, settle } from './memory-net.ts'

const A2A = 0x02
const text = (value: string) => new TextEncoder().encode(value)
const NEVER: RekeyLimits = { recordsMax: 1e9, bytesMax: 1e12, ageMsMax: 1e12 }

/** A session that ran to generation 3 and was then taken up by a new exchange. */
function takenUp(rekey: Partial<RekeyLimits>): StreamPair {
  const first = new StreamPair({ rekey: { ...NEVER, recordsMax: 2 } }).opened()
  for (let i = 0; i < 6; i++) {
    first.a.stream.queue(1, A2A, text(`a${i}`), `${i}`)
    first.run()
  }
  expect(first.a.stream.generation).toBeGreaterThan(2)
  const counters = (side: StreamPair['a'], direction: 0 | 1) => ({ direction, tx: side.stream.tx, rx: side.stream.rx })
  return new StreamPair({ rekey: { ...NEVER, ...rekey }, salt: 1, counters: { a: counters(first.a, 0), b: counters(first.b, 1) } }).opened()
}

/** In steps that leave both sides time to hear each other's pings. */
async function anHour({ clock }: Pair): Promise<void> {
  for (let passed = 0; passed < REKEY_LIMITS.ageMsMax; passed += 10_000) {
    clock.advance(10_000)
    await settle()
  }
}

describe('[PSS-21] traffic keys of a session that was taken up', () => {
  it('are new ones from generation 0 on, whatever generation the connection before had reached', async () => {
    const stays = { parkAfterMs: 10 * REKEY_LIMITS.ageMsMax }
    const pair = await Pair.create({ a: stays, b: stays })
    const session = (await pair.open()) as DurableSession
    await anHour(pair)
    await session.send(1, A2A, text('one'))
    expect(session.epoch?.keyGeneration).toBe(1)
    const before = toHex(session.epoch?.established.epoch as Uint8Array)
    pair.net.cut(pair.a.host.peer, pair.b.host.peer)
    do {
      pair.clock.advance(500)
      await settle()
    } while (session.epoch?.isOpen !== true)
    expect(toHex(session.epoch.established.epoch)).not.toBe(before)
    expect(session.epoch.keyGeneration).toBe(0)
    await anHour(pair)
    await session.send(1, A2A, text('two'))
    expect(session.epoch?.keyGeneration).toBe(1)
  })

  it.each([
    ['2^20 records', { recordsMax: 3 }],
    ['1 GiB', { bytesMax: 600 }]
  ] as const)('move on by count and bytes: %s, here a smaller bound', (_what, rekey) => {
    const pair = takenUp(rekey)
    expect(pair.a.stream.generation).toBe(0)
    for (let i = 0; i < 12; i++) {
      pair.a.stream.queue(1, A2A, text(`b${i}`.padEnd(100, '.')), `${i}`)
      pair.run()
    }
    expect(pair.a.stream.generation).toBeGreaterThan(1)
    expect(pair.b.delivered).toHaveLength(12)
  })

  it('move on by time, and not before', () => {
    const pair = takenUp({ ageMsMax: 1_000 })
    pair.nowMs = 999
    pair.a.stream.queue(1, A2A, text('early'), 'early')
    pair.run()
    expect(pair.a.stream.generation).toBe(0)
    pair.nowMs = 1_000
    pair.a.stream.queue(1, A2A, text('late'), 'late')
    pair.run()
    expect(pair.a.stream.generation).toBe(1)
    expect(pair.b.delivered.map((one) => one.text)).toEqual(['early', 'late'])
  })

  it('are bounded as protocol/README.md says', () => {
    expect(REKEY_LIMITS).toEqual({ recordsMax: 2 ** 20, bytesMax: 2 ** 30, ageMsMax: 3_600_000 })
  })
})

import { describe, expect, it } from 'vitest'
import { DhtModeKeeper } from '../../src/net/dht-mode.ts'
import { isOfSameIp } from '../../src/net/dial-back.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { recordingLogger } from '../integration/host-fixture.ts'

function keeperOf(start: 'client' | 'server', answers: Record<string, boolean | undefined>, addresses: string[] = ['/ip4/8.8.8.8/tcp/1']) {
  const clock = new ManualClock()
  const logger = recordingLogger()
  const state = { mode: start, asked: [] as string[], addresses, answers }
  const keeper = new DhtModeKeeper(
    { clock, random: seededRandom(1), logger },
    {
      mode: () => state.mode,
      setMode: async (mode) => {
        state.mode = mode
      },
      addresses: () => state.addresses,
      peers: () => Object.keys(state.answers),
      ask: async (peer) => {
        state.asked.push(peer)
        return state.answers[peer]
      }
    }
  )
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 1_000) {
      clock.advance(Math.min(1_000, left))
      for (let i = 0; i < 8; i++) await Promise.resolve()
    }
  }
  return { keeper, state, pass, logger }
}

describe('client or server of the DHT, by what peers say', () => {
  it('[F040] becomes a client when two peers cannot reach it and none can, says why, and a server when one can again', async () => {
    const { keeper, state, pass, logger } = keeperOf('server', { a: false, b: false, c: undefined })
    keeper.peerArrived()
    await pass(4_000)
    expect(state.mode).toBe('client')
    expect(logger.lines).toMatchObject([
      {
        level: 'info',
        message: 'this node is a client of the DHT now',
        fields: { why: '2 peers could not reach it: behind a NAT or a firewall' }
      }
    ])
    state.answers = { a: false, b: true }
    await pass(11 * 60_000)
    expect(state.mode).toBe('client')
    await pass(5 * 60_000)
    expect(state.mode).toBe('server')
    keeper.stop()
  })

  it('is moved by no single voice that says no, nor by silence, and asks again each minute until it knows', async () => {
    const { keeper, state, pass } = keeperOf('server', { a: false, b: undefined })
    keeper.peerArrived()
    await pass(10 * 60_000)
    expect(state.mode).toBe('server')
    expect(state.asked.length).toBeGreaterThanOrEqual(18)
    state.answers = { a: false, b: false }
    await pass(60_000)
    expect(state.mode).toBe('client')
    keeper.stop()
  })

  it('becomes a client without asking anyone when it has no address to tell, and asks anew when it has one', async () => {
    const { keeper, state, pass } = keeperOf('server', { a: true }, [])
    keeper.addressesChanged()
    await pass(4_000)
    expect([state.mode, state.asked]).toEqual(['client', []])
    state.addresses = ['/ip4/8.8.4.4/tcp/1']
    keeper.addressesChanged()
    await pass(4_000)
    expect([state.mode, state.asked]).toEqual(['server', ['a']])
    keeper.stop()
  })

  it('asks at most three peers a round', async () => {
    const { keeper, state, pass } = keeperOf('server', Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`p${i}`, true])))
    keeper.peerArrived()
    await pass(4_000)
    expect(new Set(state.asked).size).toBe(3)
    expect(state.asked).toHaveLength(3)
    keeper.stop()
    await pass(60 * 60_000)
    expect(state.asked).toHaveLength(3)
  })
})

describe('a dial back', () => {
  it('[F035] goes to addresses of the IP that asks and to no other', () => {
    const seen = '/ip4/203.0.113.7/udp/50000/quic-v1'
    expect(isOfSameIp('/ip4/203.0.113.7/tcp/4711', seen)).toBe(true)
    expect(isOfSameIp('/ip4/203.0.113.7/udp/4711/quic-v1/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf', seen)).toBe(true)
    const others = [
      '/ip4/203.0.113.8/tcp/4711',
      '/ip4/10.0.0.1/tcp/1',
      '/ip6/::1/tcp/1',
      '/dns4/example.org/tcp/1',
      '/ip4/203.0.113.7/tcp/1/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf/p2p-circuit',
      'rubbish',
      ''
    ]
    for (const addr of others) expect([addr, isOfSameIp(addr, seen)]).toEqual([addr, false])
    expect(isOfSameIp('/memory/a', '/memory/a')).toBe(false)
  })
})

import { multiaddr } from '@multiformats/multiaddr'
import { describe, expect, it } from 'vitest'
import { isOfSameIp } from '../../src/net/dial-back.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import { isOneTooMany, RESERVATIONS_PER_IP_MAX } from '../../src/net/nat-services.ts'
import { type NetworkChange, NetworkWatch, WATCH_MS } from '../../src/net/network-watch.ts'
import { isOfOwnNetwork } from '../../src/net/own-networks.ts'
import { type HeldRelay, ReachabilityBook } from '../../src/net/reachability.ts'
import { RELAYS_WANTED, RelayKeeper } from '../../src/net/relay-keeper.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'

const relay = (peer: string): PeerAddress => ({ peer, addrs: [`/ip4/192.0.2.7/udp/${peer.length}/quic-v1`] })

function keeperOf(found: string[]) {
  const clock = new ManualClock()
  const state = { found, asked: [] as string[], full: new Set<string>(), held: [] as HeldRelay[], released: 0, looked: 0 }
  const keeper = new RelayKeeper(
    { clock, random: seededRandom(1), logger: silentLogger },
    {
      reserve: async ({ peer }) => {
        state.asked.push(peer)
        if (state.full.has(peer)) throw new Error('full')
      },
      release: () => {
        state.released++
      },
      held: (relays) => {
        state.held = [...relays]
      }
    }
  )
  keeper.findWith(async () => {
    state.looked++
    return state.found.map(relay)
  })
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 500) {
      clock.advance(Math.min(500, left))
      for (let i = 0; i < 30; i++) await Promise.resolve()
    }
  }
  const peers = () => state.held.map(({ peer }) => peer).sort()
  return { keeper, state, pass, peers }
}

describe('places at relays', () => {
  it('are taken at two of those found, once they are wanted, and given up when not', async () => {
    const { keeper, state, pass } = keeperOf(['a', 'bb', 'ccc'])
    await pass(10_000)
    expect(state.looked).toBe(0)
    keeper.want(true)
    await pass(1_000)
    expect(state.held).toHaveLength(RELAYS_WANTED)
    expect(state.asked).toHaveLength(RELAYS_WANTED)
    await pass(600_000)
    expect(state.looked).toBe(1)
    keeper.want(false)
    expect([state.held, state.released]).toEqual([[], 1])
  })

  it('are sought elsewhere when one is gone, at once', async () => {
    const { keeper, state, pass, peers } = keeperOf(['a', 'bb'])
    keeper.want(true)
    await pass(1_000)
    state.found = ['a', 'bb', 'ccc']
    state.full.add('a')
    keeper.lost('a')
    expect(peers()).toEqual(['bb'])
    await pass(1_000)
    expect(peers()).toEqual(['bb', 'ccc'])
    keeper.stop()
  })

  it('are not asked again for five minutes where there was none, while another serves, unless the network changed', async () => {
    const { keeper, state, pass, peers } = keeperOf(['a', 'bb'])
    state.full.add('a')
    keeper.want(true)
    await pass(4 * 60_000)
    const ofA = () => state.asked.filter((peer) => peer === 'a').length
    expect([peers(), ofA()]).toEqual([['bb'], 1])
    expect(state.looked).toBeGreaterThan(3)
    keeper.networkChanged()
    await pass(1_000)
    expect(ofA()).toBe(2)
    await pass(9 * 60_000)
    expect(ofA()).toBeGreaterThan(2)
    keeper.stop()
  })

  it('are asked again soon where there is none at all: a relay that failed once may be the only one', async () => {
    const { keeper, state, pass, peers } = keeperOf(['a'])
    state.full.add('a')
    keeper.want(true)
    await pass(1_000)
    expect(state.asked).toEqual(['a'])
    state.full.clear()
    await pass(5_000)
    expect(peers()).toEqual(['a'])
    keeper.stop()
  })

  it('cost six tries a round at most, and looks ever less often, two minutes apart in the end', async () => {
    const names = Array.from({ length: 40 }, (_, i) => 'x'.repeat(i + 1))
    const { keeper, state, pass } = keeperOf(names)
    for (const name of names) state.full.add(name)
    keeper.want(true)
    await pass(500)
    expect(state.asked).toHaveLength(6)
    state.found = []
    await pass(10 * 60_000)
    const before = state.looked
    await pass(10 * 60_000)
    expect(state.looked - before).toBeLessThanOrEqual(7)
    keeper.stop()
  })
})

describe('what is said of how others reach a node', () => {
  it('follows from what peers said and from its relays, with the time since when', () => {
    const clock = new ManualClock(1_000)
    const book = new ReachabilityBook(clock)
    const seen: string[] = []
    book.onChange(() => seen.push(book.state))
    expect([book.state, book.sinceMs]).toEqual(['unknown', 1_000])
    clock.advance(5)
    book.judge('private')
    clock.advance(5)
    book.judge('private')
    expect([book.state, book.sinceMs]).toEqual(['unreachable', 1_005])
    book.hold([{ ...relay('a'), sinceMs: 0 }])
    expect([book.state, book.sinceMs]).toEqual(['relayed', 1_010])
    clock.advance(5)
    book.judge('direct')
    expect([book.state, book.sinceMs]).toEqual(['direct', 1_015])
    expect(seen).toEqual(['unreachable', 'relayed', 'direct'])
  })
})

describe('a look at the addresses of this machine', () => {
  it('tells what came and what went, once, every three seconds', () => {
    const clock = new ManualClock()
    const changes: NetworkChange[] = []
    let now = ['127.0.0.1/8', '192.168.1.7/24']
    const watch = new NetworkWatch(
      clock,
      (change) => void changes.push(change),
      () => now
    )
    watch.start()
    clock.advance(10 * WATCH_MS)
    now = ['10.1.0.9/16', '127.0.0.1/8']
    clock.advance(WATCH_MS)
    clock.advance(WATCH_MS)
    expect(changes).toEqual([{ gone: ['192.168.1.7/24'], came: ['10.1.0.9/16'] }])
    watch.stop()
    now = []
    clock.advance(10 * WATCH_MS)
    expect(changes).toHaveLength(1)
  })
})

describe('who is asked, and who is refused', () => {
  it('knows peers of its own networks from others', () => {
    const own = ['127.0.0.1/8', '192.168.1.7/24', 'fd00:1::7/64']
    const inside = ['/ip4/192.168.1.9/udp/1/quic-v1', '/ip4/127.0.0.1/tcp/1', '/ip6/fd00:1::9/tcp/1']
    const outside = [
      '/ip4/192.168.2.9/udp/1/quic-v1',
      '/ip6/fd00:2::9/tcp/1',
      '/dns4/example.org/tcp/1',
      '/memory/a',
      '/ip4/192.168.1.9/udp/1/quic-v1/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf/p2p-circuit'
    ]
    expect(inside.map((addr) => isOfOwnNetwork(addr, own))).toEqual(inside.map(() => true))
    expect(outside.map((addr) => isOfOwnNetwork(addr, own))).toEqual(outside.map(() => false))
  })

  it('[F035] dials nobody back who asks over a relay: the IP that it shows is that of the relay', () => {
    const over = '/ip4/203.0.113.7/udp/1/quic-v1/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf/p2p-circuit/p2p/12D3KooWF'
    expect(isOfSameIp('/ip4/203.0.113.7/tcp/22', over)).toBe(false)
  })

  it('gives one IP eight places at a relay, whatever PeerIds come from there; who holds one renews it', () => {
    const at = (ip: string, port = 1) => multiaddr(`/ip4/${ip}/tcp/${port}`)
    const held: [string, ReturnType<typeof multiaddr>][] = []
    for (let i = 0; i < RESERVATIONS_PER_IP_MAX; i++) {
      expect(isOneTooMany(`p${i}`, [at('203.0.113.7', 9)], held)).toBe(false)
      held.push([`p${i}`, at('203.0.113.7', i + 1)])
    }
    expect(isOneTooMany('late', [at('203.0.113.7', 9)], held)).toBe(true)
    expect(isOneTooMany('late', [at('203.0.113.8'), at('203.0.113.7')], held)).toBe(true)
    expect(isOneTooMany('other', [at('203.0.113.8')], held)).toBe(false)
    expect(isOneTooMany('p7', [at('203.0.113.7', 9)], held)).toBe(false)
  })
})

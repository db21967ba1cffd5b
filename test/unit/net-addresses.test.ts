import type { Listener, Transport } from '@libp2p/interface'
import { multiaddr } from '@multiformats/multiaddr'
import { describe, expect, it } from 'vitest'
import { ListenLog } from '../../src/net/listen-log.ts'
import { byDialOrder, isLinkLocal, isPublicAddr, parseBootstrap, transportOf, withoutPeer } from '../../src/net/multiaddrs.ts'
import { Rejoin } from '../../src/net/rejoin.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { type Logger, silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'

const PEER = '12D3KooWF735RRiqN4hhx1KNSGox7qtAkAEE1aMuyKWnGpMqDBp'

function recording(): Logger & { warnings: { fields: object; message: string }[] } {
  const warnings: { fields: object; message: string }[] = []
  return { ...silentLogger, warnings, warn: (fields, message) => void warnings.push({ fields, message }) }
}

describe('addresses', () => {
  it.each([
    ...[
      '10.0.0.5',
      '192.168.1.9',
      '127.0.0.1',
      '169.254.1.1',
      '100.64.0.1',
      '0.0.0.0',
      '172.31.0.1',
      '192.0.2.1',
      '224.0.0.1',
      '255.255.255.255'
    ].map((ip) => `/ip4/${ip}/udp/1/quic-v1`),
    ...[
      '::1',
      '::',
      'fd00::1',
      'fe80::1',
      'ff02::1',
      '::ffff:10.0.0.5',
      '::ffff:8.8.8.8',
      '64:ff9b::a00:5',
      '2002:a00:5::1',
      '2001:db8::1',
      '2001::1',
      '2001:1ff::1',
      '3fff::1'
    ].map((ip) => `/ip6/${ip}/tcp/1`),
    '/dns4/localhost/tcp/1',
    '/dns4/example.org/tcp/1',
    '/memory/a',
    '/unix/tmp'
  ])('does not take %s for an address of the public internet (F035)', (addr) => {
    expect(isPublicAddr(multiaddr(addr))).toBe(false)
  })

  it.each(['/ip4/8.8.8.8/udp/1/quic-v1', '/ip4/100.128.0.1/tcp/1', '/ip6/2a00:1450::1/udp/1/quic-v1', '/ip6/2606:4700::1111/tcp/1'])(
    'takes %s for one',
    (addr) => {
      expect(isPublicAddr(multiaddr(addr))).toBe(true)
    }
  )

  it('names the transport of an address', () => {
    expect(
      [
        '/ip4/1.1.1.1/udp/1/quic-v1',
        '/ip4/1.1.1.1/tcp/1',
        '/ip4/1.1.1.1/tcp/1/ws',
        '/ip4/1.1.1.1/udp/1/quic-v1/webtransport',
        '/memory/ws',
        '/ip4/1.1.1.1/udp/1/quic-v1/p2p/x/p2p-circuit'
      ].map(transportOf)
    ).toEqual(['quic', 'tcp', 'websocket', 'webtransport', 'memory', 'relay'])
  })

  it('dials QUIC before TCP, and loopback last', () => {
    const addrs = ['/ip4/127.0.0.1/udp/1/quic-v1', '/ip4/10.0.0.1/tcp/1', '/ip6/::1/tcp/1', '/ip4/10.0.0.1/udp/1/quic-v1'].map((addr) =>
      multiaddr(addr)
    )
    expect(addrs.sort(byDialOrder).map(String)).toEqual([
      '/ip4/10.0.0.1/udp/1/quic-v1',
      '/ip4/10.0.0.1/tcp/1',
      '/ip4/127.0.0.1/udp/1/quic-v1',
      '/ip6/::1/tcp/1'
    ])
  })

  it('knows link-local addresses and takes the peer off an address', () => {
    expect(isLinkLocal(multiaddr('/ip6/fe80::1/tcp/1'))).toBe(true)
    expect(isLinkLocal(multiaddr('/ip6/fd00::1/tcp/1'))).toBe(false)
    expect(withoutPeer(`/ip4/1.1.1.1/tcp/1/p2p/${PEER}`)).toBe('/ip4/1.1.1.1/tcp/1')
    expect(withoutPeer('/ip4/1.1.1.1/tcp/1')).toBe('/ip4/1.1.1.1/tcp/1')
  })

  it('names position and value of a bootstrap entry that is none (F106)', () => {
    for (const entry of ['', 'x', '/ip4/1.1.1.1', `/ip4/1.1.1.1/udp/99999/quic-v1/p2p/${PEER}`, '/ip4/1.1.1.1/udp/1/quic-v1']) {
      expect(() => parseBootstrap(entry, 3)).toThrow(
        expect.objectContaining({ code: 'ADDRESS_INVALID', kind: 'config', field: 'bootstrap[3]', value: entry })
      )
    }
  })
})

describe('the record of listening', () => {
  async function listen(outcomes: Record<string, Error | undefined>): Promise<ListenLog> {
    const log = new ListenLog()
    const transport = log.watch({
      createListener: () =>
        ({
          listen: async (addr: unknown) => void (outcomes[String(addr)] && (await Promise.reject(outcomes[String(addr)])))
        }) as unknown as Listener
    } as unknown as Transport)
    for (const addr of Object.keys(outcomes))
      await transport
        .createListener({} as never)
        .listen(multiaddr(addr))
        .catch(() => {})
    return log
  }
  const IP4 = '/ip4/0.0.0.0/udp/1/quic-v1'
  const IP6 = ['/ip6/::/udp/1/quic-v1', '/ip6/::/tcp/1']

  it('goes on with one warning where there is no IPv6 (F044)', async () => {
    const logger = recording()
    const missing = new Error('Address family not supported by protocol (os error 97)')
    const log = await listen({ [IP4]: undefined, [IP6[0] as string]: missing, [IP6[1] as string]: missing })
    log.check([IP4, ...IP6], logger)
    expect(logger.warnings).toEqual([{ fields: { addrs: IP6 }, message: expect.stringContaining('IPv6') }])
  })

  it('fails where nothing else listens, and where the IPv4 part fails', async () => {
    const missing = new Error('Cannot assign requested address')
    const only6 = await listen({ [IP6[0] as string]: missing })
    expect(() => only6.check([IP6[0] as string], silentLogger)).toThrow(
      expect.objectContaining({ code: 'LISTEN_FAILED', field: 'listen[0]' })
    )
    const without4 = await listen({ [IP6[0] as string]: undefined, [IP4]: missing })
    expect(() => without4.check([IP6[0] as string, IP4], silentLogger)).toThrow(
      expect.objectContaining({ code: 'LISTEN_FAILED', field: 'listen[1]', value: IP4 })
    )
  })

  it('says that a port is taken in IPv6 too', async () => {
    const log = await listen({ [IP4]: undefined, [IP6[0] as string]: new Error('Address already in use (os error 98)') })
    expect(() => log.check([IP4, IP6[0] as string], silentLogger)).toThrow(expect.objectContaining({ code: 'PORT_IN_USE', value: IP6[0] }))
  })
})

describe('the way back into the network', () => {
  function isolated(answers: () => boolean) {
    const clock = new ManualClock()
    const logger = recording()
    const triedAtMs: number[] = []
    let connected = 0
    const rejoin = new Rejoin(
      { clock, random: seededRandom(7), logger },
      {
        connected: () => connected,
        candidates: () => [{ peer: PEER, addrs: ['/ip4/192.0.2.1/udp/1/quic-v1'], origin: 'bootstrap' }],
        dial: async () => {
          triedAtMs.push(clock.monotonicMs())
          if (!answers()) throw new Error('nobody there')
          connected = 1
        }
      }
    )
    const pass = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 500) {
        clock.advance(500)
        for (let i = 0; i < 10; i++) await Promise.resolve()
      }
    }
    return { rejoin, logger, triedAtMs, pass, lose: () => (connected = 0) }
  }

  it('tries for ever with growing, jittered pauses of at most 45 s, and warns once (F037, F038)', async () => {
    const { rejoin, logger, triedAtMs, pass } = isolated(() => false)
    rejoin.start()
    await pass(600_000)
    const pauses = triedAtMs.slice(1).map((at, i) => at - (triedAtMs[i] as number))
    expect(pauses[0]).toBeLessThanOrEqual(2_000)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(45_500)
    expect(pauses.length).toBeGreaterThan(15)
    expect(new Set(pauses.slice(5)).size).toBeGreaterThan(3)
    expect(logger.warnings).toHaveLength(1)
    rejoin.stop()
    const tried = triedAtMs.length
    await pass(120_000)
    expect(triedAtMs).toHaveLength(tried)
  })

  it('rests while there is a peer, and starts over with a short pause when the last one goes', async () => {
    const { rejoin, triedAtMs, pass, lose } = isolated(() => true)
    rejoin.start()
    await pass(300_000)
    expect(triedAtMs).toEqual([0])
    lose()
    rejoin.isolated()
    await pass(2_000)
    expect(triedAtMs).toHaveLength(2)
    rejoin.stop()
  })
})

import { describe, expect, it } from 'vitest'
import { ConnectionShares, NETWORK_CONNECTIONS_MIN, PEER_CONNECTIONS_MAX } from '../../src/net/connection-shares.ts'

/** A connection as far as shares look at it. */
function connection(address: string) {
  const target = new EventTarget()
  return {
    remoteAddr: { toString: () => address } as never,
    addEventListener: target.addEventListener.bind(target) as never,
    close: () => void target.dispatchEvent(new Event('close'))
  }
}

describe('the shares of connections that others open', () => {
  it('give one public /24 or /48 an eighth, whatever its hosts are called, and others the rest', () => {
    const shares = new ConnectionShares({ connectionsMax: 300 })
    const refused = (address: string) => shares.refusesNetwork(connection(address))
    const first = Array.from({ length: 60 }, (_, i) => refused(`/ip4/93.184.216.${i}/tcp/${1_000 + i}`))
    expect(first.filter((no) => !no)).toHaveLength(37)
    expect(first.slice(37)).not.toContain(false)
    expect(refused('/ip4/93.184.216.200/udp/4001/quic-v1')).toBe(true)
    expect(refused('/ip4/93.184.217.1/tcp/1')).toBe(false)
    const sixth = Array.from({ length: 60 }, (_, i) => refused(`/ip6/2606:4700:1:${i}::1/udp/1/quic-v1`))
    expect(sixth.filter((no) => !no)).toHaveLength(37)
    expect(refused('/ip6/2606:4700:2::1/tcp/1')).toBe(false)
  })

  it('give a place back when its connection closes, and remember nothing then', () => {
    const shares = new ConnectionShares({ connectionsMax: 16 })
    const held = Array.from({ length: NETWORK_CONNECTIONS_MIN }, () => connection('/ip4/93.184.216.1/tcp/1'))
    for (const one of held) expect(shares.refusesNetwork(one)).toBe(false)
    expect(shares.refusesNetwork(connection('/ip4/93.184.216.1/tcp/1'))).toBe(true)
    held[0]?.close()
    const next = connection('/ip4/93.184.216.9/tcp/1')
    expect(shares.refusesNetwork(next)).toBe(false)
    for (const one of [...held.slice(1), next]) one.close()
    expect(shares.size).toBe(0)
  })

  it('bear none for loopback, private and relayed addresses, which many may share', () => {
    const shares = new ConnectionShares({ connectionsMax: 16 })
    for (const address of ['/ip4/127.0.0.1/tcp/1', '/ip4/192.168.1.7/tcp/1', '/memory/x', '/ip4/93.184.216.1/tcp/1/p2p-circuit']) {
      for (let i = 0; i < 40; i++) expect(shares.refusesNetwork(connection(address))).toBe(false)
    }
  })

  it('give one PeerId sixteen, over whatever networks', () => {
    const shares = new ConnectionShares({ connectionsMax: 300 })
    const peer = { toString: () => 'peer' }
    const refused = Array.from({ length: 40 }, (_, i) => shares.refusesPeer(peer, connection(`/ip4/93.184.${i}.1/tcp/1`)))
    expect(refused.filter((no) => !no)).toHaveLength(PEER_CONNECTIONS_MAX)
    expect(shares.refusesPeer({ toString: () => 'another' }, connection('/ip4/93.184.1.1/tcp/1'))).toBe(false)
  })
})

import { describe, expect, it } from 'vitest'
import { diagnoseNetwork, type FindingCode } from '../../src/doctor/diagnose-network.ts'
import type { NetworkFacts } from '../../src/doctor/network-facts.ts'

const NOW_MS = Date.parse('2026-03-01T12:00:00Z')
const PEER = '12D3KooWJ8wsKdrjmyyVnYzsJpxXSRmYzdGmzkMWKFSkLtxNDQwQ'
const QUIC = `/ip4/93.184.216.34/udp/4711/quic-v1/p2p/${PEER}`
const TCP = `/ip4/93.184.216.34/tcp/4711/p2p/${PEER}`

/** A node of the public network at which nothing is wrong. */
const well: NetworkFacts = {
  nowMs: NOW_MS,
  uptimeMs: 90_000,
  scope: 'public',
  mdns: false,
  bootstrap: [{ addr: QUIC, transport: 'quic', outcome: 'reached' }],
  addresses: [{ addr: '/ip4/93.184.216.40/udp/4711/quic-v1', transport: 'quic', isPublic: true }],
  peers: 5,
  routingTableSize: 5,
  dhtMode: 'server',
  udp: { outcome: 'works' },
  connections: [{ transport: 'quic', count: 5 }],
  dialBacks: { asked: 3, reached: 2, failed: 1 },
  peerTimes: ['a', 'b', 'c'].map((peer, i) => ({
    peer,
    newestSignedMs: NOW_MS - 60_000 * (i + 1),
    firstExpiresMs: NOW_MS + 60_000 * (i + 1)
  })),
  faultyRegistrars: []
}
const failed = (addr: string, transport: string) => ({ addr, transport, outcome: 'failed' as const, reason: 'no answer within 5000 ms' })
const codes = (facts: Partial<NetworkFacts>): FindingCode[] => diagnoseNetwork({ ...well, ...facts }).map(({ code }) => code)
const only = (facts: Partial<NetworkFacts>) => {
  const findings = diagnoseNetwork({ ...well, ...facts })
  expect(findings).toHaveLength(1)
  return findings[0]
}
const shiftedBy = (ms: number) =>
  well.peerTimes.map(({ peer, newestSignedMs, firstExpiresMs }) => ({
    peer,
    newestSignedMs: newestSignedMs + ms,
    firstExpiresMs: firstExpiresMs + ms
  }))

describe('what the network doctor finds', () => {
  it('is nothing where nothing is wrong', () => {
    expect(diagnoseNetwork(well)).toEqual([])
  })

  it('[F037] no peers: nobody named to start from, or nobody of them reached', () => {
    const alone = { peers: 0, routingTableSize: 0, connections: [], dialBacks: { asked: 0, reached: 0, failed: 0 }, peerTimes: [] }
    expect(only({ ...alone, bootstrap: [] })).toMatchObject({
      code: 'NO_PEERS',
      severity: 'problem',
      evidence: ['up for 90 s', 'bootstrap addresses: 0, multicast DNS off'],
      remedy: expect.stringContaining('under bootstrap in the configuration')
    })
    expect(only({ ...alone, bootstrap: [failed(QUIC, 'quic')] })).toMatchObject({
      code: 'NO_PEERS',
      evidence: expect.arrayContaining([`${QUIC}: no answer within 5000 ms`]),
      remedy: expect.stringContaining('check that the bootstrap nodes run')
    })
  })

  it('peers, and none of them in the routing table', () => {
    expect(only({ routingTableSize: 0 })).toMatchObject({ code: 'ROUTING_TABLE_EMPTY', severity: 'problem' })
  })

  it('only private addresses, in the public network alone', () => {
    const addresses = [{ addr: '/ip4/192.168.1.7/udp/4711/quic-v1', transport: 'quic', isPublic: false }]
    expect(only({ addresses })).toMatchObject({
      code: 'ONLY_PRIVATE_ADDRESSES',
      severity: 'warning',
      evidence: ['/ip4/192.168.1.7/udp/4711/quic-v1', 'DHT server'],
      remedy: expect.stringContaining('network: lan')
    })
    expect(codes({ addresses, scope: 'lan' })).toEqual([])
    expect(only({ addresses: [] })).toMatchObject({ code: 'NO_ADDRESS', severity: 'problem' })
  })

  it('UDP forbidden by this machine', () => {
    expect(only({ udp: { outcome: 'failed', reason: 'bind EPERM 127.0.0.1' } })).toMatchObject({
      code: 'UDP_BLOCKED',
      severity: 'problem',
      evidence: expect.arrayContaining(['a datagram to this machine itself: bind EPERM 127.0.0.1'])
    })
  })

  it('UDP blocked on the way: every QUIC dial fails and TCP works', () => {
    const facts = {
      connections: [{ transport: 'tcp', count: 2 }],
      bootstrap: [failed(QUIC, 'quic'), { addr: TCP, transport: 'tcp', outcome: 'reached' as const }]
    }
    expect(codes(facts)).toEqual(['UDP_BLOCKED', 'BOOTSTRAP_UNREACHED'])
    expect(diagnoseNetwork({ ...well, ...facts })[0]).toMatchObject({ severity: 'warning', title: expect.stringContaining('on the way') })
    expect(codes({ ...facts, connections: [...facts.connections, { transport: 'quic', count: 1 }] })).toEqual(['BOOTSTRAP_UNREACHED'])
  })

  it('QUIC that does not listen', () => {
    const addresses = [{ addr: '/ip4/93.184.216.40/tcp/4711', transport: 'tcp', isPublic: true }]
    expect(only({ addresses })).toMatchObject({ code: 'UDP_BLOCKED', title: expect.stringContaining('does not listen') })
  })

  it('a clock behind or ahead of the network, by how much, once three peers agree', () => {
    expect(only({ peerTimes: shiftedBy(3_600_000) })).toMatchObject({
      code: 'CLOCK_WRONG',
      severity: 'problem',
      title: "this machine's clock is behind the network by 58 min at least",
      remedy: expect.stringContaining('NTP')
    })
    expect(only({ peerTimes: shiftedBy(-86_400_000) })).toMatchObject({
      code: 'CLOCK_WRONG',
      title: "this machine's clock is ahead of the network by 23 h at least"
    })
    expect(codes({ peerTimes: shiftedBy(3_600_000).slice(1) })).toEqual([])
    expect(codes({ peerTimes: shiftedBy(120_000) })).toEqual([])
  })

  it('no wrong clock by the word of one liar', () => {
    const liar = { peer: 'liar', newestSignedMs: NOW_MS + 9e9, firstExpiresMs: NOW_MS - 9e9 }
    expect(codes({ peerTimes: [...well.peerTimes, liar] })).toEqual([])
  })

  it('[G-10] a clock that jumped', () => {
    expect(only({ clockHeld: 'it went back by 3 h' })).toMatchObject({
      code: 'CLOCK_WRONG',
      severity: 'warning',
      evidence: ['the clock jumped while the node ran: it went back by 3 h']
    })
  })

  it('a NAT, once two peers dialled back in vain and none came through', () => {
    expect(only({ dialBacks: { asked: 3, reached: 0, failed: 2 } })).toMatchObject({
      code: 'BEHIND_NAT',
      severity: 'warning',
      evidence: ['2 of 3 peers asked dialled back and did not get through', 'DHT server']
    })
    const behind = { dialBacks: { asked: 3, reached: 0, failed: 2 } }
    const relays = [{ peer: '12D3KooRelay', addrs: ['/ip4/192.0.2.7/udp/1/quic-v1'], sinceMs: NOW_MS }]
    const set = { external: [], relay: 'auto', upnp: false } as const
    expect(only({ ...behind, reachability: { ...set, state: 'relayed', relays } })).toMatchObject({
      title: 'others reach this node over relays alone: it is behind a NAT or a firewall',
      evidence: ['2 of 3 peers asked dialled back and did not get through', 'relay 12D3KooRelay', 'DHT server'],
      remedy: expect.stringMatching(/^nothing has to be done/)
    })
    expect(only({ ...behind, reachability: { ...set, state: 'unreachable', relays: [] } })).toMatchObject({
      remedy: expect.stringMatching(/keepers hold mail/)
    })
    expect(only({ ...behind, reachability: { ...set, relay: 'off', state: 'unreachable', relays: [] } })).toMatchObject({
      remedy: 'set reachability.relay to auto, so that relays carry those who call'
    })
    expect(codes({ dialBacks: { asked: 3, reached: 0, failed: 1 } })).toEqual([])
    expect(codes({ dialBacks: { asked: 3, reached: 1, failed: 2 } })).toEqual([])
  })

  it('bootstrap addresses that cannot be reached though the node has peers', () => {
    expect(only({ bootstrap: [...well.bootstrap, failed(TCP, 'tcp')] })).toMatchObject({
      code: 'BOOTSTRAP_UNREACHED',
      severity: 'warning',
      title: '1 of 2 bootstrap addresses cannot be reached',
      evidence: [`${TCP}: no answer within 5000 ms`]
    })
  })

  it('registrars that hid or invented entries, with what they did', () => {
    const faultyRegistrars = [{ peer: PEER, hidden: 2, invented: 5, lastAtMs: NOW_MS - 30_000 }]
    expect(only({ faultyRegistrars })).toMatchObject({
      code: 'REGISTRARS_FAULTY',
      severity: 'warning',
      evidence: [`${PEER}: hid 2, invented 5, last 30 s ago`]
    })
  })

  it('the worst first, each with evidence and a remedy', () => {
    const findings = diagnoseNetwork({
      ...well,
      peers: 0,
      dialBacks: { asked: 2, reached: 0, failed: 2 },
      faultyRegistrars: [{ peer: PEER, hidden: 1, invented: 0, lastAtMs: NOW_MS }],
      peerTimes: shiftedBy(7_200_000)
    })
    expect(findings.map(({ severity }) => severity)).toEqual(['problem', 'problem', 'warning', 'warning'])
    for (const { evidence, remedy } of findings) {
      expect(evidence.length).toBeGreaterThan(0)
      expect(remedy).not.toBe('')
    }
  })
})

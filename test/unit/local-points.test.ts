import { EventEmitter } from 'node:events'
import { MemoryLevel } from 'memory-level'
import { describe, expect, it } from 'vitest'
import { announceKey, gpKey, joinKey, locatorKey } from '../../protocol/discovery/dht-key.ts'
import { type DsId, type GpCoordinate, gpCoordinate } from '../../protocol/discovery/names.ts'
import { REGISTRY_SETS } from '../../protocol/discovery/registry-messages.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { validateDhtValue } from '../../protocol/records/dht-value.ts'
import { buildRecord } from '../../protocol/records/envelope.ts'
import { LP_TTL_SEC, type Lp, lpType } from '../../protocol/records/lp.ts'
import { openSetEntry } from '../../protocol/records/set-entry.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { createMdnsLink } from '../../src/local/link.ts'
import { FOUND_LOCAL_POINTS_MAX, LocalPoints } from '../../src/local/local-points.ts'
import {
  NEIGHBOUR_AGE_MS,
  NEIGHBOURS_MAX,
  type NeighbourChange,
  type NeighbourRows,
  Neighbours,
  parseIpNeigh,
  parseProcArp
} from '../../src/local/neighbours.ts'
import { ipOf, isOnLink } from '../../src/local/on-link.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import type { Session } from '../../src/sessions/session.ts'
import { Store } from '../../src/store/store.ts'
import { Wire } from '../support/wire.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'

const NOW_MS = 1_800_000_000_000
const OWN = [{ address: '192.168.7.1', cidr: '192.168.7.1/24' }]
const alice = fakeAgent('alice')
const bob = fakeAgent('bob')

function world() {
  const clock = new ManualClock(NOW_MS)
  const network = new FakeNetwork(clock)
  const wire = new Wire()
  let neighbours: NeighbourRows = []
  const open = async (agent: LocalAgent, ip: string, mayBeLocal = true) =>
    await LocalPoints.open({
      host: network.add(agent.name, [`/ip4/${ip}/udp/4711/quic-v1`, '/ip4/203.0.113.9/udp/4711/quic-v1']),
      store: new Store(new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' })),
      clock,
      crypto: nodeCrypto,
      logger: silentLogger,
      link: wire.end(ip),
      neighbours: async () => neighbours,
      own: () => OWN,
      agents: (hex) => (hex === agent.eidHex ? agent : undefined),
      mayBeLocal: () => mayBeLocal
    })
  const stand = (rows: NeighbourRows) => {
    neighbours = rows
  }
  return { clock, network, wire, open, stand }
}

const turns = async () => {
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve))
}

describe('local points', () => {
  it('[ESE-06] are heard on the link, with addresses of the link alone, until they are taken back or run out', async () => {
    const { clock, open } = world()
    const a = await open(alice, '192.168.7.1')
    const b = await open(bob, '192.168.7.2')
    await a.register({ agent: alice, tag: 'lamp', access: 'open', value: { on: true } })
    await a.register({ agent: alice, tag: 'door', access: 'open', value: 1 })
    expect(b.list().map(({ did, tag, at }) => [did, tag, at])).toEqual([
      [alice.did, 'lamp', '192.168.7.1'],
      [alice.did, 'door', '192.168.7.1']
    ])
    expect(b.locate(alice.eid, 'lamp').addrs).toEqual(['/ip4/192.168.7.1/udp/4711/quic-v1'])
    await a.remove({ agent: alice, tag: 'door' })
    expect(b.list().map(({ tag }) => tag)).toEqual(['lamp'])
    clock.advance(LP_TTL_SEC * 500)
    await turns()
    expect(b.list()).toHaveLength(1)
    const late = await open(fakeAgent('carol'), '192.168.7.3')
    expect(late.list().map(({ tag }) => tag)).toEqual(['lamp'])
    await a.stop()
    expect(b.list()).toEqual([])
    expect(() => b.locate(alice.eid, 'lamp')).toThrow(expect.objectContaining({ code: 'POINT_UNKNOWN' }))
    await Promise.all([b.stop(), late.stop()])
  })

  it('[ESE-06] run out when their owner falls silent', async () => {
    const { clock, wire, open } = world()
    const b = await open(bob, '192.168.7.2')
    wire.end('192.168.7.1').announce([lp({})])
    expect(b.list()).toHaveLength(1)
    clock.advance(LP_TTL_SEC * 1_000)
    expect(b.list()).toEqual([])
    await b.stop()
  })

  it('[ESE-06] are answered to sessions of this link, and unknown to any other', async () => {
    const { open } = world()
    const a = await open(alice, '192.168.7.1')
    await a.register({ agent: alice, tag: 'lamp', access: 'open', value: 5 })
    await a.register({ agent: alice, tag: 'safe', access: 'trust', value: 6, trust: [bob.eid] })
    const session = (remoteAddr: string) => ({ local: alice, info: () => ({ remoteAddr }) }) as unknown as Session
    const near = session('/ip4/192.168.7.2/udp/9/quic-v1')
    const read = (from: Session, tag: string, who = bob) => a.answer(from, [who.eid], tag)
    expect(read(near, 'lamp')).toEqual({ status: 'ok', value: Uint8Array.of(0x35) })
    expect([read(near, 'safe').status, read(near, 'safe', fakeAgent('eve')).status]).toEqual(['ok', 'denied'])
    for (const far of [
      '/ip4/203.0.113.5/udp/9/quic-v1',
      '/ip4/192.168.8.2/udp/9/quic-v1',
      '/memory/x',
      '/ip4/192.168.7.2/tcp/1/p2p-circuit'
    ]) {
      expect(read(session(far), 'lamp')).toEqual({ status: 'unknown' })
    }
    await a.stop()
  })

  it('[ESE-08] are refused by every DHT key and every registry set, whoever carries them there', () => {
    const bytes = lp({})
    const id = new Uint8Array(32)
    const keys = [
      locatorKey(alice.eid),
      announceKey(id as DsId),
      joinKey(id as DsId, alice.eid),
      gpKey(gpCoordinate(nodeCrypto, alice.eid, 'lamp'))
    ]
    for (const key of [...keys, gpKey(id as GpCoordinate)]) {
      expect(() => validateDhtValue(nodeCrypto, key, bytes, NOW_MS)).toThrow(expect.objectContaining({ code: 'RECORD_KIND' }))
    }
    for (const set of REGISTRY_SETS) expect(() => openSetEntry(nodeCrypto, set, id, bytes, NOW_MS)).toThrow(ProtocolError)
  })

  it('[ESE-08] are refused for an agent that the whole network knows, unless that was configured', async () => {
    const { open } = world()
    const a = await open(alice, '192.168.7.1', false)
    await expect(a.register({ agent: alice, tag: 'lamp', access: 'open', value: 1 })).rejects.toMatchObject({
      code: 'AGENT_GLOBAL',
      field: 'localPoints.agents',
      value: 'alice',
      remedy: expect.stringContaining('localPoints.global')
    })
    await a.stop()
  })

  it('[ESE-06] are not believed without their signature, too long, out of time, or as an old word against a new one', async () => {
    const { wire, open } = world()
    const b = await open(bob, '192.168.7.2')
    const from = wire.end('192.168.7.1')
    const forged = lp({})
    forged[forged.length - 1] = 1 ^ (forged[forged.length - 1] as number)
    const bad = [
      forged,
      lp({ ts: NOW_MS / 1_000 - LP_TTL_SEC }),
      lp({ ts: NOW_MS / 1_000 + 121 }),
      new Uint8Array(2_000),
      new Uint8Array(0)
    ]
    from.announce(bad)
    expect(b.list()).toEqual([])
    from.announce([lp({ ts: NOW_MS / 1_000, access: 'open' }), lp({ ts: NOW_MS / 1_000 - 1, access: 'trust' })])
    expect(b.list().map(({ access }) => access)).toEqual(['open'])
    await b.stop()
  })

  it('are noted up to a bound, and asked for they answer once a second', async () => {
    const { clock, wire, open } = world()
    const b = await open(bob, '192.168.7.2')
    const from = wire.end('192.168.7.1')
    from.announce(Array.from({ length: FOUND_LOCAL_POINTS_MAX + 5 }, (_, i) => lp({ tag: `t${i}` })))
    expect(b.list()).toHaveLength(FOUND_LOCAL_POINTS_MAX)
    await b.register({ agent: bob, tag: 'own', access: 'open', value: 1 })
    const before = wire.heard.length
    for (let i = 0; i < 10; i++) from.ask()
    expect(wire.heard.length - before).toBe(1)
    clock.advance(1_000)
    from.ask()
    expect(wire.heard.length - before).toBe(2)
    await b.stop()
  })

  it('[ESE-07] [G-45] show what MAC stands at an address, and raise an alarm when another one does', async () => {
    const { clock, wire, open, stand } = world()
    const b = await open(bob, '192.168.7.2')
    const alarms: NeighbourChange[] = []
    b.onNeighbourChange((change) => alarms.push(change))
    wire.end('192.168.7.1').announce([lp({})])
    stand([{ ip: '192.168.7.1', mac: '02:00:00:00:00:01' }])
    clock.advance(30_000)
    await turns()
    expect(b.list()[0]).toMatchObject({ at: '192.168.7.1', mac: '02:00:00:00:00:01' })
    expect(alarms).toEqual([])
    stand([{ ip: '192.168.7.1', mac: '02:00:00:00:00:66' }])
    clock.advance(30_000)
    await turns()
    expect(alarms).toEqual([{ ip: '192.168.7.1', before: '02:00:00:00:00:01', now: '02:00:00:00:00:66' }])
    await b.stop()
  })
})

describe('the neighbour table', () => {
  it('[ESE-07] reads what Linux writes, complete entries alone', () => {
    const arp = `IP address       HW type     Flags       HW address            Mask     Device
192.168.7.1      0x1         0x2         02:FC:00:00:00:05     *        eth0
192.168.7.9      0x1         0x0         00:00:00:00:00:00     *        eth0
nonsense`
    expect(parseProcArp(arp)).toEqual([{ ip: '192.168.7.1', mac: '02:fc:00:00:00:05' }])
    const neigh = `192.168.7.1 dev eth0 lladdr 02:fc:00:00:00:05 REACHABLE
fe80::1 dev eth0 lladdr 02:fc:00:00:00:06 router STALE
192.168.7.3 dev eth0 FAILED
192.168.7.4 dev eth0 lladdr zz:fc:00:00:00:05 STALE
`
    expect(parseIpNeigh(neigh)).toEqual([
      { ip: '192.168.7.1', mac: '02:fc:00:00:00:05' },
      { ip: 'fe80::1', mac: '02:fc:00:00:00:06' }
    ])
  })

  it('[ESE-07] forgets what the system has not named for ten minutes, and the oldest at the bound', () => {
    const clock = new ManualClock(NOW_MS)
    const table = new Neighbours(clock)
    table.update([{ ip: '10.0.0.1', mac: '02:00:00:00:00:01' }])
    expect(table.macOf('10.0.0.1')).toBe('02:00:00:00:00:01')
    clock.advance(NEIGHBOUR_AGE_MS)
    expect(table.macOf('10.0.0.1')).toBeUndefined()
    table.update([])
    expect(table.size).toBe(0)
    table.update(Array.from({ length: NEIGHBOURS_MAX + 3 }, (_, i) => ({ ip: `10.1.${i >> 8}.${i & 255}`, mac: '02:00:00:00:00:02' })))
    expect(table.size).toBe(NEIGHBOURS_MAX)
    expect(table.macOf('10.1.0.0')).toBeUndefined()
  })
})

describe('the link', () => {
  it('[ESE-06] is what this machine has an address in', () => {
    expect(isOnLink('192.168.7.200', OWN)).toBe(true)
    for (const ip of ['192.168.8.1', '8.8.8.8', '::1', 'x', '']) expect(isOnLink(ip, OWN)).toBe(false)
    expect(isOnLink('fe80::5', [{ address: 'fe80::1', cidr: 'fe80::1/64' }])).toBe(true)
    expect(ipOf('/ip6/fe80::5/udp/1/quic-v1')).toBe('fe80::5')
    expect(ipOf('/dns4/example.org/tcp/1')).toBeUndefined()
  })

  it('[ESE-06] sends multicast with one hop to live, and hears no sender from beyond the link', async () => {
    const [one, two] = [new FakeSocket('192.168.7.1'), new FakeSocket('192.168.7.2')]
    one.peer = two
    two.peer = one
    const a = createMdnsLink({ logger: silentLogger }, { socket: one as never, own: () => OWN })
    const b = createMdnsLink({ logger: silentLogger }, { socket: two as never, own: () => OWN })
    const heard: [number, string][] = []
    let asked = 0
    b.listen({ record: (bytes, from) => heard.push([bytes.length, from]), asked: () => asked++ })
    await turns()
    a.announce([new Uint8Array(700).fill(7), new Uint8Array(3)])
    a.ask()
    await turns()
    expect(heard).toEqual([
      [700, '192.168.7.1'],
      [3, '192.168.7.1']
    ])
    expect(asked).toBe(1)
    expect([one.ttl, two.ttl]).toEqual([1, 1])
    expect(one.sentTo).toEqual(new Set(['224.0.0.251:5353']))
    one.address = '203.0.113.7'
    a.announce([new Uint8Array(5)])
    a.ask()
    await turns()
    expect([heard.length, asked]).toEqual([2, 1])
    await Promise.all([a.close(), b.close()])
  })
})

function lp(more: Partial<Lp>): Uint8Array {
  const ts = more.ts ?? NOW_MS / 1_000
  const payload: Lp = {
    eid: alice.eid,
    tag: 'lamp',
    access: 'open',
    peer: '12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp',
    addrs: ['/ip4/192.168.7.1/udp/4711/quic-v1'],
    ...more,
    ts,
    exp: ts + LP_TTL_SEC
  }
  return buildRecord(nodeCrypto, lpType, payload, alice.signer).bytes.slice()
}

/** A UDP socket that only its peer hears. */
class FakeSocket extends EventEmitter {
  peer: FakeSocket | undefined
  ttl = 0
  address: string
  readonly sentTo = new Set<string>()

  constructor(address: string) {
    super()
    this.address = address
  }

  bind(_port: number, _address: string | undefined, done: () => void): void {
    queueMicrotask(() => {
      this.emit('listening')
      done()
    })
  }

  send(message: Buffer, _from: number, _length: number, port: number, address: string): void {
    this.sentTo.add(`${address}:${port}`)
    queueMicrotask(() => this.peer?.emit('message', message, { address: this.address, port: 5353 }))
  }

  setMulticastTTL(ttl: number): void {
    this.ttl = ttl
  }

  setMulticastLoopback(): void {}
  addMembership(): void {}
  dropMembership(): void {}
  setMulticastInterface(): void {}

  close(done: () => void): void {
    done()
  }
}

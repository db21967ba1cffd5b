import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import type { ReachabilityReport } from '../../src/net/reachability.ts'
import type { SessionInfo } from '../../src/sessions/session.ts'
import { type NatHost, type NatLab, natLab } from '../support/nat-namespaces.ts'
import { NatNode } from './nat-node.ts'

let lab: NatLab | { refused: string } = { refused: 'it was not made' }
const nodes: NatNode[] = []

beforeAll(async () => {
  lab = await natLab(3, ['plain', 'symmetric'])
}, 120_000)

afterAll(async () => {
  await Promise.all(nodes.map((node) => node.stop()))
  if (!('refused' in lab)) await lab.remove()
}, 60_000)

/** Where namespaces cannot be made there are no routers to test behind; whoever reads the run is told, and CI insists. */
function made(skip: (why: string) => never): NatLab {
  if (!('refused' in lab)) return lab
  if (process.env.ROOKERY_NAT === 'required') throw new Error(`ROOKERY_NAT=required, and no network namespaces with NAT: ${lab.refused}`)
  return skip(`no network namespaces with NAT here (install iproute2 and iptables, be root): ${lab.refused}`)
}

const node = (host: NatHost | undefined, number: number): NatNode => {
  if (host === undefined) throw new Error('the lab has fewer hosts')
  const one = new NatNode(host, number)
  nodes.push(one)
  return one
}
const listening = ({ address }: { address: string }): ConfigInput => ({
  listen: [`/ip4/${address}/udp/0/quic-v1`, `/ip4/${address}/tcp/0`],
  reachability: { relayServer: { enabled: true } }
})
/** All interfaces, as by default: what they are may change. */
const ANYWHERE: ConfigInput = { listen: ['/ip4/0.0.0.0/udp/0/quic-v1', '/ip4/0.0.0.0/tcp/0'] }
const isRelayed = ({ state, relays }: ReachabilityReport) => state === 'relayed' && relays.length === 2

describe('nodes behind two routers with NAT, one of them symmetric', () => {
  it('[F035] learn that nobody can dial them, hold places at relays of the DHT, and reach each other over them, also when a relay dies, an address changes, and nothing works for a while', async ({
    skip
  }) => {
    const { open, behind, readdress, setLink } = made(skip)
    const [o0, o1, o2] = open as [NatHost, NatHost, NatHost]
    const [n0, n1] = behind as [NatHost, NatHost]
    const [kate, lou, mia, alice, bob, carol] = [node(o0, 0), node(o1, 1), node(o2, 2), node(n0, 3), node(n1, 4), node(o2, 5)] as const
    await kate.start('kate', { ...listening(o0), keeper: { for: [bob.did] } })
    const joined: ConfigInput = { bootstrap: kate.bootstrap }
    await Promise.all([lou.start('lou', { ...listening(o1), ...joined }), mia.start('mia', { ...listening(o2), ...joined })])
    for (const one of [kate, lou, mia]) await one.until<ReachabilityReport>({ do: 'reachability' }, ({ state }) => state === 'direct')
    await Promise.all([
      alice.start('alice', { ...ANYWHERE, ...joined }),
      bob.start('bob', { ...ANYWHERE, ...joined, keepers: [kate.did] }, 'echo')
    ])

    const held = await bob.until<ReachabilityReport>({ do: 'reachability' }, isRelayed)
    await alice.until<ReachabilityReport>({ do: 'reachability' }, isRelayed)
    const open3 = [kate, lou, mia].map(({ peer }) => peer)
    expect(held.relays.every(({ peer }) => open3.includes(peer))).toBe(true)
    const serving = await Promise.all([kate, lou, mia].map((one) => one.ask<ReachabilityReport>({ do: 'reachability' })))
    expect(serving.reduce((sum, { serving }) => sum + (serving?.reservations ?? 0), 0)).toBeGreaterThanOrEqual(4)

    const overRelay = ({ addrs }: PeerAddress) => addrs.some((addr) => addr.endsWith('/p2p-circuit'))
    await alice.until<PeerAddress>({ do: 'locator', did: bob.did }, overRelay)
    expect(await alice.ask({ do: 'send', to: bob.did, messageId: 'over-a-relay' })).toBe('task')
    const [session] = await alice.ask<SessionInfo[]>({ do: 'sessions' })
    expect(session?.transport).toBe('relay')
    expect(await bob.ask({ do: 'received' })).toEqual(['over-a-relay'])
    // neither side can dial the other: the try for a direct connection is made and fails, and the relay carries on
    await bob.until<ReachabilityReport>({ do: 'reachability' }, ({ upgrades }) => upgrades.tried >= 1 && upgrades.direct === 0)

    // who can be dialled is dialled: the session leaves the relay
    await carol.start('carol', { listen: [`/ip4/${o2.address}/tcp/0`], ...joined, dht: { mode: 'client' } })
    await carol.until<PeerAddress>({ do: 'locator', did: bob.did }, overRelay)
    expect(await carol.ask({ do: 'send', to: bob.did, messageId: 'from-carol' })).toBe('task')
    await carol.until<SessionInfo[]>({ do: 'sessions' }, ([one]) => one?.state === 'established' && one.transport === 'tcp')
    await bob.until<ReachabilityReport>({ do: 'reachability' }, ({ upgrades }) => upgrades.direct === 1)
    expect(await carol.ask({ do: 'send', to: bob.did, messageId: 'directly' })).toBe('task')

    const lost = held.relays.find(({ peer }) => peer !== kate.peer)
    for (const one of [lou, mia]) if (one.peer === lost?.peer) one.kill()
    const after = await bob.until<ReachabilityReport>(
      { do: 'reachability' },
      (report) => isRelayed(report) && report.relays.every(({ peer }) => peer !== lost?.peer)
    )
    expect(after.relays.map(({ peer }) => peer).sort()).toEqual(open3.filter((peer) => peer !== lost?.peer).sort())
    await alice.until<PeerAddress>(
      { do: 'locator', did: bob.did },
      (at) => overRelay(at) && !at.addrs.some((addr) => addr.includes(lost?.peer ?? '?'))
    )
    await alice.until<string>({ do: 'send', to: bob.did, messageId: 'over-another-relay' }, (outcome) => outcome === 'task')

    const changed = n1.address.replace(/\.2$/, '.3')
    await readdress(n1, changed)
    await bob.until<string[]>(
      { do: 'addresses' },
      (all) => all.some((addr) => addr.includes(changed)) && !all.some((addr) => addr.includes(n1.address))
    )
    await alice.until<PeerAddress>({ do: 'locator', did: bob.did }, ({ addrs }) => addrs.some((addr) => addr.includes(`/${changed}/`)))
    await bob.until<ReachabilityReport>({ do: 'reachability' }, isRelayed)

    await bob.until<{ missed: number }>({ do: 'fetch' }, ({ missed }) => missed === 0)
    await setLink({ ...n1, address: changed }, 'down')
    const id = await alice.ask<string>({ do: 'post', to: bob.did, messageId: 'by-mailbox' })
    await alice.until<string>({ do: 'outbox', entry: id }, (state) => state === 'kept-by-1')
    await setLink({ ...n1, address: changed }, 'up')
    await bob.until<string[]>({ do: 'received' }, (ids) => ids.includes('by-mailbox'))
    expect((await bob.ask<string[]>({ do: 'received' })).filter((one) => one === 'by-mailbox')).toHaveLength(1)
  }, 600_000)
})

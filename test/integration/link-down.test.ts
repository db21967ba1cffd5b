import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import type { SessionInfo } from '../../src/sessions/session.ts'
import { type NatHost, type NatLab, natLab } from '../support/nat-namespaces.ts'
import { NatNode } from './nat-node.ts'

const ANYWHERE: ConfigInput = { listen: ['/ip4/0.0.0.0/udp/0/quic-v1', '/ip4/0.0.0.0/tcp/0'] }

let lab: NatLab | { refused: string } = { refused: 'it was not made' }
const nodes: NatNode[] = []
const node = (host: NatHost, number: number): NatNode => {
  const one = new NatNode(host, number)
  nodes.push(one)
  return one
}

beforeAll(async () => {
  lab = await natLab(3, [])
}, 120_000)
afterAll(async () => {
  await Promise.all(nodes.map((one) => one.stop()))
  if (!('refused' in lab)) await lab.remove()
}, 60_000)

describe('a session whose link goes down for longer than connections live', () => {
  it('[PSS-07] [SFC-09] goes on where it stopped when the link is back: with the address it had, with another one, and with other ones on both sides', async ({
    skip
  }) => {
    if ('refused' in lab) {
      if (process.env.ROOKERY_NAT === 'required') throw new Error(`ROOKERY_NAT=required, and no network namespaces: ${lab.refused}`)
      return skip(`no network namespaces here (install iproute2 and iptables, be root): ${lab.refused}`)
    }
    const { open, readdress, setLink } = lab
    const [rock, home, away] = open as [NatHost, NatHost, NatHost]
    const [kate, alice, bob] = [node(rock, 10), node(home, 11), node(away, 12)] as const
    await kate.start('kate', { listen: [`/ip4/${rock.address}/udp/0/quic-v1`, `/ip4/${rock.address}/tcp/0`] })
    const joined: ConfigInput = { ...ANYWHERE, bootstrap: kate.bootstrap }
    await Promise.all([alice.start('alice', joined), bob.start('bob', joined)])
    await alice.until<PeerAddress>({ do: 'locator', did: bob.did }, ({ addrs }) => addrs.length > 0)
    await bob.until<PeerAddress>({ do: 'locator', did: alice.did }, ({ addrs }) => addrs.length > 0)

    let sent = 0
    /** Ten items each way, of which none is acknowledged twice, lost or out of order when all is quiet. */
    const stream = async () => {
      const ids = await Promise.all([
        alice.ask<string>({ do: 'stream', to: bob.did, from: sent, count: 10 }),
        bob.ask<string>({ do: 'stream', to: alice.did, from: sent, count: 10 })
      ])
      sent += 10
      return ids
    }
    const settled = async () => {
      const all = (name: string) => Array.from({ length: sent }, (_, i) => `${name}-${i}`)
      await alice.until<string[]>({ do: 'acked' }, (list) => list.length === sent)
      await bob.until<string[]>({ do: 'acked' }, (list) => list.length === sent)
      expect(await bob.ask<string[]>({ do: 'items' })).toEqual(all('alice'))
      expect(await alice.ask<string[]>({ do: 'items' })).toEqual(all('bob'))
    }
    const first = await stream()
    await settled()

    const cut = async (host: NatHost, meanwhile: () => Promise<void> = async () => {}) => {
      await setLink(host, 'down')
      expect(await stream()).toEqual(first) // journaled while the peer is away, in the session that there is
      // until QUIC has given up the connection on both sides, for want of a word of the peer
      for (const one of [alice, bob]) await one.until<SessionInfo[]>({ do: 'sessions' }, ([session]) => session?.state === 'disconnected')
      await meanwhile()
    }
    await cut(away)
    await setLink(away, 'up')
    await settled()

    const moved = { ...away, address: '10.77.0.42' }
    await cut(away, () => readdress(away, moved.address, 'down'))
    await setLink(moved, 'up')
    await settled()
    await alice.until<PeerAddress>(
      { do: 'locator', did: bob.did },
      ({ addrs }) => addrs.some((addr) => addr.includes('/10.77.0.42/')) && !addrs.some((addr) => addr.includes(`/${away.address}/`))
    )

    await setLink(home, 'down')
    await cut(moved, async () => {
      await readdress(home, '10.77.0.51', 'down')
      await readdress(moved, '10.77.0.52', 'down')
    })
    await setLink({ ...home, address: '10.77.0.51' }, 'up')
    await setLink({ ...moved, address: '10.77.0.52' }, 'up')
    await settled()
    expect(await stream()).toEqual(first)
    await settled()
  }, 900_000)
})

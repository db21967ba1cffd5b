import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { gpCoordinate } from '../../protocol/discovery/names.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { Wire } from '../support/wire.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'

interface Started {
  node: RookeryNode
  agent: HostedAgent
  stored(): Promise<string[]>
}
const started: Started[] = []
afterEach(async () => {
  await Promise.all(started.splice(0).map(({ node }) => node.stop()))
})

/** A node on real QUIC over loopback, whose multicast is a wire of the test. */
async function start(number: number, wire: Wire, localPoints: object, bootstrap: RookeryNode[] = []): Promise<Started> {
  const level = new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })
  const node = await createNode(
    {
      listen: ['/ip4/127.0.0.1/udp/0/quic-v1'],
      bootstrap: bootstrap.map((other) => `${other.host.addresses()[0]}/p2p/${other.peer}`),
      localPoints
    },
    {
      level,
      nodeSeed: nodeCrypto.sha256(Uint8Array.of(0xc1, number)),
      http: 'off',
      link: wire.end('127.0.0.1'),
      neighbours: async () => []
    }
  )
  const agent = await node.addAgent({ name: 'agent', seed: nodeCrypto.sha256(Uint8Array.of(0xc2, number)) })
  const one = {
    node,
    agent,
    async stored() {
      const rows: string[] = []
      for await (const [key, value] of level.iterator()) rows.push(`${key} ${Buffer.from(value).toString('hex')}`)
      return rows
    }
  }
  started.push(one)
  return one
}

const failure = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error
  )

describe('agents of this link alone', () => {
  it('[ESE-06] [ESE-08] are read over the link, and nothing that the network can ask knows of them', async () => {
    const wire = new Wire()
    const a = await start(1, wire, { enabled: true, agents: ['agent'] })
    const b = await start(2, wire, { enabled: true, agents: ['agent'] }, [a.node])
    const c = await start(3, new Wire(), {}, [a.node])
    while (c.node.host.dht.routingTableSize() === 0) await new Promise((resolve) => setTimeout(resolve, 20))
    await c.node.spaces.announce({ name: SPACE, curator: c.agent })

    await a.node.localPoints?.register({ agent: a.agent, tag: 'lamp', access: 'open', value: { on: true } })
    expect(b.node.localPoints?.list()).toEqual([expect.objectContaining({ did: a.agent.did, tag: 'lamp', at: '127.0.0.1' })])
    expect(await b.node.readLocalPoint(b.agent, a.agent.eid, 'lamp')).toEqual({ on: true })

    // what would tell the network is refused, each by the same name
    const told = [
      a.node.locators.publish(a.agent),
      a.node.spaces.announce({ name: 'org.agentnet/lamps@1', curator: a.agent }),
      a.node.spaces.join({ name: SPACE, agent: a.agent }),
      a.node.points.register({ agent: a.agent, tag: 'lamp', access: 'open', value: 1 })
    ]
    for (const work of told)
      expect(await failure(work)).toMatchObject({ code: 'AGENT_LINK_ONLY', field: 'localPoints.agents', value: 'agent' })

    await a.node.locators.withdraw(a.agent)

    // and who is not on the wire finds nothing, asked or searched
    const { eid, eidHex } = a.agent
    expect(await failure(c.node.locators.resolve(eid))).toMatchObject({ code: 'AGENT_UNKNOWN' })
    expect(await failure(c.node.points.resolve({ eid, tag: 'lamp' }))).toMatchObject({ code: 'POINT_UNKNOWN' })
    expect((await c.node.spaces.find({ name: SPACE })).members).toEqual([])
    const found: unknown[] = []
    for await (const one of c.node.discover({ point: { did: a.agent.did, tag: 'lamp' } })) found.push(one)
    expect(found).toEqual([])
    expect((await c.stored()).filter((row) => row.includes(eidHex))).toEqual([])
    expect(b.node.host.dht.held(gpCoordinate(nodeCrypto, eid, 'lamp'))).toBeUndefined()
    expect(c.node.localPoints).toBeUndefined()
  })

  it('[ESE-08] may be known to the network too where that is configured', async () => {
    const wire = new Wire()
    const a = await start(4, wire, { enabled: true, global: 'yes' })
    const b = await start(5, wire, { enabled: true }, [a.node])
    await a.node.localPoints?.register({ agent: a.agent, tag: 'lamp', access: 'open', value: 1 })
    await a.node.points.register({ agent: a.agent, tag: 'lamp', access: 'open', value: 2 })
    expect(b.node.localPoints?.list().map(({ tag }) => tag)).toEqual(['lamp'])
    expect(
      await failure(b.node.localPoints?.register({ agent: b.agent, tag: 'x', access: 'open', value: 1 }) ?? Promise.resolve())
    ).toMatchObject({
      code: 'AGENT_GLOBAL'
    })
  })
})

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { gpKey } from '../../protocol/discovery/dht-key.ts'
import { gpCoordinate } from '../../protocol/discovery/names.ts'
import { decodePointMessage, encodePointMessage, POINT_CHANNEL } from '../../protocol/discovery/point-messages.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { FoundAnonymously } from '../../src/discovery/discover.ts'
import { startNetwork, stopNetwork, type TestNode } from '../support/discovery-network.ts'

let nodes: TestNode[] = []
const at = (index: number) => nodes[index] as TestNode
const owner = () => at(1)
const reader = () => at(2)

beforeAll(async () => {
  nodes = await startNetwork({ nodes: 8, k: 6 })
  for (const { node, agent } of nodes.slice(0, 4)) await node.locators.publish(agent)
})
afterAll(() => stopNetwork(nodes))

const read = (by: TestNode, tag: string, grant?: Uint8Array) =>
  by.node.points.read({ from: by.agent, eid: owner().agent.eid, tag, ...(grant === undefined ? {} : { grant }) })
const failure = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error
  )

describe('global points', () => {
  it('[ESE-09] [ESE-10] are found by EID and tag on another node, under the hash of both, and read over a session', async () => {
    const value = { queue: 'laser-2', pages: 40 }
    const made = await owner().node.points.register({ agent: owner().agent, tag: 'printer', access: 'open', value })
    expect(made).toMatchObject({ tag: 'printer', access: 'open', did: owner().agent.did, value })
    expect(made.stored).toBeGreaterThan(1)
    const coordinate = gpCoordinate(nodeCrypto, owner().agent.eid, 'printer')
    const found = await reader().node.points.resolve({ eid: owner().agent.eid, tag: 'printer' })
    expect(found).toMatchObject({ did: owner().agent.did, tag: 'printer', access: 'open', coordinate: toHex(coordinate), gen: made.gen })
    expect(await read(reader(), 'printer')).toEqual(value)
  })

  it('[ESE-09] are changed by a higher number and, once taken back, are unknown to all', async () => {
    const { points } = owner().node
    const first = await points.register({ agent: owner().agent, tag: 'scanner', access: 'open', value: 1 })
    const second = await points.register({ agent: owner().agent, tag: 'scanner', access: 'open', value: 2 })
    expect(second.gen).toBeGreaterThan(first.gen)
    expect(await read(reader(), 'scanner')).toBe(2)
    await points.remove({ agent: owner().agent, tag: 'scanner' })
    const of = { eid: owner().agent.eid, tag: 'scanner' }
    expect(await failure(reader().node.points.resolve(of))).toMatchObject({ code: 'POINT_UNKNOWN', field: 'tag', value: 'scanner' })
    expect(await failure(read(reader(), 'scanner'))).toMatchObject({ code: 'POINT_UNKNOWN' })
    expect(points.list().map(({ tag }) => tag)).not.toContain('scanner')
    expect(await failure(points.remove({ agent: owner().agent, tag: 'scanner' }))).toMatchObject({ code: 'POINT_UNKNOWN' })
  })

  it('[ESE-02] let those of their trust list read them and nobody else', async () => {
    const { points } = owner().node
    await points.register({ agent: owner().agent, tag: 'log', access: 'trust', value: 'ok', trust: [reader().agent.eid] })
    expect(await read(reader(), 'log')).toBe('ok')
    expect(await failure(read(at(3), 'log'))).toMatchObject({ code: 'POINT_DENIED', kind: 'refused', field: 'tag' })
    await points.register({ agent: owner().agent, tag: 'log', access: 'trust', value: 'ok', trust: [at(3).agent.eid] })
    expect(await failure(read(reader(), 'log'))).toMatchObject({ code: 'POINT_DENIED' })
    expect(await read(at(3), 'log')).toBe('ok')
  })

  it('[ESE-02] let who shows a grant read them, until it is revoked; the secret is kept hashed', async () => {
    const { points } = owner().node
    await points.register({ agent: owner().agent, tag: 'door', access: 'grant', value: 'open sesame' })
    expect(await failure(read(reader(), 'door'))).toMatchObject({ code: 'POINT_DENIED' })
    const secret = await points.grant({ agent: owner().agent, tag: 'door' }, { ttlMs: 60_000 })
    expect(await read(reader(), 'door', secret)).toBe('open sesame')
    expect(await failure(read(reader(), 'door', new Uint8Array(32)))).toMatchObject({ code: 'POINT_DENIED' })
    expect((await owner().stored()).filter((row) => row.includes(toHex(secret)))).toEqual([])
    const id = points.list().find(({ tag }) => tag === 'door')?.grants[0]?.id as string
    expect(await failure(points.revoke({ agent: owner().agent, tag: 'door' }, '0000000000000000'))).toMatchObject({ field: 'id' })
    await points.revoke({ agent: owner().agent, tag: 'door' }, id)
    expect(await failure(read(reader(), 'door', secret))).toMatchObject({ code: 'POINT_DENIED' })
    const short = await points.grant({ agent: owner().agent, tag: 'door' }, { ttlMs: 0 })
    expect(await failure(read(reader(), 'door', short))).toMatchObject({ code: 'POINT_DENIED' })
  })

  it('[AD-01] [DS-16] [ESE-09] are found anonymously too, by their coordinate, and their owner answers', async () => {
    await owner().node.points.register({ agent: owner().agent, tag: 'meter', access: 'open', value: 7 })
    const found: FoundAnonymously[] = []
    for await (const one of at(6).node.discover({ point: { did: owner().agent.did, tag: 'meter' } })) found.push(one)
    expect(new Set(found.map(({ did }) => did))).toEqual(new Set([owner().agent.did]))
    expect(found.some(({ kind, reachable }) => kind === 'member' && reachable)).toBe(true)
    expect(found[0]?.tags).toEqual(['meter'])
    expect(await at(6).node.points.read({ from: at(6).agent, eid: owner().agent.eid, tag: 'meter' })).toBe(7)
  })

  it('[ESE-02] are not harmed by what is no request, and give an unknown tag away as unknown', async () => {
    const session = await reader().node.openSession(reader().agent, owner().agent.eid)
    await session.send(POINT_CHANNEL, ITEM_KINDS.live, Uint8Array.of(0xff))
    await session.send(POINT_CHANNEL, ITEM_KINDS.live, encodePointMessage({ type: 'answer', request: 9, status: 'denied' }))
    expect(await failure(read(reader(), 'no such'))).toMatchObject({ code: 'POINT_UNKNOWN' })
    expect(await read(reader(), 'printer')).toMatchObject({ queue: 'laser-2' })
  })

  it('refuse a tag, a value, an access and a trust list that cannot be, naming the field', async () => {
    const { points } = owner().node
    const made = (more: object) => failure(points.register({ agent: owner().agent, tag: 'x', access: 'open', value: 1, ...more } as never))
    expect(await made({ tag: 'grüße' })).toMatchObject({ kind: 'usage', field: 'tag' })
    expect(await made({ value: 'x'.repeat(16_384) })).toMatchObject({ kind: 'usage', field: 'value' })
    expect(await made({ access: 'all' })).toMatchObject({ kind: 'usage', field: 'access' })
    expect(await made({ trust: [reader().agent.eid] })).toMatchObject({ kind: 'usage', field: 'trust' })
    expect(await failure(points.grant({ agent: owner().agent, tag: 'printer' }, { ttlMs: 1_000 }))).toMatchObject({ field: 'access' })
  })

  it('[D-25] follow their agent to its new EID and are taken back under the old one', async () => {
    const { node, agent } = at(3)
    await node.points.register({ agent, tag: 'door', access: 'grant', value: 'in' })
    const secret = await node.points.grant({ agent, tag: 'door' }, { ttlMs: 60_000 })
    const before = agent.as(agent.eid) as NonNullable<ReturnType<typeof agent.as>>
    node.agents.rotate(agent)
    await node.points.handOver(before, agent)
    expect(node.points.list().map(({ did, tag }) => [did, tag])).toEqual([[agent.did, 'door']])
    expect(await failure(reader().node.points.resolve({ eid: before.eid, tag: 'door' }))).toMatchObject({ code: 'POINT_UNKNOWN' })
    await node.locators.publish(agent)
    expect(await reader().node.points.read({ from: reader().agent, eid: agent.eid, tag: 'door', grant: secret })).toBe('in')
    expect(node.host.dht.held(gpKey(gpCoordinate(nodeCrypto, before.eid, 'door')))).toBeDefined()
  })
})

it('[ESE-09] messages of points are read back as they were written, and anything else is a ProtocolError', () => {
  for (const message of [
    { type: 'read', request: 1, tag: 'printer' },
    { type: 'read', request: 2, tag: 'printer', grant: new Uint8Array(32).fill(3) },
    { type: 'answer', request: 1, status: 'ok', value: new Uint8Array(5) },
    { type: 'answer', request: 1, status: 'unknown' }
  ] as const) {
    expect(decodePointMessage(encodePointMessage(message))).toEqual(message)
  }
  const bad = encodePointMessage({ type: 'answer', request: 1, status: 'denied', value: new Uint8Array(1) })
  for (const bytes of [bad, Uint8Array.of(0xa0), new Uint8Array(0)]) expect(() => decodePointMessage(bytes)).toThrow(ProtocolError)
})

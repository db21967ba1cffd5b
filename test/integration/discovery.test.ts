import { peerIdFromString } from '@libp2p/peer-id'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { concat, equals, toHex } from '../../protocol/bytes.ts'
import { joinKey } from '../../protocol/discovery/dht-key.ts'
import { dsId, parseSpaceName } from '../../protocol/discovery/names.ts'
import { decodeRequestHeader, REQUEST_HEADER_BYTES } from '../../protocol/discovery/request.ts'
import { ITEM_BYTES } from '../../protocol/discovery/sealed-item.ts'
import { requestSeed } from '../../protocol/discovery/work.ts'
import { context } from '../../protocol/identity/contexts.ts'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { DiscoverQuery } from '../../src/discovery/create-discovery.ts'
import type { DiscoveryEvent, FoundAnonymously } from '../../src/discovery/discover.ts'
import type { RookeryNode } from '../../src/node.ts'
import { type Seen, startNetwork, stopNetwork, type TestNode, watchDiscovery } from '../support/discovery-network.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'
const NODES = 16
const K = 5
const MEMBERS = [1, 2, 3, 4, 5]
/** says no to every anonymous request */
const SILENT = 5

const watch = watchDiscovery()
let nodes: TestNode[] = []
const at = (index: number) => nodes[index] as TestNode

async function search(
  node: RookeryNode,
  query: Partial<DiscoverQuery> = {}
): Promise<{ found: FoundAnonymously[]; events: DiscoveryEvent[] }> {
  const events: DiscoveryEvent[] = []
  const found: FoundAnonymously[] = []
  for await (const one of node.discover({ name: SPACE, ...query }, { onEvent: (event) => events.push(event) })) found.push(one)
  return { found, events }
}

const headersIn = (entries: readonly Seen[]) =>
  entries.flatMap(({ direction, read, ...rest }) => {
    const header = read.find((bytes) => bytes.length === REQUEST_HEADER_BYTES)
    return direction === 'in' && header !== undefined ? [{ ...rest, header, request: decodeRequestHeader(header) }] : []
  })
const bytesOf = (entries: readonly Seen[]) => entries.flatMap(({ read, written }) => [...read, ...written])
const holds = (hay: Uint8Array, needle: Uint8Array) => Buffer.from(hay).includes(Buffer.from(needle))

beforeAll(async () => {
  nodes = await startNetwork({
    nodes: NODES,
    k: K,
    overrides: (index) => (index === SILENT ? { answerPolicy: () => 'silent' } : {})
  })
  // a table that holds more than registrars, as tables do a moment after the start
  const { dht } = at(NODES - 1).node.host
  for (let i = 0; dht.table().length <= K + 1; i++) await dht.closestPeers(nodeCrypto.sha256(Uint8Array.of(i)))
  await at(1).node.spaces.announce({ name: SPACE, curator: at(1).agent })
  for (const index of MEMBERS) {
    await at(index).node.locators.publish(at(index).agent)
    await at(index).node.spaces.join({ name: SPACE, agent: at(index).agent, tags: index === 2 ? ['solar', 'de-by'] : ['wind'] })
  }
}, 120_000)

afterAll(async () => {
  await stopNetwork(nodes)
  watch.restore()
})

describe('an anonymous search over real nodes', () => {
  it('[AD-01] [AD-04] [AD-05] [AD-06] [D-07] [DS-16] [G-33] [G-36] shows its EID and PeerId to no registrar and no member, and theirs to no hop', async () => {
    const requester = at(NODES - 1)
    const own = [requester.agent.eid, peerIdFromString(requester.node.peer).toMultihash().bytes, Buffer.from(requester.node.peer)]
    const before = await Promise.all(nodes.map(async (one) => new Set(await one.stored())))
    const logged = nodes.map((one) => one.log.length)
    watch.seen.length = 0

    const { found, events } = await search(requester.node, { fanOut: 16, want: 'contact' })
    const seen = [...watch.seen]

    expect(found.map(({ did }) => did).sort()).toEqual(
      MEMBERS.filter((index) => index !== SILENT)
        .map((index) => at(index).agent.did)
        .sort()
    )
    expect(found.every(({ kind, reachable }) => kind === 'member' && reachable)).toBe(true)
    expect(events.find((event) => event.kind === 'sent')).toMatchObject({ path: 'stem', difficulty: 16 })

    // who got what from whom: the requester speaks to the first hop alone, over a stream opened for this request
    const requests = headersIn(seen)
    const fromRequester = requests.filter(({ peer }) => peer === requester.node.peer)
    expect(fromRequester.map(({ request }) => request.hops)).toEqual([3])
    expect(seen.filter(({ node, direction }) => node === requester.node.peer && direction === 'out')).toHaveLength(1)
    expect(new Set(requests.map(({ request }) => request.hops))).toEqual(new Set([3, 2, 1, 0]))
    expect(requests.filter(({ request }) => request.hops === 1).length).toBeLessThanOrEqual(3)
    const target = dsId(nodeCrypto, parseSpaceName(SPACE))
    for (const { request } of requests) expect(toHex(request.target)).toBe(toHex(target))
    const first = fromRequester[0]

    // what they saw: no byte of any frame is the requester's
    for (const bytes of bytesOf(seen)) for (const name of own) expect(holds(bytes, name)).toBe(false)

    // what they keep: nothing stored or logged since has to do with the requester, the request or its key
    const ephemeral = first?.request.ephemeral as Uint8Array
    const seed = requestSeed(first?.header as Uint8Array)
    for (const [index, one] of nodes.entries()) {
      if (one === requester) continue
      const fresh = (await one.stored()).filter((row) => !before[index]?.has(row))
      for (const name of [...own, ephemeral, seed]) {
        const hex = toHex(name)
        expect(fresh.filter((row) => row.includes(hex) || row.includes(requester.node.peer))).toEqual([])
      }
      expect((await one.stored()).filter((row) => row.includes(toHex(requester.agent.eid)))).toEqual([])
      const lines = one.log.slice(logged[index])
      for (const secret of [requester.agent.did, requester.agent.eidHex, toHex(ephemeral), toHex(seed)]) {
        expect(lines.filter((line) => line.includes(secret))).toEqual([])
      }
      expect(one.log.filter((line) => line.includes(requester.agent.eidHex) || line.includes(requester.agent.did))).toEqual([])
    }

    // answers: of one size, and nothing in them can be tried against a list of EIDs
    const items = seen.flatMap(({ read }) => read.filter((bytes) => bytes.length > 1_000))
    expect(items.length).toBeGreaterThan(0)
    for (const item of items) expect(item.length).toBe(ITEM_BYTES)
    for (const item of items) for (const { agent } of nodes) expect(holds(item, agent.eid)).toBe(false)
    const message = concat([context('discovery-sig'), seed])
    const item = items[0] as Uint8Array
    for (const { did } of found) {
      const eid = eidFromDid(did)
      for (let from = 0; from + 64 <= item.length; from += 8) {
        expect(nodeCrypto.ed25519.verify(eid, message, item.subarray(from, from + 64))).toBe(false)
      }
    }
  })

  it('[DS-17] [AD-07] brings public records from registrars and answers of members, each once, and those who say no stay silent', async () => {
    const { found } = await search(at(NODES - 2).node, { fanOut: 16 })
    const members = found.filter(({ kind }) => kind === 'member').map(({ did }) => did)
    const silent = at(SILENT).agent.did
    expect(new Set(members).size).toBe(members.length)
    expect(members).not.toContain(silent)
    expect(found.filter(({ did }) => did === silent).map(({ kind }) => kind)).toEqual(['record'])
    expect(new Set(found.map(({ did }) => did)).size).toBe(MEMBERS.length)
  })

  it('[G-27] finds by tags and mode only whom they fit', async () => {
    const solar = await search(at(10).node, { tags: ['solar', 'de-by'] })
    expect(new Set(solar.found.map(({ did }) => did))).toEqual(new Set([at(2).agent.did]))
    const asleep = await search(at(10).node, { mode: 'sleep' })
    expect(asleep.found).toEqual([])
  })

  it('[AD-04] uses a new key for every request', async () => {
    watch.seen.length = 0
    for (const index of [11, 11, 12]) await search(at(index).node, { want: 'records', fanOut: 1 })
    const keys = headersIn(watch.seen)
      .filter(({ request }) => request.hops === 3)
      .map(({ request }) => toHex(request.ephemeral))
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(3)
  })

  it('[AD-08] [G-32] lets the requester open a session with whom it found, who then learns its EID', async () => {
    const requester = at(13)
    const { found } = await search(requester.node, { tags: ['solar'], want: 'contact' })
    const other = found[0] as FoundAnonymously
    const responder = at(2)
    expect(equals(other.eid, responder.agent.eid)).toBe(true)
    expect(responder.node.sessions.list().filter(({ remote }) => remote === requester.agent.did)).toEqual([])
    const session = await requester.node.openSession(requester.agent, other.eid)
    expect(responder.node.sessions.list().some(({ remote }) => remote === requester.agent.did)).toBe(true)
    await session.close()
  })

  it('ends when its reader leaves, and when its signal fires', async () => {
    for await (const _ of at(14).node.discover({ name: SPACE })) break
    const enough = new AbortController()
    const searching = (async () => {
      for await (const _ of at(14).node.discover({ name: SPACE }, { signal: enough.signal })) enough.abort(new Error('enough'))
    })()
    await expect(searching).rejects.toThrow('enough')
  })

  it('[G-27] [AD-07] reaches an unlisted member, who answers itself, and shows it to nobody who asks for records or lists the space', async () => {
    const hidden = at(7)
    await hidden.node.locators.publish(hidden.agent)
    await hidden.node.spaces.join({ name: SPACE, agent: hidden.agent, tags: ['hidden'], listing: 'unlisted' })
    const contact = await search(at(12).node, { tags: ['hidden'], want: 'contact', fanOut: 16 })
    expect(contact.found).toMatchObject([{ did: hidden.agent.did, kind: 'member', reachable: true }])
    expect((await search(at(12).node, { tags: ['hidden'], want: 'records', fanOut: 16 })).found).toEqual([])
    for (const one of [at(3), hidden]) {
      const listed = (await one.node.spaces.find({ name: SPACE })).members.map(({ did }) => did)
      expect(listed).toHaveLength(MEMBERS.length)
      expect(listed).not.toContain(hidden.agent.did)
    }
    for await (const value of at(3).node.host.dht.values(joinKey(dsId(nodeCrypto, parseSpaceName(SPACE)), hidden.agent.eid))) {
      throw new Error(`the DHT holds ${value.length} bytes of an unlisted member`)
    }
    await hidden.node.spaces.leave({ name: SPACE, agent: hidden.agent })
  })

  it('[DS-15] [DS-16] finds members of a space with several parts though nobody said how many it has', async () => {
    const name = 'org.agentnet/big@1'
    await at(1).node.spaces.announce({ name, curator: at(1).agent, shards: 4 })
    for (const index of [2, 3, 4]) await at(index).node.spaces.join({ name, agent: at(index).agent })
    const { found, events } = await search(at(NODES - 1).node, { name, want: 'records', fanOut: 16 })
    const members = [2, 3, 4].map((index) => at(index).agent.did)
    expect(found.length).toBeGreaterThan(0)
    for (const { did } of found) expect(members).toContain(did)
    expect(events.filter(({ kind }) => kind === 'parts')[0]).toEqual({ kind: 'parts', shards: 4 })
  })

  it('[AD-02] refuses what cannot be meant, naming the field', async () => {
    const refused = (query: DiscoverQuery) =>
      search(at(3).node, query).then(
        () => undefined,
        (error) => error
      )
    expect(await refused({ name: 'org.agentnet/energy' })).toMatchObject({ kind: 'usage', field: 'name' })
    expect(await refused({ fanOut: 17 })).toMatchObject({ kind: 'usage', field: 'fanOut', value: 17 })
    expect(await refused({ minReputation: 101 })).toMatchObject({ kind: 'usage', field: 'minReputation' })
  })
})

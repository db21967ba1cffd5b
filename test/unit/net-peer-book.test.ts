import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import type { PeerId, PeerStore, PeerUpdate } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { beforeAll, describe, expect, it } from 'vitest'
import { ADDRS_MAX, keepInBook, PEERS_MAX, PeerBook } from '../../src/net/peer-book.ts'
import { sharedPeerId } from '../../src/net/shared-values.ts'
import { ManualClock } from '../../src/platform/clock.ts'

const HOUR_MS = 3_600_000
let self: PeerId
let peer: PeerId
let other: PeerId

beforeAll(async () => {
  const made = [1, 2, 3].map(async (fill) => peerIdFromPrivateKey(await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(fill))))
  ;[self, peer, other] = (await Promise.all(made)) as [PeerId, PeerId, PeerId]
})

function make(isAllowed: (addr: string) => boolean = () => true) {
  const clock = new ManualClock()
  const connected = new Set<string>()
  const changes: (PeerUpdate & { isSelf: boolean })[] = []
  const book = new PeerBook({
    self,
    clock,
    isConnected: (id) => connected.has(id.toString()),
    isAllowed: (addr) => isAllowed(addr.toString()),
    changed: (change, isSelf) => void changes.push({ ...change, isSelf })
  })
  return { book, clock, connected, changes }
}

const addr = (port: number) => multiaddr(`/ip4/127.0.0.1/udp/${port}/quic-v1`)
const shown = (book: PeerBook, id: PeerId) => book.peer(id)?.addresses.map(({ multiaddr: one }) => one.toString())

describe('the book of peers', () => {
  it('merges addresses, protocols, tags and metadata, and replaces those that a patch names', async () => {
    const { book } = make()
    await book.merge(peer, { multiaddrs: [addr(1)], protocols: ['/b'], tags: { kept: { value: 5 } }, metadata: { a: Uint8Array.of(1) } })
    await book.merge(peer, {
      multiaddrs: [addr(2)],
      protocols: ['/a', '/b'],
      tags: { kept: undefined, more: {} },
      metadata: { b: Uint8Array.of(2) }
    })
    const merged = await book.get(peer)
    expect(shown(book, peer)).toEqual([addr(1).toString(), addr(2).toString()])
    expect(merged.protocols).toEqual(['/a', '/b'])
    expect([...merged.tags].map(([name, { value }]) => [name, value])).toEqual([['more', 0]])
    expect([...merged.metadata.keys()]).toEqual(['a', 'b'])
    await book.patch(peer, { addresses: [{ multiaddr: addr(3), isCertified: true }], protocols: ['/c'] })
    const patched = await book.get(peer)
    expect(shown(book, peer)).toEqual([addr(3).toString()])
    expect(patched.protocols).toEqual(['/c'])
    expect([...patched.metadata.keys()]).toEqual(['a', 'b'])
    expect(merged.protocols).toEqual(['/a', '/b'])
  })

  it('tells of a change once, with what was known before, and of none where nothing changed', async () => {
    const { book, changes } = make()
    await book.merge(peer, { multiaddrs: [addr(1)], protocols: ['/a'] })
    await book.merge(peer, { multiaddrs: [multiaddr(`${addr(1)}/p2p/${peer}`)], protocols: ['/a'], tags: {}, metadata: {} })
    await book.merge(peer, { protocols: ['/b'] })
    await book.merge(self, { protocols: ['/a'] })
    expect(changes.map(({ isSelf, previous, peer: now }) => [isSelf, previous?.protocols, now.protocols])).toEqual([
      [false, undefined, ['/a']],
      [false, ['/a'], ['/a', '/b']],
      [true, undefined, ['/a']]
    ])
    expect(changes[1]?.peer.id.equals(peer)).toBe(true)
  })

  it('[F103] shows an address for an hour after it was last told, or its peer last heard of', async () => {
    const { book, clock } = make()
    await book.merge(peer, { multiaddrs: [addr(1), addr(2)] })
    clock.advance(HOUR_MS - 1)
    await book.merge(peer, { multiaddrs: [addr(2)] })
    clock.advance(1)
    expect(shown(book, peer)).toEqual([addr(2).toString()])
    clock.advance(HOUR_MS - 2)
    await book.merge(peer, { protocols: ['/a'] })
    clock.advance(HOUR_MS - 1)
    expect(shown(book, peer)).toEqual([addr(2).toString()])
    clock.advance(1)
    expect(shown(book, peer)).toEqual([])
    await book.merge(peer, { multiaddrs: [addr(1)] })
    expect(shown(book, peer)).toEqual([addr(1).toString()])
  })

  it('shows the addresses of a peer for as long as it is connected, and an hour more', async () => {
    const { book, clock, connected } = make()
    await book.merge(peer, { multiaddrs: [addr(1)] })
    connected.add(peer.toString())
    clock.advance(10 * HOUR_MS)
    expect(shown(book, peer)).toEqual([addr(1).toString()])
    connected.clear()
    clock.advance(HOUR_MS - 1)
    expect(shown(book, peer)).toEqual([addr(1).toString()])
    clock.advance(1)
    expect(shown(book, peer)).toEqual([])
  })

  it('[F103] forgets a peer unheard of for six hours, and never its own node', async () => {
    const { book, clock } = make()
    await book.merge(self, { multiaddrs: [addr(1)] })
    await book.merge(other, { protocols: ['/a'] })
    await book.merge(peer, { multiaddrs: [addr(1)] })
    clock.advance(6 * HOUR_MS)
    expect([await book.has(peer), await book.has(other)]).toEqual([true, true])
    clock.advance(1)
    expect(await book.has(peer)).toBe(false)
    await expect(book.get(peer)).rejects.toMatchObject({ name: 'NotFoundError' })
    expect(shown(book, self)).toEqual([addr(1).toString()])
    await book.delete(self)
    expect(await book.has(self)).toBe(true)
  })

  it('[F103] remembers a bounded number of peers: the one unheard of for longest goes, its own node never', async () => {
    const { book } = make()
    const id = (i: number) => {
      const multihash = new Uint8Array(34)
      multihash.set([0x12, 0x20])
      new DataView(multihash.buffer).setUint32(2, i)
      return sharedPeerId(multihash)
    }
    await book.merge(self, {})
    for (let i = 0; i < PEERS_MAX - 1; i++) await book.merge(id(i), {})
    await book.merge(id(0), {})
    await book.merge(id(PEERS_MAX), {})
    expect(book.size).toBe(PEERS_MAX)
    expect([await book.has(self), await book.has(id(0)), await book.has(id(1)), await book.has(id(2))]).toEqual([true, true, false, true])
  })

  it('[F103] keeps those who are connected, however many names others tell', async () => {
    const { book, connected } = make()
    await book.merge(self, {})
    await book.merge(peer, { multiaddrs: [addr(1)] })
    await book.merge(other, { multiaddrs: [addr(2)] })
    connected.add(peer.toString())
    const flood = (i: number) => {
      const multihash = new Uint8Array(38).fill(7)
      multihash.set([0, 36, 8, 1, 18, 32])
      new DataView(multihash.buffer).setUint32(6, i)
      return sharedPeerId(multihash)
    }
    for (let i = 0; i < PEERS_MAX + 100; i++) await book.merge(flood(i), {})
    expect(book.size).toBe(PEERS_MAX)
    expect([await book.has(self), await book.has(peer), await book.has(other)]).toEqual([true, true, false])
  })

  it('[F103] keeps a bounded number of addresses of one peer: those it signed for, and the latest told of the others', async () => {
    const { book, clock } = make()
    await book.patch(peer, { addresses: [{ multiaddr: addr(1), isCertified: true }] })
    for (let port = 2; port < ADDRS_MAX + 10; port++) {
      clock.advance(1)
      await book.merge(peer, { multiaddrs: [addr(port)] })
    }
    const kept = shown(book, peer) ?? []
    expect(kept).toHaveLength(ADDRS_MAX)
    expect(kept).toContain(addr(1).toString())
    expect(kept).toContain(addr(ADDRS_MAX + 9).toString())
    expect(kept).not.toContain(addr(2).toString())
  })

  it('[F035] keeps no address that is not allowed', async () => {
    const { book } = make((text) => !text.includes('/udp/2/'))
    await book.merge(peer, { multiaddrs: [addr(1), addr(2)] })
    expect(shown(book, peer)).toEqual([addr(1).toString()])
  })

  it('lets a tag end with its time, and refuses values and times that are none', async () => {
    const { book, clock } = make()
    await book.merge(peer, { multiaddrs: [addr(1)], tags: { short: { value: 100, ttl: 1_000 }, long: { value: 1 } } })
    clock.advance(1_000)
    expect([...((await book.get(peer)).tags.keys() ?? [])]).toEqual(['long'])
    for (const tag of [{ value: 101 }, { value: -1 }, { value: 0.5 }, { ttl: -1 }]) {
      await expect(book.merge(peer, { tags: { wrong: tag } })).rejects.toMatchObject({ name: 'InvalidParametersError' })
    }
    await expect(book.merge(peer, { publicKey: other.publicKey as never })).rejects.toMatchObject({ name: 'InvalidParametersError' })
  })

  it('holds its own bytes of what it is given, not the message they came in', async () => {
    const { book } = make()
    const message = new Uint8Array(65_536).fill(7)
    await book.patch(peer, { peerRecordEnvelope: message.subarray(10, 40), metadata: { a: message.subarray(0, 8) } })
    const { peerRecordEnvelope, metadata } = await book.get(peer)
    expect(peerRecordEnvelope?.buffer.byteLength).toBe(30)
    expect(metadata.get('a')?.buffer.byteLength).toBe(8)
  })

  it("stands in the place of libp2p's own store, lists all but its own node, and filters, orders and cuts as asked", async () => {
    const { book } = make()
    const store = { get: async () => expect.unreachable() } as unknown as PeerStore
    keepInBook(store, book)
    await store.merge(self, { protocols: ['/a'] })
    await store.merge(peer, { protocols: ['/a'], multiaddrs: [addr(1)] })
    await store.save(other, { protocols: ['/a', '/b'] })
    expect((await store.all()).map(({ id }) => id.toString())).toEqual([peer.toString(), other.toString()])
    expect(await store.all({ filters: [({ protocols }) => protocols.includes('/b')] })).toHaveLength(1)
    const longest = await store.all({ orders: [(a, b) => (a.protocols.length > b.protocols.length ? -1 : 1)], limit: 1 })
    expect(longest[0]?.id.equals(other)).toBe(true)
    expect((await store.getInfo(peer)).multiaddrs).toHaveLength(1)
    await store.delete(peer)
    const seen: string[] = []
    await store.forEach(({ id }) => void seen.push(id.toString()))
    expect(seen).toEqual([other.toString()])
  })
})

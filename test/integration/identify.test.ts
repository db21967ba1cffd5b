import { noise } from '@chainsafe/libp2p-noise'
import { yamux } from '@chainsafe/libp2p-yamux'
import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import { identify } from '@libp2p/identify'
import type { IdentifyResult } from '@libp2p/interface'
import { tcp } from '@libp2p/tcp'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import { afterEach, describe, expect, it } from 'vitest'
import { concat, utf8 } from '../../protocol/bytes.ts'
import { IDENTIFY_PROTOCOL, type IdentifyComponents, LeanIdentify } from '../../src/net/identify.ts'
import { FieldWriter, fieldsOf } from '../../src/net/protobuf.ts'
import { openAddrs, sealAddrs } from '../../src/net/signed-peer-record.ts'
import { collect } from '../../src/net/stream-bytes.ts'
import { systemClock } from '../../src/platform/clock.ts'

const nodes: Libp2p[] = []

afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.stop()))
})

/** A plain libp2p node with its own identify, or with ours in its place. */
async function start(kind: 'plain' | 'lean', fill: number) {
  let lean: LeanIdentify | undefined
  const node = await createLibp2p({
    privateKey: await keyOf(fill),
    addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
    transports: [tcp()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
    connectionMonitor: { enabled: false },
    connectionManager: { inboundConnectionThreshold: 1_000 },
    connectionGater: { denyDialMultiaddr: () => false },
    services: {
      identify: (components: IdentifyComponents) => {
        if (kind === 'plain') return identify()(components as never)
        lean = new LeanIdentify(components, systemClock)
        return lean.service
      }
    }
  })
  nodes.push(node as never)
  const heard: IdentifyResult[] = []
  node.addEventListener('peer:identify', ({ detail }) => heard.push(detail))
  return { node, heard, lean }
}

const keyOf = (fill: number) => generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(fill))
const never = new AbortController().signal

describe('who a peer is', () => {
  for (const [a, b] of [
    ['lean', 'plain'],
    ['plain', 'lean'],
    ['lean', 'lean']
  ] as const) {
    it(`is told between ${a} and ${b}: key, protocols, versions and signed addresses of both`, async () => {
      const one = await start(a, 1)
      const other = await start(b, 2)
      await other.node.handle('/test/1', () => {})
      await one.node.dial(other.node.getMultiaddrs())
      await expect.poll(() => [one.heard.length, other.heard.length], { timeout: 60_000 }).toEqual([1, 1])
      for (const [from, to] of [
        [one, other],
        [other, one]
      ] as const) {
        const told = from.heard[0] as IdentifyResult
        expect(told.peerId.equals(to.node.peerId)).toBe(true)
        expect([...told.protocols].sort()).toEqual(to.node.getProtocols())
        expect(told.agentVersion).toMatch(/libp2p/)
        const stored = await from.node.peerStore.get(to.node.peerId)
        expect(stored.protocols).toEqual(to.node.getProtocols())
        expect([...stored.metadata.keys()]).toEqual(expect.arrayContaining(['AgentVersion', 'ProtocolVersion']))
        const listened = to.node.getMultiaddrs().map((addr) => addr.toString().replace(/\/p2p\/.*/, ''))
        expect(stored.addresses.filter(({ isCertified }) => isCertified).map(({ multiaddr }) => multiaddr.toString())).toEqual(listened)
      }
      expect(other.heard[0]?.observedAddr?.toString()).toMatch(/^\/ip4\/127\.0\.0\.1\/tcp\//)
    })
  }

  it('is said anew once a protocol is added, and under the same signature before', async () => {
    const { node } = await start('lean', 1)
    const asker = await start('plain', 2)
    const connection = await asker.node.dial(node.getMultiaddrs())
    // a peer asks once at a time
    await expect.poll(() => asker.heard.length, { timeout: 60_000 }).toBe(1)
    const ask = async () => {
      const stream = await connection.newStream(IDENTIFY_PROTOCOL)
      const bytes = await collect(stream, { bytesMax: 10_000, signal: never })
      await stream.close()
      await expect.poll(() => node.getConnections()[0]?.streams.length, { timeout: 60_000 }).toBe(0)
      const fields = [...fieldsOf(bytes.subarray(2))]
      return {
        protocols: fields.filter(({ number }) => number === 3).length,
        record: fields.find(({ number }) => number === 8)?.bytes
      }
    }
    const first = await ask()
    const again = await ask()
    expect(again).toEqual(first)
    await node.handle('/test/more', () => {})
    expect((await ask()).protocols).toBe(first.protocols + 1)
  })

  it('is not believed of a peer that says another key, addresses of another, nonsense, or too much', async () => {
    const { node, heard, lean } = await start('lean', 1)
    const liar = await start('plain', 2)
    const strangerKey = await keyOf(3)
    const stranger = await start('plain', 3)
    const own = new FieldWriter().bytes(1, concat([Uint8Array.of(8, 1, 18, 32), (await keyOf(2)).publicKey.raw])).finish()
    const foreignKey = new FieldWriter().bytes(1, concat([Uint8Array.of(8, 1, 18, 32), strangerKey.publicKey.raw])).finish()
    const foreign = await sealAddrs(strangerKey, stranger.node.peerId, stranger.node.getMultiaddrs(), 1n)
    const broken = await sealAddrs(await keyOf(2), liar.node.peerId, liar.node.getMultiaddrs(), 1n)
    broken[broken.length - 1] = (broken.at(-1) as number) ^ 1
    const withRecord = (record: Uint8Array) => concat([own, new FieldWriter().bytes(8, record).finish()])
    const lies = [foreignKey, withRecord(foreign), withRecord(broken), Uint8Array.of(0x0a, 0xff), new Uint8Array(0), new Uint8Array(9_000)]
    for (const lie of lies) {
      await liar.node.unhandle(IDENTIFY_PROTOCOL)
      await liar.node.handle(IDENTIFY_PROTOCOL, async (stream) => {
        stream.send(concat([new FieldWriter().length(lie.length).finish(), lie]))
        await stream.close()
      })
      const connection = await node.dial(liar.node.getMultiaddrs())
      await expect(lean?.identified(connection)).rejects.toThrow()
      await connection.close()
    }
    expect(heard).toEqual([])
    await liar.node.unhandle(IDENTIFY_PROTOCOL)
    await liar.node.handle(IDENTIFY_PROTOCOL, async (stream) => {
      stream.send(concat([new FieldWriter().length(own.length).finish(), own]))
      await stream.close()
    })
    await node.dial(liar.node.getMultiaddrs())
    await expect.poll(() => heard.length, { timeout: 60_000 }).toBe(1)
  })

  it('is kept within bounds: 64 protocols of at most 128 bytes, 64 addresses, versions of 128 characters, however much a peer says', async () => {
    const { node, heard } = await start('lean', 1)
    const talker = await start('plain', 2)
    const said = new FieldWriter().bytes(1, concat([Uint8Array.of(8, 1, 18, 32), (await keyOf(2)).publicKey.raw]))
    said.bytes(5, utf8('p'.repeat(300))).bytes(6, utf8('a'.repeat(300)))
    said.bytes(3, utf8(`/${'x'.repeat(128)}`)).bytes(3, utf8(`/${'y'.repeat(127)}`))
    for (let i = 0; i < 200; i++) said.bytes(3, utf8(`/many/${i}`)).bytes(2, multiaddr(`/ip4/127.0.0.1/tcp/${i + 1}`).bytes)
    const message = said.finish()
    await talker.node.unhandle(IDENTIFY_PROTOCOL)
    await talker.node.handle(IDENTIFY_PROTOCOL, async (stream) => {
      stream.send(concat([new FieldWriter().length(message.length).finish(), message]))
      await stream.close()
    })
    await node.dial(talker.node.getMultiaddrs())
    await expect.poll(() => heard.length, { timeout: 60_000 }).toBe(1)
    const [{ protocols, listenAddrs, agentVersion, protocolVersion }] = heard as [IdentifyResult]
    expect(protocols).toHaveLength(64)
    expect(protocols[0]).toBe(`/${'y'.repeat(127)}`)
    expect(listenAddrs).toHaveLength(64)
    expect([agentVersion, protocolVersion]).toEqual(['a'.repeat(128), 'p'.repeat(128)])
    const stored = await node.peerStore.get(talker.node.peerId)
    expect([stored.protocols.length, stored.addresses.length]).toEqual([64, 64])
  })
})

describe('a signed peer record', () => {
  it('opens to what was sealed, and an older one does not replace a newer', async () => {
    const { node } = await start('lean', 1)
    const key = await keyOf(1)
    const sealed = await sealAddrs(key, node.peerId, node.getMultiaddrs(), 7n)
    const opened = await openAddrs(sealed)
    expect(opened.seq).toBe(7n)
    expect(opened.addrs.map(String)).toEqual(node.getMultiaddrs().map(String))
    expect(node.peerId.equals(opened.peer)).toBe(true)
    expect(await openAddrs(sealed.slice())).toBe(opened)
    expect(await node.peerStore.consumePeerRecord(sealed, { expectedPeer: node.peerId })).toBe(true)
    const older = await sealAddrs(key, node.peerId, [], 6n)
    expect(await node.peerStore.consumePeerRecord(older)).toBe(false)
  })

  it('is refused where a byte of it is another, whatever byte', async () => {
    const { node } = await start('lean', 1)
    const sealed = await sealAddrs(await keyOf(1), node.peerId, node.getMultiaddrs(), 7n)
    const before = await openAddrs(sealed)
    for (let i = 0; i < sealed.length; i++) {
      const forged = sealed.slice()
      forged[i] = (forged[i] as number) ^ 0x40
      const outcome = await openAddrs(forged).catch(() => 'refused')
      expect(outcome, `byte ${i}`).toBe('refused')
    }
    expect(await openAddrs(sealed)).toBe(before)
  })

  it('is told as not signed where its signature is of no length that its key makes', async () => {
    const { node } = await start('lean', 1)
    const fields = [...fieldsOf(await sealAddrs(await keyOf(1), node.peerId, node.getMultiaddrs(), 7n))]
    for (const length of [0, 1, 63, 65, 512]) {
      const envelope = new FieldWriter()
      for (const { number, bytes } of fields) envelope.bytes(number, number === 5 ? new Uint8Array(length) : bytes)
      await expect(openAddrs(envelope.finish()), `${length} bytes`).rejects.toThrow('signature of a peer record')
    }
  })
})

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { MemoryLevel } from 'memory-level'
import { afterEach, describe, expect, it } from 'vitest'
import { systemRandom } from '../../src/platform/random.ts'
import { Store } from '../../src/store/store.ts'
import { addressOf, recordingLogger, startHost, stopHosts, until } from './host-fixture.ts'

afterEach(stopHosts)

const PROTOCOL = '/rookery/test/1.0.0'

async function freeUdpPort(): Promise<number> {
  const socket = createSocket('udp6')
  socket.bind(0, '::')
  await once(socket, 'listening')
  const { port } = socket.address()
  await new Promise<void>((resolve) => socket.close(() => resolve()))
  return port
}

describe('listening', () => {
  it('[PSS-05] listens on QUIC with one UDP port for both families, and each is reached (F044)', async () => {
    const port = await freeUdpPort()
    const init = { listen: [`/ip4/0.0.0.0/udp/${port}/quic-v1`, `/ip6/::/udp/${port}/quic-v1`] }
    const logger = recordingLogger()
    const b = await startHost({ init, logger })
    await b.handle(PROTOCOL, async (stream) => stream.close())
    const families = b.addresses().some((addr) => addr.startsWith('/ip6/::1/')) ? ['/ip4/127.0.0.1', '/ip6/::1'] : ['/ip4/127.0.0.1']
    for (const family of families) {
      const a = await startHost()
      const stream = await a.openStream({ peer: b.peer, addrs: [`${family}/udp/${port}/quic-v1`] }, PROTOCOL)
      expect(stream.connection.transport).toBe('quic')
      expect(stream.connection.remoteAddr).toContain(family)
    }
    expect(logger.lines.filter(({ level }) => level === 'warn')).toHaveLength(2 - families.length)
  })

  it('names field, value and remedy when a UDP port is taken', async () => {
    const a = await startHost()
    const taken = a.addresses()[0] as string
    await expect(startHost({ init: { listen: [taken] } })).rejects.toMatchObject({
      code: 'PORT_IN_USE',
      kind: 'conflict',
      field: 'listen[0]',
      value: taken,
      remedy: expect.stringContaining('port')
    })
  })

  it('names field, value and remedy when a TCP port is taken', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const listen = ['/ip4/127.0.0.1/udp/0/quic-v1', `/ip4/127.0.0.1/tcp/${port}`]
    await expect(startHost({ init: { listen } })).rejects.toMatchObject({ code: 'PORT_IN_USE', field: 'listen[1]', value: listen[1] })
    server.close()
  })

  it.each([
    ['listen[0]', { listen: ['/ip4/127.0.0.1/upd/0'] }, 'ADDRESS_INVALID'],
    ['listen[0]', { listen: ['/ip4/127.0.0.1/udp/0'] }, 'LISTEN_FAILED'],
    ['announce[1]', { announce: ['/ip4/127.0.0.1/tcp/1', 'nowhere'] }, 'ADDRESS_INVALID'],
    ['bootstrap[0]', { bootstrap: ['example.org:4001'] }, 'ADDRESS_INVALID'],
    ['bootstrap[0]', { bootstrap: ['/ip4/127.0.0.1/udp/1/quic-v1'] }, 'ADDRESS_INVALID']
  ] as const)('refuses a wrong %s by name and value (F106)', async (field, init, code) => {
    await expect(startHost({ init })).rejects.toMatchObject({ code, kind: 'config', field, value: Object.values(init)[0].at(-1) })
  })

  it('has the same PeerId for the same seed and another for another (F100)', async () => {
    const privateKey = systemRandom.bytes(32)
    const first = await startHost({ init: { privateKey } })
    await first.stop()
    expect((await startHost({ init: { privateKey } })).peer).toBe(first.peer)
    expect((await startHost()).peer).not.toBe(first.peer)
  })
})

describe('finding peers', () => {
  it('joins through the good bootstrap entry and only warns about the others (F106)', async () => {
    const privateKey = systemRandom.bytes(32)
    const probe = await startHost({ init: { privateKey } })
    const self = `${probe.addresses()[0]}/p2p/${probe.peer}`
    await probe.stop()
    const good = await startHost()
    const gone = await startHost()
    const dead = `${gone.addresses()[0]}/p2p/${gone.peer}`
    await gone.stop()
    const entry = `${good.addresses()[0]}/p2p/${good.peer}`
    const logger = recordingLogger()
    const node = await startHost({ logger, init: { privateKey, bootstrap: [dead, self, entry, entry] } })
    await until(node, () => node.peers().includes(good.peer))
    const warnings = logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
    expect(warnings).toContain('a bootstrap entry is this node itself and is left out')
    expect(warnings).toContain('a bootstrap entry stands in the list twice')
  })

  it('starts alone at once, and comes back when its only peer does (F037, F038)', async () => {
    const privateKey = systemRandom.bytes(32)
    const port = await freeUdpPort()
    const listen = [`/ip4/127.0.0.1/udp/${port}/quic-v1`]
    const first = await startHost({ init: { privateKey, listen } })
    const startedAt = performance.now()
    const node = await startHost({ init: { bootstrap: [`${listen[0]}/p2p/${first.peer}`] } })
    expect(performance.now() - startedAt).toBeLessThan(5_000)
    await until(node, () => node.peers().length === 1)
    await first.stop()
    await until(node, () => node.peers().length === 0)
    await startHost({ init: { privateKey, listen } })
    await until(node, () => node.peers().length === 1)
  })

  it('remembers over a restart whom it met, without any bootstrap list', async () => {
    const store = new Store(new MemoryLevel({ keyEncoding: 'utf8', valueEncoding: 'view' }))
    const friend = await startHost()
    await friend.handle(PROTOCOL, async (stream) => stream.close())
    const first = await startHost({ store })
    await (await first.openStream(addressOf(friend), PROTOCOL)).close()
    await first.stop()
    const second = await startHost({ store })
    await until(second, () => second.peers().includes(friend.peer))
    await second.stop()
    await store.close()
  })

  it('meets another node of its LAN by multicast alone', async () => {
    const [a, b] = [await startHost({ init: { mdns: true } }), await startHost({ init: { mdns: true } })]
    await until(a, () => a.peers().includes(b.peer))
  })

  it('dials no private address on a public node, and tells none (F035)', async () => {
    const lan = await startHost()
    const node = await startHost({ init: { network: 'public', listen: ['/ip4/127.0.0.1/udp/0/quic-v1', '/ip4/127.0.0.1/tcp/0'] } })
    expect(node.addresses()).toEqual([])
    await expect(node.openStream(addressOf(lan), PROTOCOL)).rejects.toMatchObject({ code: 'DIAL_FAILED' })
    expect(lan.peers()).toEqual([])
  })
})

describe('errors of openStream', () => {
  it('names an unsupported protocol, an unreachable peer and a PeerId that is none', async () => {
    const [a, b] = await Promise.all([startHost(), startHost()])
    await expect(a.openStream(addressOf(b), '/nobody/speaks/this')).rejects.toMatchObject({
      code: 'PROTOCOL_UNSUPPORTED',
      value: '/nobody/speaks/this'
    })
    const to = addressOf(b)
    await b.stop()
    await until(a, () => a.peers().length === 0)
    await expect(a.openStream({ peer: to.peer, addrs: ['/ip4/127.0.0.1/tcp/1'] }, PROTOCOL)).rejects.toMatchObject({
      code: 'DIAL_FAILED',
      field: 'peer',
      value: to.peer
    })
    await expect(a.openStream({ peer: 'nobody', addrs: [] }, PROTOCOL)).rejects.toMatchObject({ code: 'PEER_INVALID', field: 'peer' })
  })

  it('gets nobody else than the peer it asked for', async () => {
    const [a, b, c] = await Promise.all([startHost(), startHost(), startHost()])
    await expect(a.openStream({ peer: c.peer, addrs: b.addresses() }, PROTOCOL)).rejects.toMatchObject({ code: 'DIAL_FAILED' })
  })

  it('keeps one connection for many streams (F053)', async () => {
    const [a, b] = await Promise.all([startHost(), startHost()])
    await b.handle(PROTOCOL, async () => {})
    const streams = await Promise.all(Array.from({ length: 10 }, () => a.openStream(addressOf(b), PROTOCOL)))
    expect(new Set(streams.map(({ connection }) => connection.id)).size).toBe(1)
  })
})

describe('stopping', () => {
  it('stops within 5 s during a dial, with open streams and look-ups, twice at once, and again later (F095)', async () => {
    const [a, b] = await Promise.all([startHost(), startHost()])
    await b.handle(PROTOCOL, async () => {})
    await a.openStream(addressOf(b), PROTOCOL)
    const nowhere = { peer: (await startHost()).peer, addrs: ['/ip4/192.0.2.1/udp/9/quic-v1', '/ip4/192.0.2.1/tcp/9'] }
    const dialling = a.openStream(nowhere, PROTOCOL)
    const looking = a.dht.closestPeers(new Uint8Array(40))
    const startedAt = performance.now()
    const ends = Promise.allSettled([dialling, looking])
    await Promise.all([a.stop(), a.stop()])
    await a.stop()
    expect(performance.now() - startedAt).toBeLessThan(5_000)
    expect((await ends)[0]).toMatchObject({ status: 'rejected', reason: { code: 'HOST_STOPPED' } })
    await expect(a.openStream(addressOf(b), PROTOCOL)).rejects.toMatchObject({ code: 'HOST_STOPPED' })
  })

  it('tells its peers at once that it goes (F056)', async () => {
    const [a, b] = await Promise.all([startHost(), startHost()])
    await b.handle(PROTOCOL, async () => {})
    const stream = await a.openStream(addressOf(b), PROTOCOL)
    const reading = expect(stream.read(1)).rejects.toMatchObject({ code: 'STREAM_RESET' })
    const startedAt = performance.now()
    await b.stop()
    await until(a, () => a.peers().length === 0)
    expect(performance.now() - startedAt).toBeLessThan(1_000)
    await reading
    await stream.closed
  })

  it('is reached again right after each of 10 restarts on the same port (F047)', async () => {
    const privateKey = systemRandom.bytes(32)
    const listen = [`/ip4/127.0.0.1/udp/${await freeUdpPort()}/quic-v1`]
    const a = await startHost()
    for (let round = 0; round < 10; round++) {
      const b = await startHost({ init: { privateKey, listen } })
      await b.handle(PROTOCOL, async (stream) => {
        await stream.write(await stream.read(1))
        await stream.close()
      })
      const stream = await a.openStream({ peer: b.peer, addrs: listen }, PROTOCOL, { signal: AbortSignal.timeout(3_000) })
      await stream.write(Uint8Array.of(round))
      expect(await stream.read(1)).toEqual(Uint8Array.of(round))
      await b.stop()
    }
  })
})

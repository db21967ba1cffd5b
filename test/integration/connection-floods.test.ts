import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { NETWORK_CONNECTIONS_MIN, PEER_CONNECTIONS_MAX } from '../../src/net/connection-shares.ts'
import type { Host } from '../../src/net/host.ts'
import { UPGRADE_MS, WAITING_PER_ADDRESS_MAX } from '../../src/net/websocket-guard.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { rawDials } from '../support/raw-dials.ts'
import { addressOf, startHost, stopHosts, until } from './host-fixture.ts'

const ECHO = '/test/echo/1.0.0'
/** Each address of 127.0.0.0/8 counts as a network of its own, so that one machine can play several. */
const networkOf = (address: string) => address.split('/')[2]

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  await stopHosts()
})

async function echoing(carrier: 'tcp' | 'quic', connectionsMax = 16): Promise<Host> {
  const host = await startHost({ carrier, init: { networkOf, connectionsMax } })
  await host.handle(ECHO, async (stream) => {
    await stream.write(await stream.read(4))
    await stream.close()
  })
  return host
}

async function echo(from: Host, to: Host): Promise<string> {
  const stream = await from.openStream(addressOf(to), ECHO)
  await stream.write(Buffer.from('ping'))
  const got = Buffer.from(await stream.read(4)).toString()
  await stream.close()
  return got
}

const portOf = (host: Host) => Number(/\/(?:tcp|udp)\/(\d+)/.exec(host.addresses()[0] as string)?.[1])

/** A connection that says what it is told to, and tells when it was shut. */
async function silent(port: number, localAddress: string): Promise<{ socket: Socket; shut: Promise<unknown> }> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  cleanups.push(() => socket.destroy())
  socket.on('error', () => {})
  socket.resume()
  const shut = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()))
  return { socket, shut }
}

describe('connections that say nothing, or a byte at a time', () => {
  it('are held up to the share of their network: the rest is shut at once, and a stranger from elsewhere comes in', async () => {
    const host = await echoing('tcp')
    const port = portOf(host)
    const first = await Promise.all(Array.from({ length: NETWORK_CONNECTIONS_MIN }, () => silent(port, '127.0.0.9')))
    const more = await Promise.all(Array.from({ length: 32 }, () => silent(port, '127.0.0.9')))
    // some drip the handshake's first bytes, which is no more than saying nothing
    for (const { socket } of [...first, ...more].filter((_, i) => i % 2 === 0)) socket.write('\x13')
    await Promise.all(more.map(({ shut }) => shut))
    // by their time alone the first would have been the first to go
    expect(first.filter(({ socket }) => socket.destroyed)).toEqual([])
    const stranger = await startHost({ carrier: 'tcp' })
    expect(await echo(stranger, host)).toBe('ping')
  })

  it('do not stay: a handshake that is not done in ten seconds is over, and its place is free again, for no more than the share', async () => {
    const host = await echoing('tcp')
    const held = await Promise.all(Array.from({ length: NETWORK_CONNECTIONS_MIN }, () => silent(portOf(host), '127.0.0.9')))
    await Promise.all(held.map(({ shut }) => shut))
    const again = await Promise.all(Array.from({ length: NETWORK_CONNECTIONS_MIN + 1 }, () => silent(portOf(host), '127.0.0.9')))
    await Promise.race(again.map(({ shut }) => shut))
    expect(again.filter(({ socket }) => socket.destroyed)).toHaveLength(1)
  })
})

describe('connections to a WebSocket listener', () => {
  const listening = async () => {
    const clock = new ManualClock()
    const host = await startHost({ clock, init: { listen: ['/ip4/127.0.0.1/tcp/0/ws'] } })
    await host.handle(ECHO, async (stream) => {
      await stream.write(await stream.read(4))
      await stream.close()
    })
    return { clock, host, port: portOf(host) }
  }

  it('that are not upgraded in ten seconds are shut: silent, in the middle of a head, and after an answer; one that is goes on', async () => {
    const { clock, host, port } = await listening()
    const honest = await startHost({ carrier: 'tcp' })
    expect(await echo(honest, host)).toBe('ping')
    let lost = 0
    host.onPeer(({ kind }) => {
      if (kind === 'disconnect') lost++
    })
    const held = await Promise.all(Array.from({ length: 3 }, () => silent(port, '127.0.0.9')))
    held[1]?.socket.write('GET / HTTP/1.1\r\nX-Slow: ')
    held[2]?.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    // its answer shows that the listener has met all three
    await new Promise<void>((resolve) => held[2]?.socket.once('data', () => resolve()))
    clock.advance(UPGRADE_MS - 1)
    expect(held.slice(0, 2).map(({ socket }) => socket.destroyed)).toEqual([false, false])
    clock.advance(1)
    await Promise.all(held.map(({ shut }) => shut))
    expect(await echo(honest, host)).toBe('ping')
    expect(lost).toBe(0)
  })

  it('are so many of one address, and others come in beside them', async () => {
    const { host, port } = await listening()
    await Promise.all(Array.from({ length: WAITING_PER_ADDRESS_MAX }, () => silent(port, '127.0.0.9')))
    const more = await Promise.all(Array.from({ length: 8 }, () => silent(port, '127.0.0.9')))
    await Promise.all(more.map(({ shut }) => shut))
    expect(await echo(await startHost({ carrier: 'tcp' }), host)).toBe('ping')
  })
})

describe('connections of one peer', () => {
  it('are sixteen over QUIC, however often it dials, and a stranger comes in beside them', async () => {
    const host = await echoing('quic', 300)
    const peers = await Promise.all(Array.from({ length: 2 }, () => startHost()))
    const [flooder, stranger] = peers as [Host, Host]
    const opened: string[] = []
    host.onConnection(({ peer }) => void opened.push(peer))
    const { libp2p, done } = await rawDials(addressOf(host), 30)
    cleanups.push(() => libp2p.stop())
    expect(await done).toBeGreaterThanOrEqual(PEER_CONNECTIONS_MAX)
    await until(host, () => opened.length >= PEER_CONNECTIONS_MAX)
    expect(opened.filter((peer) => peer === libp2p.peerId.toString())).toHaveLength(PEER_CONNECTIONS_MAX)
    expect(await echo(flooder, host)).toBe('ping')
    expect(await echo(stranger, host)).toBe('ping')
  })
})

describe('datagrams from an address that has not answered', () => {
  /** The first datagram that a client sends to a QUIC listener. */
  async function firstFlight(of: Host): Promise<Buffer> {
    const decoy = createSocket('udp4')
    cleanups.push(() => decoy.close())
    decoy.bind(0, '127.0.0.1')
    await once(decoy, 'listening')
    const client = await startHost()
    const abort = new AbortController()
    const dialling = client
      .openStream({ peer: of.peer, addrs: [`/ip4/127.0.0.1/udp/${decoy.address().port}/quic-v1`] }, ECHO, { signal: abort.signal })
      .catch(() => {})
    const [datagram] = (await once(decoy, 'message')) as [Buffer]
    abort.abort(new Error('seen enough'))
    await dialling
    return datagram
  }

  /** All that comes back to a sender that never acknowledges anything, until it has been quiet for as long as QUIC's repetitions double to. */
  async function answered(socket: UdpSocket, quietMs: number): Promise<number> {
    let bytes = 0
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, quietMs)
      socket.on('message', (datagram) => {
        bytes += datagram.length
        timer.refresh()
      })
    })
    return bytes
  }

  it('are answered by no more than three times their bytes and the rest of a datagram, and junk by no more than its own', async () => {
    const host = await echoing('quic')
    const initial = await firstFlight(host)
    expect(initial.length).toBeGreaterThanOrEqual(1_200)
    const spoofed = createSocket('udp4')
    cleanups.push(() => spoofed.close())
    const send = async (bytes: Uint8Array) => {
      spoofed.send(bytes, portOf(host), '127.0.0.1')
      return await answered(spoofed, 3_000)
    }
    const handshake = await send(initial)
    expect(handshake).toBeGreaterThan(0)
    // RFC 9000 §8.1 says three times; the QUIC library looks before it sends, so that its last datagram may go over.
    expect(handshake).toBeLessThan(3 * initial.length + 1_200)
    const unknownVersion = Buffer.from(initial)
    unknownVersion.writeUInt32BE(0x1a2a3a4a, 1)
    const junk = Buffer.alloc(1_200, 0x41)
    const short = Buffer.from([0xc0, 0, 0, 0, 1, 0, 0])
    const fresh = createSocket('udp4')
    cleanups.push(() => fresh.close())
    for (const bytes of [unknownVersion, junk, short]) {
      fresh.send(bytes, portOf(host), '127.0.0.1')
      expect(await answered(fresh, 1_000)).toBeLessThanOrEqual(bytes.length)
    }
  })
})

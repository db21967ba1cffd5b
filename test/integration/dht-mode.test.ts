import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { encodeCbor } from '../../protocol/cbor.ts'
import { DIAL_BACK_MS, DIAL_BACK_PROTOCOL } from '../../src/net/dial-back.ts'
import { readFrame, writeFrame } from '../../src/net/frame.ts'
import type { Host } from '../../src/net/host.ts'
import { ManualClock, systemClock } from '../../src/platform/clock.ts'
import { freePort } from '../support/free-port.ts'
import { addressOf, recordingLogger, startHost, stopHosts, until } from './host-fixture.ts'

const KAD = '/rookery/kad/1.0.0'

/** A door in front of a port: shut, as a NAT is to who calls from outside, or open. */
class Door {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  isOpen = false

  private constructor(server: Server) {
    this.#server = server
  }

  static async to(port: () => number): Promise<Door> {
    const server = createServer()
    const door = new Door(server)
    server.on('connection', (outer) => {
      door.#sockets.add(outer)
      outer.on('error', () => {})
      if (!door.isOpen) return void outer.destroy()
      const inner = connect(port(), '127.0.0.1')
      door.#sockets.add(inner)
      inner.on('error', () => outer.destroy())
      inner.on('close', () => outer.destroy())
      outer.on('close', () => inner.destroy())
      outer.pipe(inner).pipe(outer)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return door
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  shut(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }
}

const doors: Door[] = []
afterEach(async () => {
  await stopHosts()
  for (const door of doors.splice(0)) door.shut()
})

/** Moves the clock from timer to timer, with real time before those that a round of dial-backs may be waiting on. */
async function passes(clock: ManualClock, ms: number, check: () => boolean): Promise<void> {
  const untilMs = clock.monotonicMs() + ms
  while (!check() && clock.monotonicMs() < untilMs) {
    const nextMs = clock.nextDueMs() ?? ms
    if (nextMs <= DIAL_BACK_MS) for (let i = 0; i < 8 && !check(); i++) await systemClock.sleep(10)
    if (!check()) clock.advance(nextMs)
  }
  expect(check()).toBe(true)
}

async function connected(host: Host, others: readonly Host[]): Promise<void> {
  for (const other of others) await (await host.openStream(addressOf(other), '/ipfs/ping/1.0.0')).close()
  await until(host, () => others.every(({ peer }) => host.peers().includes(peer)))
}

describe('a node that finds out by itself whether others reach it', () => {
  it('[F040] is a client of the DHT behind a shut door, a server once that opens, and a client again when it shuts', async () => {
    const clock = new ManualClock(systemClock.nowMs())
    const logger = recordingLogger()
    const port = await freePort('tcp')
    const door = await Door.to(() => port)
    doors.push(door)
    const others = await Promise.all([0, 1, 2].map(() => startHost({ carrier: 'tcp', clock })))
    const init = { listen: [`/ip4/127.0.0.1/tcp/${port}`], announce: [`/ip4/127.0.0.1/tcp/${door.port}`], dht: { mode: 'auto' as const } }
    const host = await startHost({ carrier: 'tcp', clock, logger, init })
    await connected(host, others)
    expect(host.dht.mode()).toBe('server')
    await passes(clock, 10_000, () => host.dht.mode() === 'client')
    const caller = others[0] as Host
    await expect(caller.openStream({ peer: host.peer, addrs: [] }, KAD)).rejects.toMatchObject({ code: 'PROTOCOL_UNSUPPORTED' })
    door.isOpen = true
    await passes(clock, 16 * 60_000, () => host.dht.mode() === 'server')
    const stream = await caller.openStream({ peer: host.peer, addrs: [] }, KAD)
    stream.reset(new Error('enough'))
    door.isOpen = false
    await passes(clock, 16 * 60_000, () => host.dht.mode() === 'client')
    const told = logger.lines.filter(({ message }) => message.startsWith('this node is a'))
    expect(told.map(({ message }) => message.split(' ')[4])).toEqual(['client', 'server', 'client'])
  })

  it('[F040] stays a server where peers reach it, and a client where it is set to be one', async () => {
    const clock = new ManualClock(systemClock.nowMs())
    const others = await Promise.all([0, 1].map(() => startHost({ carrier: 'quic', clock })))
    const reachable = await startHost({ carrier: 'quic', clock, init: { dht: { mode: 'auto' } } })
    const byHand = await startHost({ carrier: 'quic', clock, init: { dht: { mode: 'client' } } })
    for (const host of [reachable, byHand]) await connected(host, others)
    for (let i = 0; i < 20; i++) {
      clock.advance(1_000)
      await systemClock.sleep(10)
    }
    expect([reachable.dht.mode(), byHand.dht.mode()]).toEqual(['server', 'client'])
  })

  it('is a client on the internet while it has no public address of its own', async () => {
    const host = await startHost({ carrier: 'quic', init: { network: 'public', dht: { mode: 'auto' } } })
    expect(host.dht.mode()).toBe('client')
    const announced = await startHost({
      carrier: 'quic',
      init: { network: 'public', announce: ['/ip4/8.8.8.8/udp/4711/quic-v1'], dht: { mode: 'auto' } }
    })
    expect(announced.dht.mode()).toBe('server')
  })
})

describe('a node that is asked to dial back', () => {
  async function ask(from: Host, to: Host, body: Uint8Array): Promise<string> {
    const stream = await from.openStream(addressOf(to), DIAL_BACK_PROTOCOL)
    try {
      await writeFrame(stream, body, 1 << 20)
      await stream.closeWrite()
      return Buffer.from(await readFrame(stream, 1_000)).toString('latin1')
    } finally {
      stream.reset(new Error('done'))
    }
  }

  it('[F035] dials no other machine and no port of a stranger for one that asks, says so, and dials once in 30 s', async () => {
    const clock = new ManualClock(systemClock.nowMs())
    let knocks = 0
    const stranger = createServer(() => void knocks++)
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.2', resolve))
    const { port } = stranger.address() as AddressInfo
    const [a, b] = await Promise.all([startHost({ clock }), startHost({ clock })])
    const question = (addrs: string[]) => encodeCbor({ v: 1, addrs })
    expect(await ask(a, b, question([`/ip4/127.0.0.2/tcp/${port}`, '/dns4/localhost/tcp/1']))).toContain('no')
    expect(knocks).toBe(0)
    expect(await ask(a, b, question(a.addresses()))).toContain('untried')
    clock.advance(30_000)
    expect(await ask(a, b, question(a.addresses()))).toContain('yes')
    stranger.close()
  })

  it('[F104] resets what is no question', async () => {
    const [a, b] = await Promise.all([startHost(), startHost()])
    for (const body of [
      new Uint8Array(0),
      Uint8Array.of(1, 2),
      encodeCbor({ v: 2, addrs: [] }),
      encodeCbor({ v: 1, addrs: ['a', 'b', 'c', 'd', 'e'] }),
      new Uint8Array(5_000)
    ]) {
      await expect(ask(a, b, body)).rejects.toMatchObject({ code: expect.stringMatching(/^STREAM_/) })
    }
  })
})

import { type ChildProcess, fork } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { addressOf, startHost, stopHosts, until } from './host-fixture.ts'

const ECHO = '/rookery/echo/1.0.0'
const SCRIPT = fileURLToPath(new URL('./host-process.ts', import.meta.url))
const children = new Set<ChildProcess>()

afterEach(async () => {
  await stopHosts()
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }
  children.clear()
})

interface Peer {
  child: ChildProcess
  address: PeerAddress
}

async function forkHost(seed: Uint8Array, listen = ['/ip4/127.0.0.1/udp/0/quic-v1']): Promise<Peer> {
  const child = fork(SCRIPT, { execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  children.add(child)
  child.send({ seed: toHex(seed), listen })
  const [message] = (await once(child, 'message')) as [{ address?: PeerAddress; error?: string }]
  if (message.address === undefined) throw new Error(message.error)
  return { child, address: message.address }
}

async function rssOf({ child }: Peer): Promise<number> {
  child.send({ ask: 'memory' })
  const [{ rss }] = (await once(child, 'message')) as [{ rss: number }]
  return rss
}

describe('two processes', () => {
  it('[PSS-05] exchange bytes over QUIC, and over nothing else', async () => {
    const peer = await forkHost(systemRandom.bytes(32))
    const a = await startHost()
    const stream = await a.openStream(peer.address, ECHO)
    expect(stream.connection.transport).toBe('quic')
    expect(stream.connection.remoteAddr).toBe(`${peer.address.addrs[0]}/p2p/${peer.address.peer}`)
    expect(peer.address.addrs.every((addr) => addr.endsWith('/quic-v1'))).toBe(true)
    for (let i = 0; i < 100; i++) {
      await stream.write(Uint8Array.of(i))
      expect(await stream.read(1)).toEqual(Uint8Array.of(i))
    }
    await stream.close()
    await stream.closed
  })

  it('hold a writer back while the other process reads nothing, and its memory stays flat', async () => {
    const peer = await forkHost(systemRandom.bytes(32))
    const a = await startHost()
    const stream = await a.openStream(peer.address, '/rookery/never-reads/1.0.0')
    await stream.write(new Uint8Array(1))
    const before = await rssOf(peer)
    let written = 0
    const writing = (async () => {
      for (; written < 128 * 1024 * 1024; written += 65_536) await stream.write(new Uint8Array(65_536))
    })()
    const ended = expect(writing).rejects.toMatchObject({ code: 'STREAM_RESET' })
    let last = -1
    while (last !== written) {
      last = written
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    expect(written).toBeLessThan(6 * 1024 * 1024)
    expect((await rssOf(peer)) - before).toBeLessThan(40 * 1024 * 1024)
    stream.reset(new Error('enough'))
    await ended
  })

  it('are together again soon after one was killed and started anew on its port, by redial of a dead connection (F047)', async () => {
    const seed = systemRandom.bytes(32)
    const socket = createSocket('udp4').bind(0, '127.0.0.1')
    await once(socket, 'listening')
    const listen = [`/ip4/127.0.0.1/udp/${socket.address().port}/quic-v1`]
    await new Promise<void>((resolve) => socket.close(() => resolve()))
    const first = await forkHost(seed, listen)
    const a = await startHost()
    const old = await a.openStream(first.address, ECHO)
    const gone = once(first.child, 'exit')
    first.child.kill('SIGKILL')
    await gone
    const second = await forkHost(seed, listen)
    const startedAt = performance.now()
    const stream = await a.openStream(second.address, ECHO)
    await stream.write(Uint8Array.of(1))
    expect(await stream.read(1)).toEqual(Uint8Array.of(1))
    expect(performance.now() - startedAt).toBeLessThan(8_000)
    expect(stream.connection.id).not.toBe(old.connection.id)
  })

  it('stops within 5 s while some of its peers have frozen (F098)', async () => {
    const frozen = await Promise.all([forkHost(systemRandom.bytes(32)), forkHost(systemRandom.bytes(32))])
    const a = await startHost()
    const lively = await Promise.all(
      Array.from({ length: 6 }, () => startHost({ init: { bootstrap: addressOf(a).addrs.map((addr) => `${addr}/p2p/${a.peer}`) } }))
    )
    await until(a, () => a.peers().length >= lively.length)
    const streams = await Promise.all(frozen.map(({ address }) => a.openStream(address, ECHO)))
    for (const { child } of frozen) child.kill('SIGSTOP')
    const writing = Promise.allSettled(streams.map((stream) => stream.write(new Uint8Array(8 * 1024 * 1024))))
    const startedAt = performance.now()
    await a.stop()
    expect(performance.now() - startedAt).toBeLessThan(5_000)
    await writing
    await Promise.all(streams.map((stream) => stream.closed))
  })
})

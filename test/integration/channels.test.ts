import { type ChildProcess, fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { PeerAddress } from '../../src/net/host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { acceptStream, type ByteReader, openStream } from '../../src/sessions/byte-channel.ts'
import { openChannel } from '../../src/sessions/channel.ts'
import type { DurableSession } from '../../src/sessions/durable-session.ts'
import type { Inbound } from '../../src/sessions/session.ts'
import { agentOf, type Node, nodeOn } from '../unit/sessions/memory-net.ts'
import { type ChannelOrder, type ChannelReport, contentOf } from './channel-process.ts'
import { addressOf, startHost, stopHosts } from './host-fixture.ts'

const MIB = 1_048_576
const WINDOW_BYTES = 2 * MIB
const text = (value: string) => new TextEncoder().encode(value)
const word = ({ payload }: Inbound) => new TextDecoder().decode(payload)

const nodes: Node[] = []
const peers: Peer[] = []

async function node(byte: number, seed: number): Promise<Node> {
  const one = await nodeOn(await startHost(), systemClock, [agentOf(byte)], { channels: [] }, seed)
  nodes.push(one)
  return one
}

async function two() {
  const [a, b] = [await node(0xa1, 1), await node(0xb2, 2)]
  const mine = (await a.manager.open(agentOf(0xa1), agentOf(0xb2).eid, addressOf(b.host))) as DurableSession
  return { a, b, mine, theirs: b.sessions[0] as DurableSession }
}

/** {@link ChannelOrder} and {@link ChannelReport} with a node in a process of its own. */
class Peer {
  readonly dir = mkdtempSync(join(tmpdir(), 'rookery-channel-'))
  readonly reports: ChannelReport[] = []
  readonly #own: number
  readonly #role: string
  #child!: ChildProcess
  #wake: (() => void) | undefined
  address!: PeerAddress

  constructor(own: number, role: string) {
    this.#own = own
    this.#role = role
    peers.push(this)
  }

  async start(): Promise<this> {
    const args = [this.dir, `${this.#own}`, this.#role]
    this.#child = fork(new URL('./channel-process.ts', import.meta.url), args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    this.#child.on('message', (report: ChannelReport) => {
      this.reports.push(report)
      this.#wake?.()
    })
    const at = this.reports.length
    this.address = (await this.until((report): report is ChannelReport & { kind: 'listening' } => report.kind === 'listening', at)).address
    return this
  }

  order(order: ChannelOrder): void {
    this.#child.send(order)
  }

  async until<T extends ChannelReport>(check: (report: ChannelReport) => report is T, from = 0): Promise<T> {
    for (;;) {
      const failed = this.reports.slice(from).find(({ kind }) => kind === 'failed')
      if (failed !== undefined) throw new Error(JSON.stringify(failed))
      const found = this.reports.slice(from).find(check)
      if (found !== undefined) return found
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }
}

afterEach(async () => {
  for (const peer of peers.splice(0)) {
    await peer.kill()
    rmSync(peer.dir, { recursive: true, force: true })
  }
  await Promise.all(nodes.splice(0).map((one) => one.manager.stop()))
  await stopHosts()
})

describe('channels over QUIC', () => {
  it('[PSS-03] [PSS-17] run several at once, durable and live, each on a stream of its own, with messages to 1 MiB', async () => {
    const { mine, theirs } = await two()
    const modes = ['durable', 'live', 'durable', 'live'] as const
    const largest = new Uint8Array(MIB).map((_, i) => (i * 7) % 251)
    const loops = modes.map(async (mode, i) => {
      const sizes: number[] = []
      for await (const { payload } of openChannel(theirs, 16 + i, { mode })) {
        sizes.push(payload.length)
        if (payload.length === MIB) expect(Buffer.compare(payload, largest)).toBe(0)
      }
      return sizes
    })
    const sizes = [0, 1, 65_535, 65_536, MIB - 1, MIB]
    const before = mine.held().streams
    await Promise.all(
      modes.map(async (mode, i) => {
        const channel = openChannel(mine, 16 + i, { mode })
        await Promise.all([...sizes.map((size) => channel.send(largest.subarray(0, size))), channel.end()])
      })
    )
    for (const loop of loops) expect(await loop).toEqual(sizes)
    expect(mine.held().streams - before).toBe(modes.length)
    await expect(openChannel(mine, 30).send(new Uint8Array(MIB + 1))).rejects.toMatchObject({ code: 'MESSAGE_TOO_LARGE' })
  })

  it('[PSS-20] half-close: one side says no more and reads on, the other drains, answers and then says so too', async () => {
    const { mine, theirs } = await two()
    const answering = (async () => {
      const channel = openChannel(theirs, 16)
      let count = 0
      for await (const _ of channel) count += 1
      for (let i = 0; i < 3; i++) void channel.send(text(`${count} came, answer ${i}`)).catch(() => {})
      await channel.end()
    })()
    const channel = openChannel(mine, 16)
    await Promise.all([...Array.from({ length: 50 }, (_, i) => channel.send(text(`${i}`))), channel.end()])
    const answers: string[] = []
    for await (const item of channel) answers.push(word(item))
    await answering
    expect(answers).toEqual(['50 came, answer 0', '50 came, answer 1', '50 came, answer 2'])
    expect(channel.isOver).toBe(true)
    await mine.close()
    expect(await theirs.closed).toEqual({ reason: 'done' })
  })

  it('[PSS-20] a reader that stands still makes send wait at the window, and a signal ends the waiting; other channels go on', async () => {
    const { mine, theirs } = await two()
    openChannel(theirs, 16)
    const slow = openChannel(mine, 16)
    const deadline = AbortSignal.timeout(1_500)
    const outcomes = await Promise.allSettled(Array.from({ length: 80 }, () => slow.send(new Uint8Array(65_536), { signal: deadline })))
    expect(outcomes.every((one) => one.status === 'rejected' && one.reason === deadline.reason)).toBe(true)
    expect(mine.held()).toMatchObject({ journal: 16 }) // one starting window
    const other = openChannel(mine, 17, { mode: 'live' })
    await other.send(text('through'))
    expect(word((await openChannel(theirs, 17, { mode: 'live' }).receive()) as Inbound)).toBe('through')
    await openChannel(theirs, 16).stop()
  })

  it('[PSS-18] [PSS-20] an unordered channel delivers every message once while large ones hold up none of the small', async () => {
    const { mine, theirs } = await two()
    const options = { order: 'unordered', lanes: 4 } as const
    const numberOf = ({ payload }: Inbound) => new DataView(payload.slice().buffer).getUint16(0)
    const got: number[] = []
    const channel = openChannel(mine, 16, options)
    const message = (number: number, bytes: number) => {
      const payload = new Uint8Array(bytes)
      new DataView(payload.buffer).setUint16(0, number)
      return channel.send(payload)
    }
    const sent = Promise.all([message(0, MIB), ...Array.from({ length: 300 }, (_, i) => message(i + 1, 100)), channel.end()])
    // Nobody reads the lane of the large message until every small one is here.
    for await (const item of openChannel(theirs, 17, { order: 'unordered', lanes: 3 })) got.push(numberOf(item))
    expect(got.toSorted((x, y) => x - y)).toEqual(Array.from({ length: 300 }, (_, i) => i + 1))
    const large: number[] = []
    for await (const item of openChannel(theirs, 16)) large.push(numberOf(item))
    expect(large).toEqual([0])
    await sent
  })

  it('memory stays within the published window while up to 1 GiB of live messages meets a reader that stands still, then one that reads', async () => {
    const a = await node(0xa1, 1)
    const reader = await new Peer(0xb2, 'stalled').start()
    const session = (await a.manager.open(agentOf(0xa1), agentOf(0xb2).eid, reader.address)) as DurableSession
    const channel = openChannel(session, 16, { mode: 'live' })
    const isMemory = (report: ChannelReport): report is ChannelReport & { kind: 'memory' } => report.kind === 'memory'
    const memory = () => reader.reports.filter(isMemory).at(-1) as ChannelReport & { kind: 'memory' }
    await reader.until(isMemory)
    const chunk = new Uint8Array(65_536)
    const limit = AbortSignal.timeout(20_000)
    const [ownBefore, peerBefore] = [process.memoryUsage().arrayBuffers, memory().rssBytes]
    let sent = 0
    const writers = Array.from({ length: 4 }, async () => {
      while (sent < 1024 * MIB && !limit.aborted) {
        await channel.send(chunk, { signal: limit })
        sent += chunk.length
      }
    })
    const flood = Promise.allSettled(writers)
    const settledAt = async () => {
      for (let last = -1; last !== sent || sent === 0; await systemClock.sleep(500)) last = sent
      return sent
    }
    const stuck = await settledAt()
    expect(stuck).toBeLessThanOrEqual(WINDOW_BYTES)
    await systemClock.sleep(1_000)
    expect(sent).toBe(stuck)
    const stalled = { own: process.memoryUsage().arrayBuffers - ownBefore, peer: memory().rssBytes - peerBefore }
    expect(stalled.own).toBeLessThan(16 * MIB)
    expect(stalled.peer).toBeLessThan(24 * MIB)
    reader.order({ do: 'read' })
    await flood
    await channel.end()
    await reader.until((report): report is ChannelReport & { kind: 'done' } => report.kind === 'done')
    expect(memory().received).toBeGreaterThanOrEqual(sent)
    expect(memory().received).toBeLessThanOrEqual(sent + writers.length * chunk.length) // at the limit a message may be on its way
    expect(sent).toBeGreaterThan(64 * MIB)
    const peerMost = Math.max(...reader.reports.filter(isMemory).map(({ rssBytes }) => rssBytes))
    expect(peerMost - peerBefore).toBeLessThan(192 * MIB)
  }, 90_000)
})

describe('byte streams over QUIC', () => {
  it.each(['live', 'durable'] as const)('[PSS-17] carry 16 MiB, %s, whole and in order', async (mode) => {
    const { mine, theirs } = await two()
    const hash = createHash('sha256')
    const reading = (async () => {
      const reader = await acceptStream(theirs)
      for await (const chunk of reader) hash.update(chunk)
      return reader
    })()
    const writer = await openStream(mine, { mode, length: 16 * MIB, label: 'sixteen' })
    const expected = createHash('sha256')
    for (const chunk of contentOf(16 * MIB)) {
      expected.update(chunk)
      await writer.write(chunk)
    }
    await writer.close()
    const reader = await reading
    expect(reader).toMatchObject({ label: 'sixteen', length: 16 * MIB, mode, position: 16 * MIB })
    expect(hash.digest('hex')).toBe(expected.digest('hex'))
  })

  it('pipe as web streams', async () => {
    const { mine, theirs } = await two()
    const [writer, reader] = await Promise.all([openStream(mine), acceptStream(theirs)])
    const content = contentOf(3 * MIB)
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        const next = content.next()
        if (next.done === true) controller.close()
        else controller.enqueue(next.value)
      }
    })
    const piped = source.pipeTo(writer.writable())
    let bytes = 0
    const sink = new WritableStream<Uint8Array>({
      write(chunk) {
        bytes += chunk.length
      }
    })
    await reader.readable().pipeTo(sink)
    await piped
    expect(bytes).toBe(3 * MIB)
  })

  it('[F049] 250 one after another and 150 at once over one connection, a quarter refused: all end with their own outcome, no stream is left', async () => {
    const { a, b, mine, theirs } = await two()
    const channels = Array.from({ length: 10 }, (_, i) => 40 + i)
    let served = 0
    const serve = async (channel: number) => {
      for (;;) {
        const reader = await acceptStream(theirs, { channel })
        served += 1
        if (Number(reader.label) % 4 === 0) {
          reader.cancel('refused')
          continue
        }
        for await (const _ of reader);
      }
    }
    const servers = Promise.allSettled(channels.map(serve))
    const request = async (number: number) => {
      const channel = channels[number % channels.length] as number
      const writer = await openStream(mine, { channel, label: `${number}`, signal: AbortSignal.timeout(30_000) })
      await writer.write(new Uint8Array(1_000).fill(number))
      await writer.close()
    }
    const outcomes: PromiseSettledResult<void>[] = []
    for (let i = 0; i < 250; i++) outcomes.push(...(await Promise.allSettled([request(i)])))
    outcomes.push(...(await Promise.allSettled(Array.from({ length: 150 }, (_, i) => request(250 + i)))))
    expect(served).toBe(400)
    outcomes.forEach((one, i) => {
      if (i % 4 === 0)
        expect(one).toMatchObject({ status: 'rejected', reason: { code: 'BYTE_STREAM_STOPPED', data: { reason: 'refused' } } })
      else expect(one).toEqual({ status: 'fulfilled', value: undefined })
    })
    expect(mine.held().streams).toBeLessThanOrEqual(2 * channels.length + 1) // one each way, and the handshake's
    await mine.close()
    await servers
    await expect.poll(() => [mine.held().streams, theirs.held().streams]).toEqual([0, 0])
    expect([a.manager.held().sessions, b.manager.held().sessions]).toEqual([0, 0])
  })

  it('[F050] a reader that leaves after 10 of 1,000 bytes, 500 times in each direction: the writer learns of it each time', async () => {
    const { mine, theirs } = await two()
    const serve = async (session: DurableSession, channel: number) => {
      for (let i = 0; i < 500; i++) {
        const reader: ByteReader = await acceptStream(session, { channel })
        for await (const chunk of reader) {
          expect(chunk.subarray(0, 10)).toHaveLength(10)
          break
        }
      }
    }
    const write = async (session: DurableSession, channel: number) => {
      let stopped = 0
      for (let i = 0; i < 500; i++) {
        const writer = await openStream(session, { channel, signal: AbortSignal.timeout(20_000) })
        await writer.write(new Uint8Array(1_000))
        await writer.close().catch(({ code }: { code: string }) => {
          if (code === 'BYTE_STREAM_STOPPED') stopped += 1
        })
      }
      return stopped
    }
    const [, , there, back] = await Promise.all([serve(theirs, 40), serve(mine, 41), write(mine, 40), write(theirs, 41)])
    expect([there, back]).toEqual([500, 500])
    expect(mine.held()).toMatchObject({ sendItems: 0, sendBytes: 0 })
  })
})

describe('a durable byte stream between processes', () => {
  it('[PSS-06] goes on where it stopped after kill -9 of its reader and of its writer, and arrives whole', async () => {
    const bytes = 12 * MIB
    const writer = await new Peer(0xa1, 'writer').start()
    const reader = await new Peer(0xb2, 'reader').start()
    writer.order({ do: 'write', to: 0xb2, address: reader.address, bytes })
    const reached =
      (most: number) =>
      (report: ChannelReport): report is ChannelReport & { kind: 'bytes' } =>
        report.kind === 'bytes' && report.bytes >= most
    await reader.until(reached(3 * MIB))
    await reader.kill()
    const restarted = reader.reports.length
    await reader.start()
    writer.order({ do: 'locator', of: 0xb2, address: reader.address })
    const [first] = [await reader.until(reached(0), restarted)]
    expect(first.bytes).toBeGreaterThan(3 * MIB) // nothing is read twice
    await reader.until(reached(7 * MIB), restarted)
    await writer.kill()
    const again = writer.reports.length
    await writer.start()
    writer.order({ do: 'write', to: 0xb2, address: reader.address, bytes })
    const held = await writer.until((report): report is ChannelReport & { kind: 'held' } => report.kind === 'held', again)
    expect(held.bytes).toBeGreaterThanOrEqual(7 * MIB)
    const done = (report: ChannelReport): report is ChannelReport & { kind: 'done' } => report.kind === 'done'
    const { sha256 } = await reader.until(done, restarted)
    const expected = createHash('sha256')
    for (const chunk of contentOf(bytes)) expected.update(chunk)
    expect(sha256).toBe(expected.digest('hex'))
    await writer.until(done, again)
  }, 60_000)
})

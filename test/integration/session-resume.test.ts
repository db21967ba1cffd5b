import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { PeerAddress } from '../../src/net/host.ts'
import type { Order, Report } from './resume-process.ts'

/** A node in a process of its own that can be killed and started again on its directory; each time it listens on another port. */
class Peer {
  readonly dir = mkdtempSync(join(tmpdir(), 'rookery-resume-'))
  readonly acked: string[] = []
  readonly events: string[] = []
  readonly #agents: [number, number]
  #child!: ChildProcess
  address!: PeerAddress

  constructor(own: number, other: number) {
    this.#agents = [own, other]
  }

  async start(): Promise<this> {
    const args = [this.dir, ...this.#agents.map(String)]
    const child = fork(new URL('./resume-process.ts', import.meta.url), args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    this.#child = child
    const listening = Promise.withResolvers<PeerAddress>()
    child.on('message', (report: Report) => {
      if (report.kind === 'listening') listening.resolve(report.address)
      if (report.kind === 'acked') this.acked.push(report.word)
      if (report.kind === 'event') this.events.push(report.event)
    })
    this.address = await listening.promise
    return this
  }

  order(order: Order): void {
    this.#child.send(order)
  }

  async report(): Promise<Report & { kind: 'report' }> {
    const answer = Promise.withResolvers<Report & { kind: 'report' }>()
    const listen = (report: Report) => {
      if (report.kind === 'report') answer.resolve(report)
    }
    this.#child.on('message', listen)
    this.order({ do: 'report' })
    const report = await answer.promise
    this.#child.off('message', listen)
    return report
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }
}

const peers: Peer[] = []

async function two(): Promise<{ a: Peer; b: Peer }> {
  const a = new Peer(0xa1, 0xb2)
  const b = new Peer(0xb2, 0xa1)
  peers.push(a, b)
  await Promise.all([a.start(), b.start()])
  return { a, b }
}

/** The side that still runs learns the other's new address, as from a newer locator. */
function tellAddresses(a: Peer, b: Peer): void {
  a.order({ do: 'locator', address: b.address })
  b.order({ do: 'locator', address: a.address })
}

async function settled(a: Peer, b: Peer): Promise<void> {
  for (;;) {
    const reports = await Promise.all([a.report(), b.report()])
    if (reports.every(({ sessions }) => sessions[0]?.state === 'established' && sessions[0].unacked === 0)) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

afterEach(async () => {
  for (const peer of peers.splice(0)) {
    await peer.kill()
    rmSync(peer.dir, { recursive: true, force: true })
  }
})

describe('sessions of processes that are killed', () => {
  it('[PSS-07] [D-21] kill -9 of either side, six times under traffic both ways: nothing acked is lost, nothing applied twice', async () => {
    const { a, b } = await two()
    a.order({ do: 'open', address: b.address })
    await expect.poll(async () => (await b.report()).sessions.length, { timeout: 10_000 }).toBe(1)
    const { id } = (await a.report()).sessions[0] as { id: string }
    const sent: Record<'a' | 'b', string[]> = { a: [], b: [] }
    for (let cycle = 0; cycle < 6; cycle++) {
      for (const [name, peer] of [
        ['a', a],
        ['b', b]
      ] as const) {
        const words = Array.from({ length: 200 }, (_, i) => `${name}${cycle}-${i}`)
        sent[name].push(...words)
        peer.order({ do: 'send', words })
      }
      await new Promise((resolve) => setTimeout(resolve, (cycle * 7) % 41))
      const victim = cycle % 2 === 0 ? a : b
      await victim.kill()
      await victim.start()
      tellAddresses(a, b)
      await settled(a, b)
    }
    const [atA, atB] = await Promise.all([a.report(), b.report()])
    expect(atA.sessions).toEqual([{ id, state: 'established', unacked: 0 }])
    expect(atB.sessions).toEqual([{ id, state: 'established', unacked: 0 }])
    for (const [sender, applied, words] of [
      [a, atB.applied, sent.a],
      [b, atA.applied, sent.b]
    ] as const) {
      expect(applied.length).toBe(new Set(applied).size)
      const set = new Set(applied)
      expect(sender.acked.filter((word) => !set.has(word))).toEqual([])
      expect(applied.filter((word) => !words.includes(word))).toEqual([])
      for (const parity of [0, 1]) {
        const channel = applied.filter((word) => Number(word.split('-')[1]) % 2 === parity)
        expect(channel).toEqual(words.filter((word) => set.has(word) && Number(word.split('-')[1]) % 2 === parity))
      }
    }
    expect([...a.events, ...b.events]).not.toContain('diverged')
  }, 120_000)

  it('a node that comes back under another address goes on with its sessions; nobody opened a new one', async () => {
    const { a, b } = await two()
    a.order({ do: 'open', address: b.address })
    await expect.poll(async () => (await b.report()).sessions.length, { timeout: 10_000 }).toBe(1)
    const { id } = (await a.report()).sessions[0] as { id: string }
    const before = b.address.addrs.join()
    await b.kill()
    await b.start()
    expect(b.address.addrs.join()).not.toBe(before)
    a.order({ do: 'send', words: ['after the move'] })
    a.order({ do: 'locator', address: b.address })
    await expect.poll(() => a.acked, { timeout: 15_000 }).toEqual(['after the move'])
    expect((await b.report()).sessions).toEqual([{ id, state: 'established', unacked: 0 }])
    expect((await b.report()).applied).toEqual(['after the move'])
  }, 60_000)
})

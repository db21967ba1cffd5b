import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LocalPointView } from '../../src/local/local-points.ts'
import type { NeighbourChange } from '../../src/local/neighbours.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { type LinkEnd, type LinkedNamespaces, linkNamespaces } from '../support/linked-namespaces.ts'
import type { LinkOrder } from './link-process.ts'

const PROGRAM = fileURLToPath(new URL('link-process.ts', import.meta.url))
const OTHER_MAC = '02:00:5e:10:00:01'

/** A node that has nothing but the link of its namespace. */
class LinkedNode {
  readonly #process: ChildProcess
  readonly #waiting = new Map<number, { resolve(answer: unknown): void; reject(error: Error): void }>()
  #next = 0

  constructor({ namespace }: LinkEnd) {
    this.#process = spawn('ip', ['netns', 'exec', namespace, process.execPath, '--no-warnings', PROGRAM], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc']
    })
    this.#process.on('message', ({ id, answer, error }: { id: number; answer?: unknown; error?: string }) => {
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (error === undefined) waiting?.resolve(answer)
      else waiting?.reject(new Error(error))
    })
    this.#process.on('exit', (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the node of the namespace ended with ${code}`))
    })
  }

  ask<T>(order: LinkOrder): Promise<T> {
    const id = this.#next++
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (answer: unknown) => void, reject })
      this.#process.send({ id, ...order })
    })
  }

  /** Asks again and again until the answer is such. */
  async until<T>(order: LinkOrder, isSuch: (answer: T) => boolean): Promise<T> {
    for (;;) {
      const answer = await this.ask<T>(order)
      if (isSuch(answer)) return answer
      await systemClock.sleep(100)
    }
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode === null) await this.ask({ do: 'stop' }).catch(() => this.#process.kill('SIGKILL'))
  }
}

let link: LinkedNamespaces | { refused: string }
const nodes: LinkedNode[] = []
const told: { peer: string; did: string }[] = []

beforeAll(async () => {
  link = await linkNamespaces()
  if ('refused' in link) return
  for (const [i, end] of link.ends.entries()) {
    const node = new LinkedNode(end)
    nodes.push(node)
    told.push(await node.ask({ do: 'start', number: i, address: end.address }))
  }
}, 120_000)

afterAll(async () => {
  await Promise.all(nodes.map((node) => node.stop()))
  if (!('refused' in link)) await link.remove()
})

/** Without the right to make network namespaces there is no link to test on; whoever reads the run is told. */
function made(skip: (why: string) => never): { link: LinkedNamespaces; a: LinkedNode; b: LinkedNode } {
  if ('refused' in link) return skip(`no network namespaces here: ${link.refused}`)
  return { link, a: nodes[0] as LinkedNode, b: nodes[1] as LinkedNode }
}

describe('two machines on one link', () => {
  it('find each other by multicast DNS alone', async ({ skip }) => {
    const { a, b } = made(skip)
    const [first = { peer: '' }, second = { peer: '' }] = told
    expect(await a.until<string[]>({ do: 'peers' }, (peers) => peers.includes(second.peer))).toContain(second.peer)
    expect(await b.until<string[]>({ do: 'peers' }, (peers) => peers.includes(first.peer))).toContain(first.peer)
  })

  it('[ESE-06] [ESE-07] [G-45] show each other their local points with the MAC that the system knows, read them, and tell when another device stands there', async ({
    skip
  }) => {
    const { link, a, b } = made(skip)
    const [end] = link.ends
    const { did } = told[0] as { did: string }
    await a.ask({ do: 'register', tag: 'lamp' })
    const mac = await link.macOf(end)
    const isKnown = (points: LocalPointView[]) => points.some((point) => point.did === did && point.mac !== undefined)
    const points = await b.until<LocalPointView[]>({ do: 'points' }, isKnown)
    expect(points).toMatchObject([{ did, tag: 'lamp', access: 'open', at: end.address, mac }])
    expect(await b.ask({ do: 'read', did, tag: 'lamp' })).toEqual({ on: true })
    expect(await b.ask({ do: 'alarms' })).toEqual([])

    await link.replaceDevice(end, OTHER_MAC)
    const alarms = await b.until<NeighbourChange[]>({ do: 'alarms' }, (list) => list.length > 0)
    expect(alarms).toEqual([{ ip: end.address, before: mac, now: OTHER_MAC }])
    expect(await b.ask({ do: 'read', did, tag: 'lamp' })).toEqual({ on: true }) // an alarm, and nothing is refused for it
  })
})

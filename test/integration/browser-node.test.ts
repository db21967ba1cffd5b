import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { eidFromDid, eidToDid } from '../../protocol/identity/eid.ts'
import type * as Rookery from '../../src/browser/index.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openChannel } from '../../src/sessions/channel.ts'
import type { Session } from '../../src/sessions/session.ts'
import { openPages, type Pages, type Refusal, startInPage } from '../support/browser-pages.ts'
import { describeInBrowser } from '../support/chromium.ts'
import { nodeDir } from '../support/node-dir.ts'

const TOPIC = 'org.test/browser.echo@1'
const CHANNEL = 20
const TIMEOUT_MS = 120_000
const VECTORS = join(import.meta.dirname, '..', '..', 'protocol', 'vectors', 'names.json')

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await systemClock.sleep(20)
}

/** Notes the sessions that pages open, and what they say on {@link CHANNEL}. */
function listening(node: RookeryNode): { sessions: Session[]; heard: string[] } {
  const sessions: Session[] = []
  const heard: string[] = []
  node.sessions.onSession((session) => {
    sessions.push(session)
    const read = async () => {
      for await (const { payload } of openChannel(session, CHANNEL)) heard.push(Buffer.from(payload).toString())
    }
    read().catch(() => {}) // the channel ends with its session
  })
  return { sessions, heard }
}

describeInBrowser('a node in a page', () => {
  let pages: Pages
  const opened: Page[] = []
  const ears = new Map<RookeryNode, ReturnType<typeof listening>>()
  const listeningTo = (node: RookeryNode | undefined) => ears.get(node as RookeryNode) as ReturnType<typeof listening>
  const dirs = [nodeDir(), nodeDir()]
  /** the page joins over the first and looks for the agent of the second */
  const nodes: RookeryNode[] = []
  const config = (index: number, more: ConfigInput = {}): ConfigInput => ({
    dataDir: dirs[index]?.path,
    listen: ['/ip4/127.0.0.1/tcp/0/ws', '/ip4/127.0.0.1/udp/0/quic-v1'],
    http: { enabled: false },
    grants: { peers: 'anyone' },
    ...more
  })
  const webSocketOf = (node: RookeryNode) => `${node.host.addresses().find((addr) => addr.endsWith('/ws'))}/p2p/${node.peer}`
  const echo = () => (nodes[1] as RookeryNode).agents.get('echo')
  const init = (more: Partial<Rookery.BrowserNodeInit> = {}): Rookery.BrowserNodeInit => ({
    bootstrap: nodes.map(webSocketOf).slice(0, 1),
    ...more
  })
  const newPage = async () => {
    const page = await pages.open()
    opened.push(page)
    return page
  }

  beforeAll(async () => {
    pages = await openPages()
    nodes.push(await createNode(config(0)))
    nodes.push(await createNode(config(1, { bootstrap: [webSocketOf(nodes[0] as RookeryNode)] })))
    for (const node of nodes) ears.set(node, listening(node))
    await until(() => nodes.every(({ host }) => host.dht.routingTableSize() > 0))
    const agent = await (nodes[1] as RookeryNode).addAgent({ name: 'echo', handler: 'echo' })
    await (nodes[1] as RookeryNode).spaces.announce({ name: TOPIC, curator: agent })
    await (nodes[1] as RookeryNode).spaces.join({ name: TOPIC, agent, tags: ['echo'] })
  }, TIMEOUT_MS)

  afterEach(async () => {
    for (const page of opened.splice(0)) {
      expect(await page.evaluate(() => held.violations)).toEqual([])
      await page.evaluate(async () => await held.node?.stop())
      await page.close()
    }
  })

  afterAll(async () => {
    await pages?.close()
    for (const node of nodes) await node.stop()
    for (const dir of dirs) dir.remove()
  })

  it(
    'joins over WebSockets, finds an agent by topic, opens a session with it, and gets the result of a task',
    async () => {
      const page = await newPage()
      await startInPage(page, init())
      const seen = await page.evaluate(async (topic) => {
        const { members } = await held.node.discover({ topic })
        const did = members[0]?.did as string
        const session = await held.node.openSession(did)
        const sent = await held.node.sendTask(did, 'hello from a page')
        return { members, info: session.info(), sent, status: await held.node.status() }
      }, TOPIC)
      expect(seen.members).toMatchObject([{ did: echo().did, tags: ['echo'], known: 'registry' }])
      expect(seen.info).toMatchObject({ remote: echo().did, role: 'initiator', state: 'established', transport: 'websocket' })
      expect(seen.sent).toMatchObject({ outcome: 'task', task: { status: { state: 'TASK_STATE_COMPLETED' } } })
      expect(JSON.stringify(seen.sent.task)).toContain('hello from a page')
      expect(seen.status.dht).toMatchObject({ mode: 'client' })
      expect(seen.status.store).toBe('ok')
    },
    TIMEOUT_MS
  )

  it(
    'says in its locator that it listens nowhere, is found by a topic that it joined, and hears a node over the session it opened',
    async () => {
      const page = await newPage()
      const did = await startInPage(page, init())
      const { sessions } = listeningTo(nodes[1])
      const locator = await page.evaluate(
        async ([topic, to]) => {
          await held.node.join({ topic: topic as string, tags: ['page'] })
          const { address, mode } = await held.node.publish()
          const session = await held.node.openSession(to as string)
          Object.assign(held, { channel: held.rookery.openChannel(session, 20) })
          return { address, mode }
        },
        [TOPIC, echo().did]
      )
      expect(locator).toMatchObject({ address: { addrs: [] }, mode: 'session' })
      const { members } = await (nodes[1] as RookeryNode).spaces.find({ name: TOPIC, tags: ['page'] })
      expect(members).toMatchObject([{ did, mode: 'session' }])
      const theirs = () => sessions.find(({ remote }) => eidToDid(remote) === did)
      await until(() => theirs() !== undefined)
      const said = openChannel(theirs() as Session, CHANNEL).send(Buffer.from('hello, page'))
      const heard = page.evaluate(async () => {
        const { channel } = held as unknown as { channel: Rookery.Channel }
        for await (const { payload } of channel) return new TextDecoder().decode(payload)
        return 'the channel ended'
      })
      expect(await heard).toBe('hello, page')
      await said
      const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'do this' }] }
      await expect((nodes[1] as RookeryNode).send({ from: echo(), to: eidFromDid(did), message })).rejects.toMatchObject({
        code: 'UNSUPPORTED_OPERATION'
      })
    },
    TIMEOUT_MS
  )

  it(
    'keeps its EID and its session over a reload, and then gets what a node sent in between',
    async () => {
      const page = await newPage()
      const { sessions, heard } = listeningTo(nodes[1])
      const store = 'reloaded'
      const did = await startInPage(page, init({ store }))
      const id = await page.evaluate(async (to) => {
        const session = await held.node.openSession(to)
        await held.rookery.openChannel(session, 20).send(new TextEncoder().encode('before'))
        return session.info().id
      }, echo().did)
      await until(() => heard.includes('before'))
      const session = sessions.find((one) => one.info().id === id) as Session
      await page.goto('about:blank')
      await until(() => session.info().state === 'disconnected')
      const said = openChannel(session, CHANNEL).send(Buffer.from('while you were away'))
      await page.goto(pages.url)
      await pages.reload(page)
      const again = await page.evaluate(async (given) => {
        const { promise, resolve } = Promise.withResolvers<string>()
        held.node = await held.rookery.createBrowserNode(given)
        held.node.sessions.onSession(async (one) => {
          for await (const { payload } of held.rookery.openChannel(one, 20)) resolve(new TextDecoder().decode(payload))
        })
        const heard = await promise
        return { did: held.node.did, heard, ids: held.node.sessions.list().map(({ id }) => id) }
      }, init({ store }))
      expect(again).toEqual({ did, heard: 'while you were away', ids: [id] })
      await said
    },
    TIMEOUT_MS
  )

  it(
    'joins again when its node was restarted, and its session goes on',
    async () => {
      const page = await newPage()
      const [first] = nodes as [RookeryNode]
      const listen = first.host.addresses()
      await startInPage(page, init({ store: 'restarted' }))
      const local = await first.addAgent({ name: 'restarted', handler: 'echo' })
      const id = await page.evaluate(async (to) => (await held.node.openSession(to)).info().id, local.did)
      await first.stop()
      await until(() => page.evaluate(() => held.node.sessions.list().every(({ state }) => state === 'disconnected')))
      const restarted = await createNode(config(0, { listen, bootstrap: [webSocketOf(nodes[1] as RookeryNode)] }))
      nodes[0] = restarted
      const { heard } = listening(restarted)
      const after = await page.evaluate(async (session) => {
        const one = await held.node.sessions.get(session)
        if (one === undefined) throw new Error('the session is gone')
        await held.rookery.openChannel(one, 20).send(new TextEncoder().encode('still there?'))
        return one.info()
      }, id)
      expect(heard).toContain('still there?')
      expect(after).toMatchObject({ id, state: 'established' })
      expect(after.resumes).toBeGreaterThan(0)
    },
    TIMEOUT_MS
  )

  it(
    'is one agent in one tab: a second is refused, or waits until the first is gone',
    async () => {
      const [one, two] = [await newPage(), await newPage()]
      const store = 'two-tabs'
      const did = await startInPage(one, init({ store }))
      const refused = await two.evaluate(async (given): Promise<Refusal> => {
        const failed = await held.rookery.createBrowserNode(given).then(
          () => undefined,
          (error) => error
        )
        return failed?.toJSON()
      }, init({ store }))
      expect(refused).toMatchObject({ code: 'IDENTITY_IN_USE', kind: 'conflict', field: 'store' })
      expect(await startInPage(two, init({ store: 'another' }))).not.toBe(did)
      await two.evaluate(async () => await held.node.stop())
      const waiting = startInPage(two, init({ store, whenBusy: 'wait' }))
      await one.evaluate(async () => await held.node.stop())
      expect(await waiting).toBe(did)
    },
    TIMEOUT_MS
  )

  it(
    'promises nothing that the browser has no room for, and goes on when it has',
    async () => {
      const page = await newPage()
      await startInPage(page, init({ store: 'full' }))
      await page.evaluate(async (to) => void (await held.node.openSession(to)), echo().did)
      const send = async (text: string) =>
        await page.evaluate(
          async ([to, said]): Promise<Refusal> => {
            const session = await held.node.openSession(to as string)
            const sent = held.rookery.openChannel(session, 20).send(new TextEncoder().encode(said))
            return await sent.then(
              () => undefined,
              (error) => error.toJSON()
            )
          },
          [echo().did, text]
        )
      await page.evaluate(() => {
        const { put } = IDBObjectStore.prototype
        Object.assign(held, { free: () => Object.assign(IDBObjectStore.prototype, { put }) })
        IDBObjectStore.prototype.put = () => {
          throw new DOMException('no room', 'QuotaExceededError')
        }
      })
      expect(await send('there is no room for this')).toMatchObject({ code: 'STORE_FULL', kind: 'storage', field: 'store' })
      await page.evaluate(() => (held as unknown as { free(): void }).free())
      expect(await send('and for this there is')).toBeUndefined()
      const { heard } = listeningTo(nodes[1])
      expect(heard).toContain('and for this there is')
      expect(heard).not.toContain('there is no room for this')
      expect((await page.evaluate(async () => await held.node.status())).store).toBe('ok')
    },
    TIMEOUT_MS
  )

  it(
    'says what to do where the browser lets a page keep nothing, and runs in memory where it is told to',
    async () => {
      const page = await newPage()
      const refused = await page.evaluate(
        async (given): Promise<Refusal> => {
          IDBFactory.prototype.open = () => {
            throw new DOMException('access is denied', 'SecurityError')
          }
          return await held.rookery.createBrowserNode(given).then(
            () => undefined,
            (error) => error.toJSON()
          )
        },
        init({ store: 'denied' })
      )
      expect(refused).toMatchObject({ code: 'STORAGE_UNAVAILABLE', kind: 'storage', remedy: expect.stringContaining("store: 'memory'") })
      await startInPage(page, init({ store: 'memory' }))
      const sent = await page.evaluate(async (to) => await held.node.sendTask(to, 'from memory'), echo().did)
      expect(sent).toMatchObject({ outcome: 'task', task: { status: { state: 'TASK_STATE_COMPLETED' } } })
    },
    TIMEOUT_MS
  )

  it('[ESE-10] derives the coordinate of a global point as the vectors say', async () => {
    const page = await newPage()
    const vectors = JSON.parse(readFileSync(VECTORS, 'utf8')).filter(({ id }: { id: string }) => /^gp-\d+$/.test(id))
    expect(vectors.length).toBeGreaterThan(3)
    const derived = await page.evaluate((given: { eid: string; tag: string }[]) => {
      const { gpCoordinate, nobleCrypto } = held.rookery
      const bytes = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
      return given.map(({ eid, tag }) =>
        [...gpCoordinate(nobleCrypto, bytes(eid) as Rookery.Eid, tag)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
      )
    }, vectors)
    expect(derived).toEqual(vectors.map(({ coordinate }: { coordinate: string }) => coordinate))
  })
})

import { request } from 'node:http'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WATCHERS_MAX } from '../../src/dashboard/feed.ts'
import { BODY_BYTES_MAX, POLICY } from '../../src/dashboard/guards.ts'
import { type DashboardWorld, dashboardWorld } from '../support/dashboard-world.ts'

let world: DashboardWorld

beforeAll(async () => {
  world = await dashboardWorld()
})
afterAll(async () => {
  await world.stop()
})

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  json(): { error?: { code: string }; [member: string]: unknown }
}

type Headers = Record<string, string | undefined>

const ownPage = (): Headers => ({ origin: world.ops.url, 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' })

function open(path: string, { method = 'GET', headers = {}, body }: { method?: string; headers?: Headers; body?: string } = {}) {
  const given = Object.fromEntries(Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined))
  const sent = request({ host: '127.0.0.1', port: world.ops.port, path, method, headers: given, agent: false })
  sent.on('error', () => {})
  sent.end(body)
  return sent
}

async function ask(path: string, options: Parameters<typeof open>[1] = {}): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const sent = open(path, options)
  sent.on('error', reject)
  sent.on('response', (response) => {
    let text = ''
    response.on('data', (chunk: Buffer) => (text += chunk.toString()))
    response.on('end', () =>
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text,
        json: () => JSON.parse(text) as ReturnType<Answer['json']>
      })
    )
  })
  return await promise
}

const post = (path: string, body: object, headers: Headers = {}) =>
  ask(`/dashboard/api/${path}`, { method: 'POST', headers: { ...ownPage(), ...headers }, body: JSON.stringify(body) })

async function signedIn(): Promise<{ authorization: string }> {
  const { token } = (await post('sign-in', { code: world.signIns.issue().code })).json()
  return { authorization: `Bearer ${token}` }
}

/** A stream's lines as they come. */
async function watch(headers: Headers, known: object = {}) {
  const sent = open('/dashboard/api/stream', { method: 'POST', headers: { ...ownPage(), ...headers }, body: JSON.stringify(known) })
  const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    sent.on('response', resolve)
    sent.on('error', reject)
  })
  const lines: Line[] = []
  const waiting = new Set<() => void>()
  response.on('error', () => {})
  const reader = createInterface({ input: response })
  reader.on('error', () => {})
  reader.on('line', (text) => {
    lines.push(JSON.parse(text) as Line)
    for (const look of waiting) look()
  })
  return {
    status: response.statusCode,
    lines,
    /** the first line that fits, of those that came and those that will */
    async line(fits: (line: Line) => boolean): Promise<Line> {
      return await new Promise((resolve) => {
        const look = () => {
          const found = lines.find(fits)
          if (found === undefined) return
          waiting.delete(look)
          resolve(found)
        }
        waiting.add(look)
        look()
      })
    },
    close: () => sent.destroy()
  }
}

// biome-ignore lint/suspicious/noExplicitAny: what the page reads, as the page reads it
type Line = Record<string, any>

describe('the dashboard’s page', () => {
  it('serves its files to everybody with a strict policy, and nothing that they do not name', async () => {
    const page = await ask('/dashboard')
    expect(page.status).toBe(200)
    expect(page.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
      'cross-origin-resource-policy': 'same-origin',
      'x-frame-options': 'DENY',
      'cache-control': 'no-store'
    })
    for (const directive of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"])
      expect(POLICY).toContain(directive)
    expect(POLICY).not.toContain('unsafe')
    const named = [...page.text.matchAll(/(?:href|src)="(\/dashboard\/[^"]+)"/g)].map(([, path]) => path as string)
    expect(named.length).toBeGreaterThan(4)
    for (const path of [...named, '/dashboard/client.js', '/dashboard/graph.js']) {
      const file = await ask(path)
      expect(file.status).toBe(200)
      expect(file.headers['content-security-policy']).toBe(POLICY)
    }
    expect(page.text).not.toMatch(/https?:|style=|onclick|<script>/)
    for (const path of ['/dashboard/../package.json', '/dashboard/%2e%2e/package.json', '/dashboard/sign-ins.ts', '/dashboard/']) {
      expect((await ask(path)).status).toBe(404)
    }
    expect((await ask('/dashboard', { method: 'POST' })).status).toBe(405)
  })

  it('refuses other Host names, as a rebound name of another site is', async () => {
    for (const host of ['evil.example', `rebound.example:${world.ops.port}`, `127.0.0.1.evil.example:${world.ops.port}`]) {
      const answer = await ask('/dashboard', { headers: { host } })
      expect(answer.status).toBe(403)
      expect(answer.text).not.toContain('Rookery')
    }
  })
})

describe('the dashboard’s answers', () => {
  it('tell nothing to who is not signed in', async () => {
    for (const path of ['call', 'stream', 'sign-out']) {
      for (const authorization of [undefined, 'Bearer', `Bearer ${'A'.repeat(43)}`, `Basic ${'A'.repeat(43)}`]) {
        const answer = await post(path, { method: 'status', params: {} }, { authorization })
        expect(answer.status).toBe(401)
        expect(Object.keys(answer.json())).toEqual(['error'])
        expect(answer.json().error?.code).toBe('SIGNED_OUT')
      }
      expect((await ask(`/dashboard/api/${path}`)).status).toBe(405)
    }
    expect(await world.handlers['dashboard.open']({}, world.context)).toMatchObject({
      url: expect.stringMatching(/\/dashboard#[\w-]{43}$/)
    })
  })

  it('refuse whatever another page sends, also with a token that works', async () => {
    const { authorization } = await signedIn()
    const wrong: Headers[] = [
      { origin: undefined },
      { origin: 'null' },
      { origin: 'https://evil.example' },
      { origin: `http://127.0.0.1:${world.ops.port + 1}` },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' }
    ]
    for (const headers of wrong) {
      for (const path of ['sign-in', 'call', 'stream']) {
        const answer = await post(
          path,
          { method: 'session.list', params: {}, code: world.signIns.issue().code },
          { authorization, ...headers }
        )
        expect(answer.status).toBe(403)
        expect(answer.json().error?.code).toBe('ORIGIN_REFUSED')
      }
    }
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', undefined]) {
      expect((await post('call', { method: 'sleep', params: {} }, { authorization, 'content-type': type })).status).toBe(415)
    }
    expect(world.home.reachability(world.bob).state).toBe('accepts')
  })

  it('sign in by a code that works once, and carry it nowhere but in the body', async () => {
    const { code } = world.signIns.issue()
    const first = await post('sign-in', { code })
    expect(first.status).toBe(200)
    expect(first.headers['set-cookie']).toBeUndefined()
    const second = await post('sign-in', { code })
    expect(second.status).toBe(401)
    expect(second.json().error?.code).toBe('CODE_INVALID')
    for (const body of [{}, { code: 7 }, { code: 'x'.repeat(43) }]) expect((await post('sign-in', body)).status).toBe(401)
    const authorization = `Bearer ${first.json().token}`
    expect((await post('call', { method: 'grant.revoke', params: { id: 'zz' } }, { authorization })).json().error?.code).toBe(
      'PARAMS_INVALID'
    )
    expect((await post('sign-out', {}, { authorization })).status).toBe(200)
    expect((await post('call', { method: 'wake', params: {} }, { authorization })).status).toBe(401)
    const written = JSON.stringify(world.logs.after(0, 10_000))
    expect(written).toContain('signed in')
    expect(written).not.toContain(code)
    expect(written).not.toContain(first.json().token as string)
  })

  it('are given for a closed list of methods, and bodies of a bounded size', async () => {
    const headers = await signedIn()
    for (const method of ['stop', 'agent.list', 'grant.create', 'backup', 'dashboard.open', 'friends.show', 'send']) {
      const params = method === 'send' ? { to: 'bob', text: 'x' } : method === 'grant.create' ? { name: 'x' } : {}
      const answer = await post(
        'call',
        { method, params: method === 'backup' ? { file: '/x' } : method === 'friends.show' ? { did: 'x' } : params },
        headers
      )
      expect(answer.json().error?.code).toBe('METHOD_REFUSED')
      expect(answer.status).toBe(403)
    }
    expect((await post('call', { method: 'nothing.such', params: {} }, headers)).json().error?.code).toBe('METHOD_UNKNOWN')
    expect((await post('call', { method: 'find', params: { name: 'x'.repeat(BODY_BYTES_MAX) } }, headers)).status).toBe(413)
    const broken = await ask('/dashboard/api/call', { method: 'POST', headers: { ...ownPage(), ...headers }, body: '{' })
    expect(broken.json().error?.code).toBe('JSON_INVALID')
    expect((await post('call', { method: 'inbox.show', params: { id: 'none' } }, headers)).json().error?.code).toBe('TODO_UNKNOWN')
  })
})

describe('the dashboard’s stream', () => {
  it('tells all sections, the board and the log, then what changes; and one that comes again only what it does not know', async () => {
    const headers = await signedIn()
    const first = await watch(headers)
    expect(first.lines).toBeDefined()
    const hello = await first.line((one) => one.hello !== undefined)
    const names = ['status', 'network', 'sessions', 'mail', 'trust']
    const sections = await Promise.all(names.map((name) => first.line((one) => one.section === name)))
    const board = await first.line((one) => one.tasks?.isWhole === true)
    await first.line((one) => one.vitals !== undefined)
    const logged = await first.line((one) => one.logs !== undefined)
    expect(logged.logs.length).toBeGreaterThan(0)
    expect(JSON.stringify(sections)).not.toContain('tokenFile')

    await world.send(world.alice, world.clerk, 'the first of the board')
    const told = await first.line((one) => one.tasks?.isWhole === false)
    expect(told.tasks.cards).toMatchObject([{ agent: 'clerk', state: 'pending', preview: 'the first of the board' }])
    expect(told.tasks.counts.pending).toBe(1)
    first.close()

    const lastLog = first.lines.flatMap((one) => one.logs ?? []).at(-1)
    const known = {
      epoch: hello.hello.epoch,
      sections: Object.fromEntries(sections.map((one) => [one.section, one.version])),
      tasksRev: told.tasks.rev,
      logSeq: lastLog.seq
    }
    const [todo] = (await world.home.todos.list({ state: 'pending' })).todos
    await world.handlers['inbox.complete']({ id: todo?.id ?? '', text: 'done' }, world.context)
    world.home.logger.info({}, 'a line between')
    const second = await watch(headers, known)
    const after = await second.line((one) => one.tasks !== undefined)
    expect(after.tasks.counts).toMatchObject({ pending: 0, done: 1 })
    const more = await second.line((one) => one.logs?.some(({ message }: { message: string }) => message === 'a line between'))
    expect(more.logs[0].seq).toBe(lastLog.seq + 1)
    await second.line((one) => one.vitals !== undefined)
    const again = second.lines.filter((one) => one.section === 'trust')
    expect(again).toEqual([])
    second.close()

    const stranger = await watch(headers, { ...known, epoch: 'another process' })
    await stranger.line((one) => one.section === 'trust')
    expect((await stranger.line((one) => one.tasks !== undefined)).tasks.isWhole).toBe(true)
    stranger.close()
    expect(board.tasks.cards).toEqual([])
  })

  it('gives the newest state to a page that does not read, and holds nothing for it', async () => {
    const headers = await signedIn()
    const sent = open('/dashboard/api/stream', { method: 'POST', headers: { ...ownPage(), ...headers }, body: '{}' })
    const response = await new Promise<import('node:http').IncomingMessage>((resolve) => sent.on('response', resolve))
    response.on('error', () => {})
    response.pause()
    const text = 'z'.repeat(900)
    for (let i = 0; i < 4_000; i++) world.home.logger.warn({ text }, `flood ${i}`)
    const reader = await watch(headers)
    await reader.line((one) => one.logs?.some(({ message }: { message: string }) => message === 'flood 3999'))
    reader.close()
    let read = ''
    const last = new Promise<void>((resolve) =>
      response.on('data', (chunk: Buffer) => {
        read += chunk.toString()
        if (read.includes('flood 3999')) resolve()
      })
    )
    response.resume()
    await last
    const logs = read
      .split('\n')
      .flatMap((one) => (one.startsWith('{"logs"') ? [JSON.parse(one) as { logs: object[]; missed: number }] : []))
    expect(logs.reduce((sum, one) => sum + one.missed, 0)).toBeGreaterThan(0)
    expect(logs.reduce((sum, one) => sum + one.logs.length, 0)).toBeLessThan(4_000)
    sent.destroy()
  })

  it(`[OD-30] is open to ${WATCHERS_MAX} pages at a time, and to the next one when another has gone`, async () => {
    const headers = await signedIn()
    const pages = await Promise.all(Array.from({ length: WATCHERS_MAX }, () => watch(headers)))
    expect(pages.every(({ status }) => status === 200)).toBe(true)
    const refused = await post('stream', {}, headers)
    expect(refused.status).toBe(503)
    expect(refused.json().error?.code).toBe('WATCHERS_MAX')
    pages[0]?.close()
    await expect
      .poll(
        async () => {
          const next = await watch(headers)
          next.close()
          return next.status
        },
        { timeout: 30_000 }
      )
      .toBe(200)
    for (const page of pages) page.close()
  })
})

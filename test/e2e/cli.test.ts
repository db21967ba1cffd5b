import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandNames } from '../../src/cli/main.ts'
import { cleanUp, LAUNCHER, launcher, rookery, type StartedNode, startNode, tempDir } from './cli-fixture.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'
const STRANGER = 'did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG'

let node: StartedNode
const on = (...argv: string[]) => rookery(...argv, '--data', node.dataDir, '--json')

beforeAll(async () => {
  const dataDir = tempDir()
  const made = await rookery('init', '--data', dataDir, '--agent', 'alice', '--handler', 'echo', '--json')
  expect(made.code).toBe(0)
  node = await startNode(dataDir)
})
afterAll(cleanUp)

describe('help', () => {
  const commands = commandNames().filter((name) => name !== 'help')
  it.each(commands)('`%s --help` explains itself with an example', async (command) => {
    const help = await rookery(...command.split(' '), '--help')
    expect(help.code).toBe(0)
    expect(help.stdout).toContain('Example:\n  rookery')
    expect(help.stdout).toContain('Usage: rookery')
  })

  it('names every exit code', async () => {
    const help = await rookery('--help')
    expect(help.stdout).toContain('Exit codes: 0 ok, 1 internal, 2 usage')
  })
})

describe('a running node', () => {
  it('[OD-04] [OD-30] tells in status what it offers and which bounds are in force', async () => {
    const status = await on('status')
    expect(status.code).toBe(0)
    expect(status.json()).toMatchObject({
      node: { peer: node.status.node.peer, pid: node.child.pid },
      network: 'isolated',
      modesOffered: ['always_on', 'session', 'hourly_wake', 'sleep'],
      agents: [
        {
          name: 'alice',
          isDefault: true,
          queue: { messages: 0, bounds: { messagesMax: 500, bytesMax: 2_097_152, messagesPerPeerMax: 50 } }
        }
      ]
    })
  })

  it('prints a table for people and no colour into a pipe', async () => {
    const status = await rookery('status', '--data', node.dataDir)
    expect(status.stdout).toMatch(/AGENT +MODE +QUEUE +HANDLER +DID/)
    expect(status.stdout).not.toContain('\u001b[')
  })

  it('adds agents, announces, joins, finds, leaves', async () => {
    const added = await on('agent', 'add', 'bob', '--handler', 'digest', '--description', 'hashes files')
    expect(added.code).toBe(0)
    const { did } = added.json<{ did: string }>()
    expect((await on('space', 'announce', SPACE)).code).toBe(0)
    expect((await on('space', 'join', SPACE, '--agent', 'bob', '--tags', 'seller,solar')).code).toBe(0)
    const found = await on('find', 'org.agentnet/marketplace', '--tags', 'solar')
    expect(found.json<{ members: { did: string; tags: string[] }[] }>().members).toMatchObject([{ did, tags: ['seller', 'solar'] }])
    expect(
      (await on('space', 'list'))
        .json<{ role: string }[]>()
        .map((one) => one.role)
        .sort()
    ).toEqual(['curator', 'member'])
    expect((await on('space', 'leave', SPACE, '--agent', 'bob')).code).toBe(0)
    expect((await on('find', SPACE)).json<{ members: unknown[] }>().members).toEqual([])
  })

  it('sends between its agents, queues for one that sleeps (exit 7), and hands over on wake', async () => {
    const sent = await on('send', 'alice', '--text', 'hello', '--agent', 'alice', '--wait', '10s')
    expect(sent.json()).toMatchObject({ outcome: 'task', task: { status: { state: 'TASK_STATE_COMPLETED' } } })

    await on('agent', 'add', 'carol', '--handler', 'digest')
    expect((await on('sleep', '--agent', 'carol', '--until', '8h')).json()).toMatchObject({ mode: 'sleep' })
    const queued = await on('send', 'carol', '--text', 'later', '--message-id', 'm-1')
    expect(queued.json()).toMatchObject({ outcome: 'queued', asleep: { status: 503, queued: true } })
    expect(queued.code).toBe(7)
    expect((await on('queue', 'list', '--agent', 'carol')).json<unknown[]>()).toHaveLength(1)
    const woken = await on('wake', '--agent', 'carol')
    expect(woken.json()).toMatchObject({ name: 'carol', drain: { accepted: 1, discarded: 0 } })
    const inbox = await on('inbox', '--agent', 'carol')
    expect(inbox.json<{ preview: string; door: string }[]>()).toMatchObject([{ preview: 'later', door: 'asleep-queue' }])
  })

  it('[OD-08] [OD-12] sets modes by either name, shows them with window and state, and refuses what is none', async () => {
    await on('agent', 'add', 'fred', '--handler', 'manual')
    const set = await on('mode', 'set', 'PeriodicallyAvailable', '--agent', 'fred', '--period', '2h', '--open', '5m', '--offset', '10m')
    expect(set.json()).toMatchObject({ mode: 'hourly_wake', window: { periodSec: 7_200, openSec: 300, offsetSec: 600 } })
    const shown = await rookery('mode', '--data', node.dataDir)
    expect(shown.stdout).toMatch(/fred +hourly_wake +PeriodicallyAvailable +asleep.* 5 min in every 2 h, from second 600 on +on +0/)
    const resolved = await rookery('resolve', set.json<{ did: string }>().did, '--data', node.dataDir)
    expect(resolved.stdout).toMatch(/mode {2}hourly_wake: 5 min in every 2 h, from second 600 on; (open now|opens in \d+ (s|min|h))/)
    const wrong = await on('mode', 'set', 'hourly', '--agent', 'fred')
    expect(wrong.code).toBe(2)
    expect(wrong.error()).toMatchObject({ code: 'USAGE', message: expect.stringContaining('hourly_wake') })
    expect((await on('mode', 'set', 'sleep', '--agent', 'fred', '--open', '5m')).error()).toMatchObject({
      code: 'MODE_MEMBER',
      field: 'window'
    })
  })

  it('[OD-50] shows, exports and drops what is queued; dropping wants a yes', async () => {
    await on('mode', 'set', 'sleep', '--agent', 'fred')
    for (const id of ['d-1', 'd-2']) expect((await on('send', 'fred', '--text', `for ${id}`, '--message-id', id)).code).toBe(7)
    const [first] = (await on('queue', 'list', '--agent', 'fred')).json<{ objectId: string }[]>()
    const prefix = first?.objectId.slice(0, 10) ?? ''
    const shown = await rookery('queue', 'show', prefix, '--agent', 'fred', '--data', node.dataDir)
    expect(shown.stdout).toContain(`object    ${first?.objectId}`)
    expect(shown.stdout).toContain('purpose   a2a:message')
    expect(shown.stdout).not.toContain('for d-1')
    const exported = (await on('queue', 'export', '--agent', 'fred')).json<{ path: string; records: number }>()
    expect(exported.records).toBe(2)
    expect(readFileSync(exported.path, 'utf8').trim().split('\n')).toHaveLength(2)
    const unasked = await on('queue', 'drop', prefix, '--agent', 'fred')
    expect(unasked.code).toBe(2)
    expect(unasked.error()).toMatchObject({ code: 'NOT_CONFIRMED', field: '--yes' })
    expect((await on('queue', 'drop', prefix, '--agent', 'fred', '--yes')).json()).toMatchObject({ dropped: 1 })
    expect((await on('queue', 'drop', '--all', '--agent', 'fred', '--yes')).json()).toMatchObject({ dropped: 1 })
    expect((await on('queue', 'list', '--agent', 'fred')).json()).toEqual([])
    expect((await on('queue', 'retry', '--agent', 'fred')).code).toBe(7)
    expect((await on('queue', 'show', 'ffffffff', '--agent', 'fred')).code).toBe(5)
  })

  it('[OD-40] lists what waits for approval, and approves or refuses it, one or all', async () => {
    const module = join(node.dataDir, 'lasting.mjs')
    writeFileSync(module, 'export default async () => ({ text: "done" })\n')
    await on('agent', 'add', 'erna', '--handler', module)
    await on('sleep', '--agent', 'erna')
    for (const id of ['e-1', 'e-2', 'e-3']) await on('send', 'erna', '--text', id, '--message-id', id)
    await on('wake', '--agent', 'erna')
    const waiting = (await on('approve')).json<{ id: string; approval: string }[]>()
    expect(waiting).toHaveLength(3)
    expect((await on('approve', waiting[2]?.id ?? '')).json()).toMatchObject([{ approval: 'given' }])
    expect((await on('approve', waiting[1]?.id ?? '', '--refuse')).json()).toMatchObject([{ approval: 'refused', state: 'rejected' }])
    expect((await on('approve', '--all', '--agent', 'erna')).json()).toMatchObject([{ id: waiting[0]?.id, approval: 'given' }])
    expect((await on('approve')).json()).toEqual([])
  })

  it('[G-16] attaches a process until Ctrl-C, and detaches then', async () => {
    await on('mode', 'set', 'session', '--agent', 'fred')
    const argv = [LAUNCHER, 'attach', '--agent', 'fred', '--lease', '5s', '--data', node.dataDir, '--json']
    const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] })
    const exited = once(child, 'exit')
    let said = ''
    await new Promise<void>((resolve) =>
      child.stdout.on('data', (chunk: Buffer) => {
        said += chunk.toString()
        if (said.includes('\n')) resolve()
      })
    )
    expect(JSON.parse(said)).toMatchObject({ state: 'attached', agent: 'fred', leaseMs: 5_000 })
    const fred = async () =>
      (await on('agent', 'list')).json<{ name: string; attached: number; reachable: object }[]>().find(({ name }) => name === 'fred')
    expect(await fred()).toMatchObject({ attached: 1, reachable: { now: 'accepts' } })
    child.kill('SIGINT')
    expect(await exited).toEqual([0, null])
    expect(await fred()).toMatchObject({ attached: 0, reachable: { now: 'asleep' } })
  })

  it('[G-73] gives an agent another identity: its name, token, tasks and queue stay, the old DID is told to be gone', async () => {
    const added = (await on('agent', 'add', 'erin', '--handler', 'digest')).json<{ did: string; tokenFile: string }>()
    const token = readFileSync(added.tokenFile, 'utf8')
    await on('sleep', '--agent', 'erin', '--until', '8h')
    expect((await on('send', 'erin', '--text', 'before', '--message-id', 'm-e1')).json()).toMatchObject({ outcome: 'queued' })
    const rotated = await on('agent', 'rotate', 'erin')
    expect(rotated.code).toBe(0)
    const { did, oldDid, unacknowledged } = rotated.json<{ did: string; oldDid: string; unacknowledged: number }>()
    expect([oldDid, unacknowledged]).toEqual([added.did, 0])
    expect(did).not.toBe(oldDid)
    expect((await on('agent', 'list')).json<{ name: string; did: string }[]>()).toContainEqual(
      expect.objectContaining({ name: 'erin', did })
    )
    expect((await on('resolve', oldDid)).error()).toMatchObject({ code: 'AGENT_ROTATED', remedy: `use ${did}` })
    expect((await on('send', 'erin', '--text', 'after', '--message-id', 'm-e2')).json()).toMatchObject({ outcome: 'queued' })
    expect((await on('wake', '--agent', 'erin')).json()).toMatchObject({ did, drain: { accepted: 2, discarded: 0 } })
    expect((await on('inbox', '--agent', 'erin')).json<unknown[]>()).toHaveLength(2)
    expect(readFileSync(added.tokenFile, 'utf8')).toBe(token)
    const people = await rookery('agent', 'rotate', 'erin', '--data', node.dataDir)
    expect(people.stdout).toContain(`was    ${did}`)
  })

  it('lets a person answer for a manual agent', async () => {
    await on('agent', 'add', 'dora')
    await on('send', 'dora', '--text', 'what is the price?', '--wait', '0s')
    const [entry] = (await on('inbox', '--agent', 'dora', '--state', 'pending')).json<{ id: string }[]>()
    const answered = await on('inbox', 'complete', entry?.id ?? '', '--text', '31 cents')
    expect(answered.json()).toMatchObject({ todo: { state: 'done' } })
    expect((await on('inbox', 'show', entry?.id ?? '')).stdout).toContain('31 cents')
  })
})

describe('bad input is a named error and changes nothing', () => {
  const cases: [what: string, argv: string[], exit: number, code: string, field?: string][] = [
    ['a bad did:key', ['resolve', 'did:key:zNope'], 2, 'DID_INVALID'],
    ['a did of another method', ['session', 'open', 'did:web:example.net'], 2, 'DID_INVALID'],
    ['a bad topic', ['space', 'join', 'Org.Agentnet/energy@1'], 2, 'NAME_INVALID'],
    ['a topic without version', ['space', 'announce', 'org.agentnet/energy'], 2, 'NAME_INVALID'],
    ['an unannounced space [DS-11]', ['space', 'join', 'org.agentnet/nothing.here@7'], 5, 'SPACE_UNKNOWN'],
    ['an unknown agent', ['sleep', '--agent', 'nobody'], 5, 'AGENT_UNKNOWN', 'agent'],
    ['an agent name with capitals', ['agent', 'add', 'Bob'], 2, 'PARAMS_INVALID', 'name'],
    ['an agent that exists', ['agent', 'add', 'alice'], 10, 'AGENT_EXISTS', 'name'],
    ['a handler that is none', ['agent', 'add', 'erin', '--handler', './no-module.txt'], 2, 'PARAMS_INVALID', 'handler'],
    ['an unreachable stranger', ['send', STRANGER, '--text', 'hello'], 5, 'AGENT_UNKNOWN'],
    ['nothing to send', ['send', 'alice'], 2, 'MESSAGE_EMPTY', '--text'],
    ['an unreadable file', ['send', 'alice', '--file', '/no/such/file'], 2, 'FILE_UNREADABLE', '--file'],
    ['an unknown task', ['inbox', 'show', 'no-such-task'], 5, 'TODO_UNKNOWN'],
    ['a session id that is none', ['session', 'close', 'xyz'], 2, 'PARAMS_INVALID', 'id'],
    ['a limit of zero', ['find', SPACE, '--limit', '0'], 2, 'USAGE'],
    ['a duration without unit [F079]', ['send', 'alice', '--text', 'x', '--wait', '20'], 2, 'USAGE'],
    ['a moment that has passed', ['sleep', '--until', '2001-01-01T00:00:00Z'], 2, 'USAGE'],
    ['an unknown command', ['frobnicate'], 2, 'USAGE'],
    ['an unknown option', ['status', '--frobnicate'], 2, 'USAGE']
  ]
  it.each(cases)('%s', async (_what, argv, exit, code, field) => {
    const before = (await on('status')).json<{ agents: unknown[]; spaces: unknown[] }>()
    const refused = await on(...argv)
    expect([refused.error().code, refused.code]).toEqual([code, exit])
    if (field !== undefined) expect(refused.error().field).toBe(field)
    expect(refused.error().message.length).toBeGreaterThan(10)
    expect(refused.stdout).toBe('')
    const after = (await on('status')).json<{ agents: unknown[]; spaces: unknown[] }>()
    expect([after.agents, after.spaces]).toEqual([before.agents, before.spaces])
  })

  it('a message over the bound', async () => {
    const file = join(tempDir(), 'big.bin')
    writeFileSync(file, new Uint8Array(3 * 1_048_576))
    const refused = await on('send', 'alice', '--file', file)
    expect(refused.code).toBe(6)
    expect(refused.error()).toMatchObject({ code: 'MESSAGE_TOO_LARGE' })
  })

  it('[F061] a second node on the same data directory says who holds it', async () => {
    const second = await launcher(['start', '--data', node.dataDir, '--json'], { timeoutMs: 20_000 })
    expect(second.code).toBe(10)
    expect(second.error().code).toBe('DATA_DIR_IN_USE')
    expect(second.error().message).toContain(String(node.child.pid))
  })

  it('no node: says how to start one', async () => {
    const refused = await rookery('status', '--data', tempDir(), '--json')
    expect(refused.code).toBe(4)
    expect(refused.error()).toMatchObject({ code: 'NODE_NOT_RUNNING', remedy: expect.stringContaining('rookery start') })
  })

  it('a data directory without a node is not filled by accident [F100]', async () => {
    const refused = await launcher(['start', '--data', tempDir(), '--json'], { timeoutMs: 20_000 })
    expect(refused.code).toBe(3)
    expect(refused.error().code).toBe('NOT_INITIALISED')
  })

  it('an unreadable configuration names line and column', async () => {
    const dataDir = tempDir()
    await rookery('init', '--data', dataDir, '--json')
    writeFileSync(join(dataDir, 'config.yaml'), 'http:\n  port: [4710\n')
    const refused = await launcher(['start', '--data', dataDir, '--json'], { timeoutMs: 20_000 })
    expect(refused.code).toBe(3)
    expect(refused.error()).toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringMatching(/line \d+, column \d+/) })
  })

  it('[F094] a port set by hand that is taken is named', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => holder.once('listening', resolve))
    const { port } = holder.address() as { port: number }
    const dataDir = tempDir()
    await rookery('init', '--data', dataDir, '--json')
    const refused = await launcher(
      ['start', '--data', dataDir, '--json', '--listen', '/ip4/127.0.0.1/udp/0/quic-v1', '--http-port', String(port)],
      { timeoutMs: 30_000 }
    )
    holder.close()
    expect(refused.code).toBe(10)
    expect(refused.error()).toMatchObject({ code: 'PORT_IN_USE', field: 'http.port', value: port })
  })
})

describe('stopping', () => {
  it('[F098] SIGTERM ends within 5 s with exit code 0, and the same identity comes back [F100]', async () => {
    const dataDir = tempDir()
    await rookery('init', '--data', dataDir, '--agent', 'zoe', '--json')
    const first = await startNode(dataDir)
    const startedMs = performance.now()
    expect(await first.stop('SIGTERM')).toBe(0)
    expect(performance.now() - startedMs).toBeLessThan(5_000)
    const second = await startNode(dataDir)
    expect(second.status.node.peer).toBe(first.status.node.peer)
    const stopped = await rookery('stop', '--data', dataDir, '--json')
    expect(stopped.code).toBe(0)
  })

  it('the launcher that npx runs is the one in package.json', () => {
    const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { bin: Record<string, string> }
    expect(manifest.bin).toEqual({ rookery: 'bin/rookery.js' })
  })
})

describe('at a person’s hands', () => {
  it('`init` with a handler that is none makes nothing', async () => {
    const dataDir = join(tempDir(), 'new')
    for (const handler of ['nope', './missing.mjs']) {
      const refused = await rookery('init', '--data', dataDir, '--agent', 'alice', '--handler', handler, '--json')
      expect([refused.code, refused.error().code, refused.error().field]).toEqual([2, 'HANDLER_INVALID', '--handler'])
    }
    expect(existsSync(dataDir)).toBe(false)
  })

  it('a reader that goes away early, as `| head` does, ends a command without a stack trace', async () => {
    const child = spawn(process.execPath, [LAUNCHER, '--help'], { stdio: ['ignore', 'pipe', 'pipe'] })
    child.stdout.destroy()
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const [code] = await once(child, 'close')
    expect([code, stderr]).toEqual([0, ''])
  })

  it('Ctrl-C while it waits ends a send with 130, and the message stays where it is', async () => {
    await on('agent', 'add', 'hand')
    const child = spawn(process.execPath, [LAUNCHER, 'send', 'hand', '--text', 'hello', '--wait', '60s', '--data', node.dataDir], {
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const waiting = async () => (await on('inbox', '--agent', 'hand')).json<unknown[]>().length === 1
    while (!(await waiting())) await new Promise((resolve) => setTimeout(resolve, 20))
    child.kill('SIGINT')
    const [code] = await once(child, 'close')
    expect(code).toBe(130)
    expect(stderr).toContain('INTERRUPTED')
    expect(stderr).not.toMatch(/\n\s+at /)
    expect(await waiting()).toBe(true)
  })
})

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandNames, main } from '../../src/cli/main.ts'
import { openControl } from '../../src/daemon.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import type { Todo } from '../../src/tasks/todo.ts'
import { found } from '../support/found.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { cleanUp, rookery, tempDir } from './cli-fixture.ts'
import { COMMANDS } from './command-table.ts'

const STRANGER = 'did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG'
const TEST_MS = 120_000
const [here, there] = [nodeDir(), nodeDir()]
const nodes: RookeryNode[] = []
let carl = ''

beforeAll(async () => {
  const carls = await createNode({ ...LOOPBACK, dataDir: there.path, grants: { peers: 'required' } })
  nodes.push(carls)
  const bootstrap = carls.host.addresses().map((address) => `${address}/p2p/${carls.peer}`)
  const own = await createNode({ ...LOOPBACK, bootstrap, dataDir: here.path, tasks: { attemptsMax: 1 }, push: { targets: 'loopback' } })
  nodes.push(own)
  for (const [node, dir] of [
    [carls, there],
    [own, here]
  ] as const) {
    await openControl(node, dir.path)
  }
  await own.addAgent({ name: 'alice' })
  await own.addAgent({ name: 'bob', handler: 'manual' })
  const agent = await carls.addAgent({ name: 'carl', handler: 'manual' })
  await found(own, agent)
  carl = agent.did
}, TEST_MS)
afterAll(async () => {
  for (const node of nodes.reverse()) await node.stop()
  for (const dir of [here, there]) dir.remove()
  await cleanUp()
})

const on = (...argv: string[]) => rookery(...argv, '--data', here.path, '--json')
const carls = (...argv: string[]) => rookery(...argv, '--data', there.path, '--json')
const shown = (...argv: string[]) => rookery(...argv, '--data', here.path)

/** A task that waits for Bob, by hand. */
async function given(text: string): Promise<string> {
  const sent = await on('send', 'bob', '--agent', 'alice', '--text', text, '--wait', '0s')
  return sent.json<{ task: { id: string } }>().task.id
}

describe('every command', () => {
  it('[cli] has a row in the table of what shows its success, and no row is of a command that is none', () => {
    expect(Object.keys(COMMANDS).sort()).toEqual(commandNames().sort())
  })

  it('[cli] names a test of its success that there is', () => {
    const missing = Object.entries(COMMANDS).filter(([, { success }]) => {
      const [file = '', title = ''] = success.split(' › ')
      const path = join(import.meta.dirname, '..', file)
      return !existsSync(path) || title.length < 10 || !readFileSync(path, 'utf8').includes(title)
    })
    expect(missing).toEqual([])
  })

  it.each(Object.entries(COMMANDS))(
    '[cli:%s] fails with its exit code, a stable code and what to do about it',
    async (command, { failure: [argv, exit, code] }) => {
      const words = argv.map((word) => word.replace('STRANGER', STRANGER).replace('CARL', carl).replace('TEMP', tempDir()))
      const own = words.includes('--data') ? [] : ['--data', here.path]
      const before = command === 'sim check' || command === 'sim replay' ? tempDir() : undefined
      if (before !== undefined) writeFileSync(join(before, 'bad.yaml'), 'name: [\n')
      const failed = await rookery(
        ...command.split(' '),
        ...words.map((word) => word.replace('BAD', join(before ?? '', 'bad.yaml'))),
        ...own,
        '--json'
      )
      expect([failed.error().code, failed.code, failed.stdout]).toEqual([code, exit, ''])
      expect(failed.error().remedy ?? '', 'what to do').not.toBe('')
    }
  )
})

describe('what nothing else shows', () => {
  it('[cli] `agent show` tells one agent, the default one where none is named, and one member for scripts', async () => {
    const all = (await on('agent', 'show', 'bob')).json<{ did: string; url: string; tokenFile: string }>()
    expect(all).toMatchObject({ name: 'bob', handler: 'manual', url: expect.stringContaining('/agents/did:key:') })
    expect((await shown('agent', 'show', 'bob', '--only', 'did')).stdout).toBe(`${all.did}\n`)
    expect((await shown('agent', 'show')).stdout).toMatch(/^name +alice\ndid +did:key:/)
    expect((await on('agent', 'show', '--only', 'name')).json()).toBe('alice')
  })

  it('[cli] `status --join` prints what --bootstrap takes, and --wait waits no longer than it says', async () => {
    const [first] = (await on('status', '--join')).json<string[]>()
    expect(first).toMatch(/^\/ip4\/127\.0\.0\.1\/udp\/\d+\/quic-v1\/p2p\/12D3/)
    expect((await shown('status', '--join')).stdout.trim().split(',')).toContain(first)
    const nobody = await rookery('status', '--wait', '250ms', '--data', tempDir(), '--json')
    expect([nobody.code, nobody.error().code]).toEqual([4, 'NODE_NOT_RUNNING'])
  })

  it('[cli] `inbox fail`, `reject`, `trail`, `dead`, `retry` and `drop` do what an owner wants with tasks', async () => {
    const [failed, rejected] = [await given('first'), await given('second')]
    expect((await on('inbox', 'fail', failed, '--reason', 'no data')).json()).toMatchObject({ todo: { state: 'failed' } })
    expect((await on('inbox', 'reject', rejected, '--reason', 'not ours')).json()).toMatchObject({ todo: { state: 'rejected' } })
    const trail = await shown('inbox', 'trail', rejected)
    expect(trail.stdout).toMatch(/N +TIME +WHAT +STATE/)
    expect(trail.stdout).toContain('not ours')
    const again = (await on('inbox', 'retry', failed)).json<{ todo: { id: string; state: string } }>()
    expect(again.todo).toMatchObject({ state: 'pending' })
    expect(again.todo.id).not.toBe(failed)
    expect((await on('inbox', 'complete', again.todo.id, '--text', 'after all')).code).toBe(0)

    const module = join(tempDir(), 'failing.mjs')
    writeFileSync(module, 'export const sideEffects = "none"\nexport default async () => { throw new Error("never works") }\n')
    expect((await on('agent', 'add', 'flawed', '--handler', module)).code).toBe(0)
    const sent = await on('send', 'flawed', '--agent', 'alice', '--text', 'try', '--wait', '30s')
    expect(sent.json()).toMatchObject({ task: { status: { state: 'TASK_STATE_FAILED' } } })
    const letters = (await on('inbox', 'dead')).json<{ id: string; agent: string; reason: string }[]>()
    expect(letters).toMatchObject([{ agent: 'flawed', attempts: 1 }])
    expect((await on('inbox', 'drop', letters[0]?.id ?? '')).json()).toEqual({ dropped: letters[0]?.id })
    expect((await shown('inbox', 'dead')).stdout).toBe('no dead letters\n')
  })

  it('[cli] `inbox approve` lets one task out of the asleep queue run, or refuses it', async () => {
    const module = join(tempDir(), 'lasting.mjs')
    writeFileSync(module, 'export default async () => ({ text: "booked" })\n')
    await on('agent', 'add', 'booker', '--handler', module)
    await on('sleep', '--agent', 'booker')
    for (const id of ['b-1', 'b-2']) await on('send', 'booker', '--agent', 'alice', '--text', id, '--message-id', id)
    await on('wake', '--agent', 'booker')
    const waiting = (await on('inbox', '--agent', 'booker', '--state', 'auth-required')).json<{ id: string }[]>()
    expect(waiting).toHaveLength(2)
    expect((await on('inbox', 'approve', waiting[0]?.id ?? '')).json()).toMatchObject({ todo: { approval: 'given' } })
    expect((await on('inbox', 'approve', waiting[1]?.id ?? '', '--refuse')).json()).toMatchObject({ todo: { approval: 'refused' } })
  })

  it(
    '[cli] `friends request`, `show`, `approve`, `deny` and `remove` go between two nodes',
    async () => {
      expect((await on('friends', 'request', carl, '--agent', 'alice', '--note', 'forecasts')).json()).toMatchObject({ direction: 'out' })
      const asked = async () => (await carls('friends', 'list')).json<{ friends: { did: string; state: string }[] }>().friends
      await expect.poll(asked, { timeout: 60_000 }).toMatchObject([{ state: 'pending', note: 'forecasts' }])
      const [{ did: alice = '' } = {}] = await asked()
      expect((await carls('friends', 'show', alice)).json()).toMatchObject({ friends: [{ direction: 'in', state: 'pending' }] })
      expect((await carls('friends', 'approve', alice, '--verbs', 'send,read')).json()).toMatchObject({ state: 'approved' })
      const mine = async () => (await on('friends', 'show', carl)).json<{ friends: { state: string; credential?: string }[] }>().friends
      await expect.poll(mine, { timeout: 60_000 }).toMatchObject([{ state: 'approved', credential: expect.stringMatching(/^rkg_/) }])
      expect((await carls('friends', 'remove', alice)).code).toBe(0)
      expect((await on('friends', 'request', carl, '--agent', 'bob')).code).toBe(0)
      const waiting = async () => (await asked()).filter(({ state }) => state === 'pending')
      await expect.poll(waiting, { timeout: 60_000 }).toHaveLength(1)
      const [{ did: bob = '' } = {}] = await waiting()
      expect((await carls('friends', 'deny', bob)).json()).toMatchObject({ state: 'denied' })
    },
    TEST_MS
  )

  it('[cli] `grant show` tells one grant without its credential', async () => {
    const { id } = (await on('grant', 'create', 'desk', '--agent', 'alice')).json<{ id: string }>()
    const view = await on('grant', 'show', id.slice(0, 6))
    expect(view.json()).toMatchObject({ id, name: 'desk', state: 'in-force' })
    expect(view.stdout).not.toContain('rkg_')
  })

  it(
    '[cli] `group leave` ends a membership',
    async () => {
      expect((await carls('group', 'create', 'crew')).code).toBe(0)
      const bob = nodes[1]?.agents.get('bob').did as string
      expect((await carls('group', 'invite', 'crew', bob)).code).toBe(0)
      const groups = async () => (await on('group', 'show')).json<{ name: string; writable: string }[]>()
      await expect.poll(groups, { timeout: 60_000 }).toMatchObject([{ name: 'crew', writable: 'yes' }])
      expect((await on('group', 'leave', 'crew', '--agent', 'bob')).code).toBe(0)
      await expect.poll(groups, { timeout: 60_000 }).toEqual([])
    },
    TEST_MS
  )

  it('[cli] `point revoke` ends a grant of a point', async () => {
    expect((await on('point', 'add', 'printer', '--agent', 'alice', '--access', 'grant', '--value', '1')).code).toBe(0)
    expect((await on('point', 'grant', 'printer', '--agent', 'alice')).code).toBe(0)
    const [point] = (await on('point', 'list')).json<{ grants: { id: string }[] }[]>()
    const id = point?.grants[0]?.id as string
    expect((await on('point', 'revoke', 'printer', id, '--agent', 'alice')).json()).toMatchObject({ tag: 'printer', id })
  })

  it('[cli] `push retry` tries a webhook again that was given up or waits', async () => {
    const owner = nodes[1] as RookeryNode
    const task = await given('tell me by webhook')
    const todo = (await owner.todos.get(task)) as Todo
    const url = 'http://127.0.0.1:9/never'
    const id = String((await owner.push?.set(todo, { url }))?.id)
    expect((await on('push', 'list')).json()).toMatchObject({ configs: [{ task, id, url }] })
    expect((await on('push', 'retry', task, id)).json()).toMatchObject({ task, id })
  })

  it('[cli] `agent export` and `agent import` move an agent and its identity to another node', async () => {
    const [from, to] = [join(tempDir(), 'from'), join(tempDir(), 'to')]
    const did = (await rookery('init', '--data', from, '--agent', 'mover', '--json')).json<{ agent: { did: string } }>().agent.did
    await rookery('init', '--data', to, '--json')
    const [file, secret] = [join(tempDir(), 'mover.agent'), join(tempDir(), 'passphrase')]
    writeFileSync(secret, 'many words that nobody guesses\n', { mode: 0o600 })
    expect((await rookery('agent', 'export', 'mover', file, '--passphrase-file', secret, '--data', from, '--json')).json()).toMatchObject({
      did
    })
    const moved = await rookery('agent', 'import', file, '--as', 'settler', '--passphrase-file', secret, '--data', to, '--json')
    expect(moved.json()).toMatchObject({ name: 'settler', did })
  })

  it('[cli] `service install`, `show` and `uninstall` write the unit of this user, show it and take it away', async () => {
    if (process.platform !== 'linux') return expect(process.platform).not.toBe('linux')
    const home = tempDir()
    const unit = join(home, '.config/systemd/user/rookery.service')
    const service = async (...argv: string[]) => {
      let stdout = ''
      const write = {
        write(text: string) {
          stdout += text
          return true
        }
      } as unknown as NodeJS.WriteStream
      const quiet = { write: () => true } as unknown as NodeJS.WriteStream
      const bin = join(home, 'bin')
      const code = await main(['service', ...argv, '--data', join(home, 'data'), '--json'], {
        streams: { stdout: write, stderr: quiet },
        env: { HOME: home, PATH: bin },
        signal: new AbortController().signal
      })
      return { code, stdout }
    }
    expect((await service('install', '--no-begin')).code).toBe(0)
    expect(readFileSync(unit, 'utf8')).toContain('ExecStart=')
    expect(JSON.parse((await service('show')).stdout)).toMatchObject({ manager: 'systemd', file: unit })
    expect((await service('install', '--no-begin')).code).toBe(10)
  })
})

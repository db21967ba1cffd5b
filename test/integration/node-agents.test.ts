import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { callControl } from '../../src/api/control-client.ts'
import { nodeStatus } from '../../src/api/node-status.ts'
import { openControl } from '../../src/daemon.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const nodes: RookeryNode[] = []
const dirs: ReturnType<typeof nodeDir>[] = []
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop()
  for (const dir of dirs.splice(0)) dir.remove()
})

async function nodeOn(dir: ReturnType<typeof nodeDir>): Promise<RookeryNode> {
  const node = await createNode({ ...LOOPBACK, dataDir: dir.path })
  nodes.push(node)
  return node
}

function newDir(): ReturnType<typeof nodeDir> {
  const dir = nodeDir()
  dirs.push(dir)
  return dir
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await systemClock.sleep(10)
}

describe('an agent of a running node', () => {
  it('wakes by itself at the time until which it was put to sleep, and is handed what waited [OD-33]', async () => {
    const node = await nodeOn(newDir())
    const alice = await node.addAgent({ name: 'alice' })
    const bob = await node.addAgent({ name: 'bob', handler: 'echo' })
    await node.sleep(bob, { untilMs: node.clock.nowMs() + 400 })
    const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'good morning' }] }
    expect(await node.send({ from: alice, to: bob.eid, message })).toMatchObject({ outcome: 'queued' })
    await until(async () => bob.reachability.mode === 'always_on' && (await node.todos.list({ state: 'done' })).todos.length === 1)
    expect((await node.queueUsage(bob)).messages).toBe(0)
  })

  it('wakes at the start where its time came while the node was off', async () => {
    const dir = newDir()
    const before = await nodeOn(dir)
    const bob = await before.addAgent({ name: 'bob', handler: 'echo' })
    const untilMs = before.clock.nowMs() + 200
    await before.sleep(bob, { untilMs })
    await before.stop()
    await until(() => systemClock.nowMs() > untilMs)
    const after = await nodeOn(dir)
    await until(() => after.agents.get('bob').reachability.mode === 'always_on')
  })

  it('whose handler module cannot be loaded at the start is told in the status, and the node runs', async () => {
    const dir = newDir()
    const handler = join(dir.path, 'handler.mjs')
    writeFileSync(handler, 'export default async () => ({ text: "well" })\nexport const sideEffects = "none"\n')
    const before = await nodeOn(dir)
    await before.addAgent({ name: 'bob', handler })
    expect((await nodeStatus(before)).agents[0]).not.toHaveProperty('handlerFault')
    await before.stop()
    writeFileSync(join(dir.path, 'other.mjs'), '')
    // Node keeps modules by their URL, so the next start must meet another one.
    const file = join(dir.path, 'agents', 'bob.json')
    writeFileSync(file, readFileSync(file, 'utf8').replace('handler.mjs', 'other.mjs'), { mode: 0o600 })
    const after = await nodeOn(dir)
    expect((await nodeStatus(after)).agents[0]).toMatchObject({ name: 'bob', handlerFault: { code: 'HANDLER_INVALID' } })
  })

  it('is drained again once the owner vouches for a clock that had run a day ahead [G-10]', async () => {
    let aheadMs = 86_400_000
    const clock: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs }
    const dir = newDir()
    const node = await createNode({ ...LOOPBACK, dataDir: dir.path }, { clock, locators: 'on-demand' })
    nodes.push(node)
    await openControl(node, dir.path)
    const alice = await node.addAgent({ name: 'alice' })
    const bob = await node.addAgent({ name: 'bob', handler: 'echo' })
    await node.sleep(bob)
    const message = (messageId: string) => ({ messageId, role: 'ROLE_USER', parts: [{ text: 'hello' }] })
    await node.send({ from: alice, to: bob.eid, message: message('ahead') })
    aheadMs = 0
    await node.send({ from: alice, to: bob.eid, message: message('now') })
    const held = await callControl(dir.path, 'wake', { agent: 'bob' })
    expect(held.drain).toMatchObject({ accepted: 0, held: expect.stringContaining('before the highest time on disk') })
    const trusted = await callControl(dir.path, 'wake', { agent: 'bob', clock: 'trusted' })
    expect(trusted.drain).not.toHaveProperty('held')
    expect(trusted.drain).toMatchObject({ accepted: 1 })
  })
})

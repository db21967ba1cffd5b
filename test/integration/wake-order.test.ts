import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

let dir: ReturnType<typeof nodeDir>
let node: RookeryNode
beforeAll(async () => {
  dir = nodeDir()
  node = await createNode({ ...LOOPBACK, dataDir: dir.path })
})
afterAll(async () => {
  await node.stop()
  dir.remove()
})

const say = (messageId: string) => ({ messageId, role: 'ROLE_USER', parts: [{ text: messageId }] })

describe('what is sent to an agent that has just woken', () => {
  it('[OD-10] [OD-37] becomes work behind what waited for it, though the wake is still being told to the network', async () => {
    const [alice, bob] = [await node.addAgent({ name: 'alice' }), await node.addAgent({ name: 'bob' })]
    await node.sleep(bob)
    const ids = Array.from({ length: 40 }, (_, i) => `m-${i}`)
    for (const id of ids) await node.send({ from: alice, to: bob.eid, message: say(id) })
    expect((await node.queueUsage(bob)).messages).toBe(ids.length)
    const created: string[] = []
    const off = node.todos.onCommit((todo) => {
      const id = todo.history[0]?.messageId as string
      if (!created.includes(id)) created.push(id)
    })
    await node.agents.wake(bob) // the first step of a wake; nobody has drained the queue yet
    await Promise.all(['now-1', 'now-2'].map((id) => node.send({ from: alice, to: bob.eid, message: say(id) }, { waitMs: 0 })))
    off()
    expect(created.slice(0, ids.length)).toEqual(ids)
    expect(created.slice(ids.length).sort()).toEqual(['now-1', 'now-2'])
    expect((await node.queueUsage(bob)).messages).toBe(0)
  })
})

import { expect, it } from 'vitest'
import { taskJson } from '../../src/a2a/projection.ts'
import { openLevelStore, openTodos, principal, tempDir, testAgent } from '../support/a2a-fixture.ts'

it('[G-49] the environment of an agent is this node: content is passed on as it came, not folded, normalised or judged', async () => {
  const dir = tempDir()
  const store = await openLevelStore(dir.path)
  const todos = await openTodos(store)
  try {
    // decomposed letters, folded spaces and two texts of one meaning: what a hypermedia interpreter would make one of
    const parts = [{ text: 'cafe\u0301  au \u00a0lait\r\n' }, { text: 'café au lait' }, { data: { b: 1, a: [1.5, 'x'] } }]
    const message = { messageId: 'm', role: 'ROLE_USER', parts }
    const agent = testAgent(1).eidHex
    const { todo } = await todos.create({ agent, caller: principal(2), message, door: 'library' })
    await todos.claim(agent, 'library:t', { leaseMs: 60_000 })
    const done = taskJson(await todos.complete(todo.id, 'library:t', [{ artifactId: 'a', parts }]))
    expect(JSON.stringify([done.history, done.artifacts])).toBe(
      JSON.stringify([[{ ...message, taskId: todo.id, contextId: todo.contextId }], [{ artifactId: 'a', parts }]])
    )
  } finally {
    await todos.stop()
    await store.close()
    dir.dispose()
  }
})

import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { NodeStatus } from '../../src/api/methods.ts'
import type { OutboxDetails, OutboxView } from '../../src/api/outbox-methods.ts'
import { main } from '../../src/cli/main.ts'
import { openControl } from '../../src/daemon.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { rookery } from './cli-fixture.ts'

let dir: ReturnType<typeof nodeDir>
let node: RookeryNode
beforeAll(async () => {
  dir = nodeDir()
  node = await createNode({ ...LOOPBACK, dataDir: dir.path, outbox: { messagesPerAudienceMax: 2 } })
  await openControl(node, dir.path)
  await node.addAgent({ name: 'alice' })
  await node.addAgent({ name: 'bob', handler: 'echo' })
  await node.sleep(node.agents.get('bob'))
})
afterAll(async () => {
  await node.stop()
  dir.remove()
})

const run = (...argv: string[]) => rookery(...argv, '--data', dir.path, '--json')
const post = (id: string) =>
  run('send', node.agents.get('bob').did, '--agent', 'alice', '--text', `hello ${id}`, '--message-id', id, '--outbox')
const listed = async () => (await run('outbox', 'list')).json<{ messages: OutboxView[]; waiting: number }>()

/** Lines of `outbox watch` until it has shown this state. */
async function watchUntil(state: string): Promise<() => Promise<{ lines: (OutboxView & { before?: string })[]; code: number }>> {
  const stop = new AbortController()
  const lines: (OutboxView & { before?: string })[] = []
  const seen = Promise.withResolvers<void>()
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      for (const line of chunk.toString().trim().split('\n')) {
        const view = JSON.parse(line) as OutboxView
        lines.push(view)
        if (view.state === state) seen.resolve()
      }
      done()
    }
  })
  const stderr = new Writable({ write: (_chunk, _encoding, done) => done() })
  const code = main(['outbox', 'watch', '--data', dir.path, '--json'], { streams: { stdout, stderr }, env: {}, signal: stop.signal })
  return async () => {
    await seen.promise
    stop.abort()
    return { lines, code: await code }
  }
}

describe('the outbox on the command line', () => {
  it('[F088] [OD-14] takes a message over, shows where it is and who signed, and follows it until the task has ended', async () => {
    const watched = await watchUntil('handled')
    const sent = await post('m-1')
    expect(sent.code).toBe(0)
    const { outcome, outbox } = sent.json<{ outcome: string; outbox: OutboxView }>()
    expect(outcome).toBe('outbox')
    expect(outbox).toMatchObject({ messageId: 'm-1', agent: 'alice', state: 'queued-here' })
    await run('outbox', 'retry', outbox.id)
    expect((await listed()).messages).toMatchObject([{ id: outbox.id, state: 'kept-by-1', lastError: 'AGENT_ASLEEP' }])
    const details = (await run('outbox', 'show', outbox.id.slice(0, 6))).json<OutboxDetails>()
    expect(details.keepers).toEqual([node.agents.get('bob').did])

    expect((await run('wake', '--agent', 'bob')).code).toBe(0)
    while ((await listed()).waiting > 0 || (await listed()).messages[0]?.state !== 'handled') await run('outbox', 'retry', outbox.id)
    expect((await node.todos.list({ limit: 10 })).todos).toHaveLength(1)
    const { lines } = await watched()
    expect(lines.map(({ before, state }) => [before, state])).toEqual([
      [undefined, 'queued-here'],
      ['queued-here', 'kept-by-1'],
      ...(lines.some(({ state }) => state === 'delivered')
        ? [
            ['kept-by-1', 'delivered'],
            ['delivered', 'handled']
          ]
        : [['kept-by-1', 'handled']])
    ])
    expect((await rookery('outbox', 'list', '--data', dir.path)).stdout).toContain('handled')
  })

  it('[OD-24] refuses above a bound and says which, and drops what nobody wants any more', async () => {
    await node.sleep(node.agents.get('bob'))
    for (const id of ['m-2', 'm-3']) expect((await post(id)).code).toBe(0)
    const refused = (await post('m-4')).error()
    expect(refused).toMatchObject({ code: 'OUTBOX_FULL', kind: 'unavailable', remedy: expect.stringContaining('rookery outbox drop') })
    const [, second] = (await listed()).messages
    expect((await run('outbox', 'drop', second?.id ?? '')).json()).toEqual({ dropped: second?.id })
    expect((await post('m-4')).code).toBe(0)
  })

  it('[OD-30] shows in the status what is not delivered yet', async () => {
    const { outbox, keeping } = (await run('status')).json<NodeStatus>()
    expect(outbox).toMatchObject({ waiting: (await listed()).waiting })
    expect(keeping).toEqual([])
    expect((await rookery('status', '--data', dir.path)).stdout).toContain('not delivered yet')
  })

  it('names what it does not know, and how to find out', async () => {
    expect((await run('outbox', 'show', 'ffff')).error()).toMatchObject({ code: 'OUTBOX_UNKNOWN', field: 'id', value: 'ffff' })
    expect((await run('outbox', 'show', 'xyz')).error()).toMatchObject({ field: 'id' })
    expect((await run('outbox', 'retry')).error()).toMatchObject({ code: 'PARAMS_INVALID', remedy: 'name a message, or give --all' })
  })
})

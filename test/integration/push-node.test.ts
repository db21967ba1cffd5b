import { afterEach, describe, expect, it } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import { homeOf } from '../../src/identity/agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { post, rpc, textMessage } from '../support/a2a-fixture.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { PushReceiver } from '../support/push-receiver.ts'

const closing: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

function folder(): string {
  const dir = nodeDir()
  closing.push(() => dir.remove())
  return dir.path
}

async function start(dataDir: string, push: ConfigInput['push']): Promise<RookeryNode> {
  const node = await createNode({ ...LOOPBACK, push, dataDir }, { locators: 'on-demand' })
  closing.push(() => node.stop())
  return node
}

describe('push notifications of a node', () => {
  it('[TD-36] [TD-29] are on the card, asked for with a grant that allows them, sent, and survive a restart', async () => {
    const receiver = new PushReceiver()
    await receiver.open()
    closing.push(() => receiver.close())
    const dir = folder()
    const first = await start(dir, { targets: 'loopback' })
    const bob = await first.addAgent({ name: 'bob', handler: 'manual' })
    const url = first.agentUrl(bob) as string
    const card = await (await fetch(`${url}/.well-known/agent-card.json`)).json()
    expect(card.capabilities.pushNotifications).toBe(true)

    const vend = async (verbs: ('send' | 'read' | 'push')[]) => {
      const { credential } = await first.grants.create({ agent: homeOf(bob), name: verbs.join(), verbs })
      return { token: credential as string }
    }
    const configuration = { returnImmediately: true, taskPushNotificationConfig: { url: receiver.url(), token: 'tok' } }
    const send = (caller: { token: string }) =>
      post(url, rpc('SendMessage', { message: textMessage('m1'), configuration }), { agent: caller })
    expect((await send(await vend(['send', 'read']))).status).toBe(403)
    const caller = await vend(['send', 'read', 'push'])
    const { task } = (await send(caller)).body.result
    expect((await send(caller)).body.result.task.id).toBe(task.id)
    const listed = await post(url, rpc('ListTaskPushNotificationConfigs', { taskId: task.id }), { agent: caller })
    expect(listed.body.result.configs).toEqual([{ id: expect.any(String), taskId: task.id, url: receiver.url() }])
    await first.stop()

    const second = await start(dir, { targets: 'loopback' })
    await second.todos.claimOne(task.id, 'test', { leaseMs: 60_000 })
    await second.todos.complete(task.id, 'test', [{ artifactId: 'a', parts: [{ text: 'done' }] }])
    await receiver.until(() => JSON.stringify(receiver.got.at(-1)?.body ?? {}).includes('TASK_STATE_COMPLETED'))
    expect(receiver.got.every(({ headers }) => headers['x-a2a-notification-token'] === 'tok')).toBe(true)
    await expect.poll(() => second.push?.all()[0]?.state).toBe('done')
  })

  it('[TD-36] are off where the operator says so: not on the card, and refused', async () => {
    const node = await start(folder(), { enabled: false })
    const bob = await node.addAgent({ name: 'bob', handler: 'manual' })
    const url = node.agentUrl(bob) as string
    const { capabilities } = await (await fetch(`${url}/.well-known/agent-card.json`)).json()
    expect(capabilities.pushNotifications).not.toBe(true)
    const { credential } = await node.grants.create({ agent: homeOf(bob), name: 'desk' })
    const agent = { token: credential as string }
    for (const method of ['CreateTaskPushNotificationConfig', 'ListTaskPushNotificationConfigs']) {
      const answer = await post(url, rpc(method, { taskId: 't', id: 'c', url: 'https://example.com/' }), { agent })
      expect(answer.body.error.code).toBe(-32003)
    }
    const configuration = { taskPushNotificationConfig: { url: 'https://example.com/' } }
    expect((await post(url, rpc('SendMessage', { message: textMessage('m1'), configuration }), { agent })).body.error.code).toBe(-32003)
    expect((await node.todos.list({})).todos).toEqual([])
  })
})

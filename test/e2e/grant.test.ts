import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { GrantView } from '../../src/api/grant-methods.ts'
import { openControl } from '../../src/daemon.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { testAgent } from '../support/a2a-fixture.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { rookery } from './cli-fixture.ts'

let dir: ReturnType<typeof nodeDir>
let node: RookeryNode
beforeAll(async () => {
  dir = nodeDir()
  node = await createNode({ ...LOOPBACK, grants: { peers: 'required' }, dataDir: dir.path }, { locators: 'on-demand' })
  await openControl(node, dir.path)
  await node.addAgent({ name: 'bob', handler: 'echo' })
})
afterAll(async () => {
  await node.stop()
  dir.remove()
})

const run = (...argv: string[]) => rookery(...argv, '--data', dir.path, '--json')
const human = (...argv: string[]) => rookery(...argv, '--data', dir.path)
const peer = testAgent(5).did

describe('grants on the command line', () => {
  it('[TD-06] [TD-22] are made, shown, tuned and revoked; the credential is in the first answer alone', async () => {
    const made = (await run('grant', 'create', 'desk', '--for', peer, '--verbs', 'read,send', '--ttl', '1d', '--burst', '5')).json<
      GrantView & { credential: string; url: string }
    >()
    expect(made).toMatchObject({
      name: 'desk',
      agent: 'bob',
      for: peer,
      verbs: ['send', 'read'],
      state: 'in-force',
      bearer: true,
      limits: { burst: 5, perMin: 10 },
      ownLimits: { burst: 5 }
    })
    expect(made.credential).toMatch(/^rkg_/)
    const headers = { Authorization: `Bearer ${made.credential}`, 'A2A-Version': '1.0', 'Content-Type': 'application/json' }
    const listTasks = () => fetch(made.url, { method: 'POST', headers, body: '{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}' })
    expect((await listTasks()).status).toBe(200)

    const tuned = (await run('grant', 'tune', made.id.slice(0, 6), '--per-minute', '60')).json<GrantView>()
    expect(tuned).toMatchObject({ id: made.id, limits: { burst: 20, perMin: 60 }, ownLimits: { perMin: 60 } })
    for (const argv of [['show', made.id], ['list'], ['list', '--all']]) expect((await run('grant', ...argv)).stdout).not.toContain('rkg_')
    expect((await human('grant', 'list')).stdout).toMatch(/desk .*in-force/)

    expect((await run('grant', 'revoke', made.id)).json<GrantView>().state).toBe('revoked')
    expect((await listTasks()).status).toBe(401)
    expect((await run('grant', 'list')).json<{ grants: unknown[] }>().grants).toEqual([])
    expect((await run('grant', 'list', '--all')).json<{ grants: GrantView[] }>().grants).toMatchObject([{ id: made.id, state: 'revoked' }])
  })

  it('[TD-06] are refused with the field, the value and what to do', async () => {
    const unknown = await run('grant', 'revoke', 'ffff')
    expect([unknown.code, unknown.error()]).toMatchObject([5, { code: 'GRANT_UNKNOWN', field: 'id', value: 'ffff' }])
    const own = await run('grant', 'create', 'self', '--for', node.agents.get('bob').did)
    expect([own.code, own.error()]).toMatchObject([2, { code: 'GRANT_INVALID', field: 'for' }])
    await run('grant', 'create', 'twice', '--for', peer)
    const again = await run('grant', 'create', 'twice', '--for', peer)
    expect([again.code, again.error()]).toMatchObject([
      10,
      { code: 'GRANT_EXISTS', field: 'peer', remedy: expect.stringContaining('--replace') }
    ])
    expect((await run('grant', 'create', 'twice', '--for', peer, '--replace')).code).toBe(0)
    expect((await run('grant', 'create', 'x', '--verbs', 'admin')).code).toBe(2)
  })

  it('[TD-06] friend requests are listed, and answered for who asked alone', async () => {
    expect((await run('friends', 'list')).json()).toMatchObject({ friends: [], waiting: 0 })
    expect((await human('friends', 'list')).stdout).toContain('nobody waits for your answer')
    const nobody = await run('friends', 'approve', testAgent(6).did)
    expect([nobody.code, nobody.error()]).toMatchObject([5, { code: 'FRIEND_UNKNOWN' }])
    const own = await run('friends', 'request', node.agents.get('bob').did)
    expect([own.code, own.error()]).toMatchObject([2, { code: 'FRIEND_INVALID', field: 'did' }])
    expect((await run('push', 'list')).json()).toMatchObject({ configs: [], enabled: true, delivered: 0 })
  })
})

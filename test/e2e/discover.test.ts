import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DiscoverResult } from '../../src/api/methods.ts'
import { cleanUp, rookery, type StartedNode, startNode, tempDir } from './cli-fixture.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'
let alice: StartedNode
let bob: StartedNode
let bobDid: string

async function started(agent: string, ...flags: string[]): Promise<StartedNode> {
  const dir = tempDir()
  expect((await rookery('init', '--data', dir, '--agent', agent, '--handler', 'echo')).code).toBe(0)
  return await startNode(dir, ...flags)
}

beforeAll(async () => {
  bob = await started('bob')
  const address = `${bob.status.addresses[0]}/p2p/${bob.status.node.peer}`
  alice = await started('alice', '--bootstrap', address)
  bobDid = (await rookery('agent', 'list', '--data', bob.dataDir, '--json')).json<{ did: string }[]>()[0]?.did as string
  for (;;) {
    const { peers } = (await rookery('status', '--data', alice.dataDir, '--json')).json<{ peers: number }>()
    if (peers > 0) break
  }
  expect((await rookery('space', 'announce', SPACE, '--data', bob.dataDir)).code).toBe(0)
  expect((await rookery('space', 'join', SPACE, '--tags', 'solar,de-by', '--data', bob.dataDir)).code).toBe(0)
}, 120_000)

afterAll(cleanUp)

describe('rookery discover', () => {
  it('[AD-01] [AD-08] finds an agent of another node without showing who searches, and opens a session with it', async () => {
    const run = await rookery('discover', SPACE, '--anonymous', '--tags', 'solar', '--want', 'contact', '--data', alice.dataDir, '--json')
    expect([run.code, run.stderr]).toEqual([0, expect.stringContaining('the network is too small')])
    const result = run.json<DiscoverResult & Record<string, unknown>>()
    expect(result.found).toEqual([
      expect.objectContaining({ did: bobDid, kind: 'member', tags: ['solar', 'de-by'], mode: 'always_on', reachable: true })
    ])
    expect(result).toMatchObject({ path: 'small', difficulty: 16 })
    expect(result.tries).toBeGreaterThan(0)
    const session = await rookery('session', 'open', bobDid, '--data', alice.dataDir, '--json')
    expect([session.code, session.json().remote]).toEqual([0, bobDid])
  })

  it('[DS-17] shows people each answer as it comes, and what the search cost', async () => {
    const run = await rookery('discover', SPACE, '--data', alice.dataDir)
    expect(run.code).toBe(0)
    expect(run.stdout).toContain(bobDid)
    expect(run.stdout).toContain('solar,de-by')
    expect(run.stderr).toContain('working: 16 bits, about 65,536 tries')
    expect(run.stderr).toMatch(/1 agent, 1 answered themselves; 16 bits of work, about [\d,]+ tries; \d+ ms/)
  })

  it('[G-27] [AD-07] reaches an agent that joined unlisted, which no listing shows', async () => {
    const quiet = 'org.agentnet/quiet@1'
    const cli = async (node: StartedNode, ...words: string[]) => await rookery(...words, '--data', node.dataDir, '--json')
    expect((await cli(alice, 'space', 'announce', quiet)).code).toBe(0)
    const joined = await rookery('space', 'join', quiet, '--unlisted', '--data', bob.dataDir)
    expect(joined.stdout).toMatch(/^joined .*unlisted/)
    for (const node of [alice, bob]) expect((await cli(node, 'find', quiet)).json<{ members: unknown[] }>().members).toEqual([])
    expect((await rookery('space', 'list', '--data', bob.dataDir)).stdout).toMatch(/quiet@1 +member, unlisted/)
    const records = await cli(alice, 'discover', quiet, '--want', 'records')
    expect([records.code, records.json<DiscoverResult>().found]).toEqual([0, []])
    const contact = await cli(alice, 'discover', quiet, '--want', 'contact')
    expect(contact.json<DiscoverResult>().found).toMatchObject([{ did: bobDid, kind: 'member', reachable: true }])
  })

  it('names the field and the remedy when the space has no version, and finds nobody where there is nobody', async () => {
    const wrong = await rookery('discover', 'org.agentnet/energy', '--data', alice.dataDir, '--json')
    expect(wrong.code).toBe(2)
    expect(wrong.error()).toMatchObject({ field: 'name', remedy: expect.stringContaining('namespace/topic@version') })
    const empty = await rookery('discover', 'org.agentnet/nothing@1', '--data', alice.dataDir, '--json')
    expect([empty.code, empty.json<DiscoverResult>().found]).toEqual([0, []])
  })
})

describe('rookery point', () => {
  it('[ESE-09] registers a point, which another node looks up and reads with a grant', async () => {
    const added = await rookery(
      'point',
      'add',
      'printer',
      '--access',
      'grant',
      '--value',
      '{"queue":"laser-2"}',
      '--data',
      bob.dataDir,
      '--json'
    )
    expect([added.code, added.json()]).toEqual([0, expect.objectContaining({ tag: 'printer', access: 'grant', agent: 'bob' })])
    const { grant } = (await rookery('point', 'grant', 'printer', '--for', '1h', '--data', bob.dataDir, '--json')).json<{ grant: string }>()
    const shown = await rookery('point', 'show', bobDid, 'printer', '--data', alice.dataDir, '--json')
    expect(shown.json()).toMatchObject({ did: bobDid, tag: 'printer', access: 'grant' })
    const denied = await rookery('point', 'read', bobDid, 'printer', '--data', alice.dataDir, '--json')
    expect([denied.code, denied.error().code]).toEqual([6, 'POINT_DENIED'])
    const read = await rookery('point', 'read', bobDid, 'printer', '--grant', grant, '--data', alice.dataDir, '--json')
    expect(read.json()).toEqual({ did: bobDid, tag: 'printer', value: { queue: 'laser-2' } })
    const listed = await rookery('point', 'list', '--data', bob.dataDir)
    expect(listed.stdout).toMatch(/TAG.*\nprinter +bob +grant +[0-9a-f]{16}/)
    expect((await rookery('point', 'remove', 'printer', '--data', bob.dataDir)).code).toBe(0)
    const gone = await rookery('point', 'show', bobDid, 'printer', '--data', alice.dataDir, '--json')
    expect([gone.code, gone.error().field]).toEqual([5, 'tag'])
  })
})

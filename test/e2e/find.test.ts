import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cleanUp, LAUNCHER, rookery, type StartedNode, startNode, tempDir } from './cli-fixture.ts'

const SPACE = 'org.agentnet/marketplace.energy@1'
const STRANGER = 'did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG'

let node: StartedNode
const dids = new Map<string, string>()
const on = (...argv: string[]) => rookery(...argv, '--data', node.dataDir, '--json')
const forPeople = (...argv: string[]) => rookery(...argv, '--data', node.dataDir)

beforeAll(async () => {
  const dataDir = tempDir()
  await rookery('init', '--data', dataDir, '--agent', 'alice', '--json')
  node = await startNode(dataDir)
  for (const name of ['bob', 'carol', 'dora']) await on('agent', 'add', name)
  for (const { name, did } of (await on('agent', 'list')).json<{ name: string; did: string }[]>()) dids.set(name, did)
  expect((await on('space', 'announce', SPACE, '--description', 'kilowatts', '--agent', 'alice')).code).toBe(0)
  await on('space', 'join', SPACE, '--agent', 'bob', '--tags', 'seller,solar')
  await on('space', 'join', SPACE, '--agent', 'carol', '--tags', 'seller')
})
afterAll(cleanUp)

const did = (name: string) => dids.get(name) as string
const found = async (...more: string[]) =>
  (await on('find', SPACE, ...more)).json<{ members: { did: string }[]; next?: string; pruned: number }>()

describe('find', () => {
  it('[DS-15] shows people who, where, how reachable, with what tags, how fresh and from whom', async () => {
    const table = await forPeople('find', SPACE, '--tags', 'solar')
    expect(table.stdout).toMatch(/AGENT +SPACE +MODE +TAGS +FRESH +KNOWN FROM/)
    expect(table.stdout).toMatch(new RegExp(`${did('bob')} +${SPACE} +always_on +seller,solar +\\d+ s ago +this node alone`))
    expect(table.stdout).not.toContain(did('carol'))
    expect(table.stderr).toContain(`is curated by ${did('alice')} (an agent of this node)`)
    expect(table.stderr).toMatch(/1 agent in 1 space, from 1 of 1 registrar, \d+ ms\n/)
    const nothing = await forPeople('find', 'org.agentnet/nothing.here')
    expect(nothing.stderr).toContain('nobody has announced it')
  })

  it('[DS-15] gives pages with a cursor, or all', async () => {
    const first = await found('--page', '1')
    expect(first.members).toHaveLength(1)
    const second = await found('--page', '1', '--cursor', first.next as string)
    expect(second.members).toHaveLength(1)
    expect(second.next).toBeUndefined()
    const both = [...first.members, ...second.members].map((member) => member.did).sort()
    expect(both).toEqual([did('bob'), did('carol')].sort())
    expect((await found()).members).toHaveLength(2)
    expect((await forPeople('find', SPACE, '--page', '1')).stderr).toContain(`there are more: --cursor ${first.next}`)
    const bad = await on('find', SPACE, '--cursor', 'nonsense')
    expect([bad.code, bad.error()]).toMatchObject([2, { code: 'CURSOR_INVALID', field: 'page.after', value: 'nonsense' }])
    expect((await on('find', SPACE, '--watch', '--page', '1')).code).toBe(2)
  })

  it('[DS-15] --watch tells who comes, changes and goes, one line each, and ends clean by Ctrl-C', async () => {
    const lines = watch('--json')
    expect(await lines.next()).toMatchObject({ event: 'listed', members: [{}, {}] })
    await on('space', 'join', SPACE, '--agent', 'dora', '--tags', 'buyer')
    expect(await lines.next()).toMatchObject({ event: 'added', member: { did: did('dora'), tags: ['buyer'] } })
    await on('space', 'join', SPACE, '--agent', 'dora', '--tags', 'buyer,night')
    expect(await lines.next()).toMatchObject({ event: 'changed', member: { did: did('dora'), tags: ['buyer', 'night'] } })
    await on('space', 'leave', SPACE, '--agent', 'dora')
    expect(await lines.next()).toMatchObject({ event: 'removed', member: { did: did('dora') } })
    expect(await lines.interrupt()).toEqual({ code: 0, stderr: '' })
    const people = watch()
    const first = [await people.line(), await people.line()].sort()
    expect(first).toEqual([`+ ${did('bob')}  ${SPACE}  always_on  seller,solar`, `+ ${did('carol')}  ${SPACE}  always_on  seller`].sort())
    expect(await people.interrupt()).toEqual({ code: 0, stderr: '2 agents; watching until Ctrl-C\n' })
  })
})

describe('space', () => {
  it('[G-21] [G-22] show tells curator and trust, size, parts, versions; update keeps the rest', async () => {
    expect((await on('space', 'update', SPACE, '--description', 'megawatts', '--agent', 'alice')).code).toBe(0)
    const shown = (await on('space', 'show', SPACE)).json<Record<string, unknown>>()
    expect(shown).toMatchObject({
      curator: did('alice'),
      trust: 'own',
      members: 2,
      shards: 1,
      announcements: [{ description: 'megawatts', state: 'live' }],
      versions: [{ version: 1 }]
    })
    const people = await forPeople('space', 'show', SPACE)
    expect(people.stdout).toContain(`curator   ${did('alice')} (an agent of this node)`)
    expect(people.stdout).toMatch(/ANNOUNCED BY +STATE +HELD BY +AGO +DESCRIPTION\n.*live +1 registrar .*megawatts/)
    expect(people.stdout).toMatch(/VERSION +STATE +CURATOR/)
  })

  it('[DS-20] prune hides a member and shows it again', async () => {
    expect((await on('space', 'prune', SPACE, did('carol'), '--agent', 'alice', '--for', '2h')).code).toBe(0)
    expect(await found()).toMatchObject({ members: [{ did: did('bob') }], pruned: 1 })
    expect((await forPeople('find', SPACE)).stderr).toContain('1 agent left out: pruned by the curator')
    await on('space', 'prune', SPACE, did('carol'), '--agent', 'alice', '--undo')
    expect((await found()).members).toHaveLength(2)
    const refused = await on('space', 'prune', SPACE, did('carol'), '--agent', 'bob')
    expect([refused.code, refused.error()]).toMatchObject([5, { code: 'SPACE_NOT_CURATED', field: 'name', value: SPACE }])
  })

  it('[G-22] handover offers a space to another node’s agent, or gives it to one of this node; trust and tombstone', async () => {
    const offered = await on('space', 'handover', SPACE, STRANGER, '--agent', 'alice')
    expect(offered.json()).toMatchObject({ state: 'offered', to: STRANGER })
    expect((await forPeople('space', 'list')).stderr).toContain(`${SPACE} is offered to ${STRANGER}, who has not taken it yet`)
    expect((await on('space', 'handover', SPACE, 'nobody', '--agent', 'alice')).json()).toMatchObject({ state: 'kept' })
    expect((await on('space', 'handover', SPACE, did('bob'), '--agent', 'alice')).json()).toMatchObject({
      state: 'done',
      curator: did('bob')
    })
    expect((await found()).members).toHaveLength(2)
    expect((await on('space', 'trust', SPACE, did('bob'))).json()).toEqual({ name: SPACE, curator: did('bob') })
    expect((await on('space', 'trust', SPACE, 'nobody')).json()).toEqual({ name: SPACE })
    expect((await on('space', 'tombstone', SPACE, '--agent', 'bob')).code).toBe(0)
    expect((await on('find', SPACE)).json()).toMatchObject({ spaces: [], members: [] })
  })
})

/** `rookery find … --watch` as a process of its own, read line by line. */
function watch(...flags: string[]) {
  const argv = [LAUNCHER, 'find', SPACE, '--watch', '--every', '1s', '--data', node.dataDir, ...flags]
  const child: ChildProcess = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'pipe'] })
  let stderr = ''
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]()
  const line = async () => {
    const { value, done } = await lines.next()
    if (done === true) throw new Error(`the watch ended: ${stderr}`)
    return value as string
  }
  return {
    line,
    next: async () => JSON.parse(await line()) as Record<string, unknown>,
    interrupt: async () => {
      const closed = once(child, 'close')
      child.kill('SIGINT')
      const [code] = await closed
      return { code, stderr }
    }
  }
}

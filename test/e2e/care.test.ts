import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { STORE_KINDS } from '../../src/care/disk-use.ts'
import { cleanUp, rookery, startNode, tempDir } from './cli-fixture.ts'

afterAll(cleanUp)

async function dataDir(...agents: string[]): Promise<string> {
  const dir = tempDir()
  expect((await rookery('init', '--data', dir, '--agent', agents[0] ?? 'alice', '--json')).code).toBe(0)
  return dir
}
const on = (dir: string, ...argv: string[]) => rookery(...argv, '--data', dir, '--json')

function passphraseFile(text = 'many words that nobody guesses'): string {
  const file = join(tempDir(), 'passphrase')
  writeFileSync(file, `${text}\n`, { mode: 0o600 })
  return file
}

interface Use {
  files: { kind: string; bytes: number; count: number }[]
  rows: { kind: string; rows: number; bytes: number }[]
  filesBytes: number
  freeBytes: number
}
interface Report {
  beforeBytes: number
  afterBytes: number
  kinds: { kind: string; beforeBytes: number; afterBytes: number }[]
}

describe('rookery disk and rookery compact', () => {
  it('tell what lies there by kind and give back what was deleted, through the running node and without one', async () => {
    const dir = await dataDir()
    expect((await on(dir, 'disk')).error()).toMatchObject({ code: 'NODE_UNKNOWN', field: '--data' })
    expect((await on(dir, 'compact')).code).toBe(5)
    const node = await startNode(dir)
    for (let i = 0; i < 5; i++) {
      const sent = await on(dir, 'send', 'alice', '--text', `task ${i} ${'x'.repeat(10_000)}`, '--wait', '0s')
      expect(sent.code, sent.stderr).toBe(0)
    }
    const running = (await on(dir, 'disk')).json<Use>()
    const tasks = running.rows.find(({ kind }) => kind === 'tasks')
    expect(tasks?.rows).toBeGreaterThanOrEqual(5)
    expect(tasks?.bytes).toBeGreaterThan(50_000)
    expect(running.rows.map(({ kind }) => kind)).not.toContain('other')
    for (const { kind } of running.rows) expect(STORE_KINDS).toContain(kind)
    expect(running.files.find(({ kind }) => kind === 'keys')?.bytes).toBeGreaterThan(100)
    expect(running.filesBytes).toBe(running.files.reduce((sum, { bytes }) => sum + bytes, 0))
    const text = await rookery('disk', '--data', dir)
    expect(text.stdout).toMatch(/IN THE STORE/)
    const live = (await on(dir, 'compact')).json<Report>()
    expect(live.afterBytes).toBeGreaterThan(0)
    expect(live.kinds.find(({ kind }) => kind === 'tasks')?.afterBytes).toBeGreaterThan(0)
    expect((await on(dir, 'inbox')).json<unknown[]>()).toHaveLength(5)
    expect(await node.stop()).toBe(0)
    const stopped = (await on(dir, 'disk')).json<Use>()
    expect(stopped.rows.find(({ kind }) => kind === 'tasks')?.rows).toBeGreaterThanOrEqual(tasks?.rows ?? 0)
    const printed = await rookery('compact', '--data', dir)
    expect(printed.stdout).toMatch(/^compacted {2}.+ before, .+ now: /)
    expect((await on(dir, 'compact')).json<Report>().beforeBytes).toBeGreaterThan(0)
  })
})

describe('rookery identity', () => {
  it('moves the key of a node under a passphrase, into a folder without one alone', async () => {
    const dir = await dataDir()
    const { peer } = (await on(dir, 'identity', 'list')).json<{ peer: string; agents: { name: string }[] }>()
    const secret = passphraseFile()
    const file = join(tempDir(), 'node.key')
    expect((await on(dir, 'identity', 'export', file)).error()).toMatchObject({ code: 'PASSPHRASE_MISSING' })
    expect((await on(dir, 'identity', 'export', file, '--passphrase-file', secret)).json()).toEqual({ kind: 'node', peer, file })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readFileSync(file).includes('"seed"')).toBe(false)
    expect((await on(dir, 'identity', 'export', file, '--passphrase-file', secret)).error()).toMatchObject({ code: 'BACKUP_EXISTS' })
    expect((await on(dir, 'identity', 'import', file, '--passphrase-file', secret)).error()).toMatchObject({ code: 'IDENTITY_EXISTS' })
    const fresh = join(tempDir(), 'fresh')
    const wrong = await on(fresh, 'identity', 'import', file, '--passphrase-file', passphraseFile('another sentence'))
    expect(wrong.error()).toMatchObject({ code: 'PASSPHRASE_WRONG', remedy: expect.stringContaining('check the passphrase') })
    expect(existsSync(fresh)).toBe(false)
    expect((await on(fresh, 'identity', 'import', file, '--passphrase-file', secret)).json()).toMatchObject({ kind: 'node', peer })
    expect(statSync(join(fresh, 'node.key')).mode & 0o777).toBe(0o600)
    expect((await on(fresh, 'identity', 'list')).json()).toEqual({ peer, agents: [] })
    const damaged = join(tempDir(), 'damaged')
    writeFileSync(damaged, readFileSync(file).subarray(0, 60))
    expect((await on(join(tempDir(), 'x'), 'identity', 'import', damaged)).error()).toMatchObject({ code: 'BACKUP_INVALID' })
    expect((await on(fresh, 'identity', 'import', join(tempDir(), 'none'))).error()).toMatchObject({ code: 'BACKUP_UNKNOWN' })
  })

  it('moves an agent to another node, keys and all, under another name if wished', async () => {
    const [dir, other] = [await dataDir('alice'), await dataDir('bob')]
    const secret = passphraseFile()
    const file = join(tempDir(), 'alice.agent')
    const exported = (await on(dir, 'identity', 'export', file, '--agent', 'alice', '--passphrase-file', secret)).json<{ did: string }>()
    expect((await on(dir, 'identity', 'export', `${file}2`, '--agent', 'nobody', '--no-passphrase')).error()).toMatchObject({
      code: 'AGENT_UNKNOWN'
    })
    const imported = await on(other, 'identity', 'import', file, '--as', 'alba', '--passphrase-file', secret)
    expect(imported.json()).toEqual({ kind: 'agent', name: 'alba', did: exported.did })
    const { agents } = (await on(other, 'identity', 'list')).json<{ agents: { name: string; did: string }[] }>()
    expect(agents.map(({ name }) => name)).toEqual(['alba', 'bob'])
    expect(agents[0]?.did).toBe(exported.did)
    expect((await on(join(tempDir(), 'none'), 'identity', 'list')).error()).toMatchObject({ code: 'NOT_INITIALISED' })
  })
})

describe('rookery doctor', () => {
  it('says what is wrong with a node that does not run, mends what it may, and then finds nothing', async () => {
    const dir = await dataDir()
    writeFileSync(join(dir, 'config.yaml'), 'mdns: true\n', { mode: 0o600 })
    chmodSync(join(dir, 'node.key'), 0o644)
    const look = await on(dir, 'doctor')
    expect(look.code).toBe(4)
    expect(look.json()).toMatchObject({ running: false, findings: [{ code: 'FILE_MODES', fixed: false }] })
    const text = await rookery('doctor', '--data', dir)
    expect(text.stdout).toContain('rookery doctor --fix')
    const fixed = await on(dir, 'doctor', '--fix')
    expect([fixed.code, fixed.json<{ findings: object[] }>().findings]).toEqual([
      0,
      [expect.objectContaining({ code: 'FILE_MODES', fixed: true })]
    ])
    expect((await rookery('doctor', '--data', dir)).stdout).toMatch(/^well {2}nothing is wrong with /)
    writeFileSync(join(dir, 'config.yaml'), 'mdns: perhaps\n')
    expect((await on(dir, 'doctor')).json()).toMatchObject({
      findings: [{ code: 'CONFIG_INVALID', title: expect.stringContaining('line 1') }]
    })
  })

  it('cleans up after a node that was killed, and not under one that runs', async () => {
    const dir = await dataDir()
    writeFileSync(join(dir, 'config.yaml'), 'mdns: true\n', { mode: 0o600 })
    const node = await startNode(dir)
    const running = await on(dir, 'doctor', '--fix')
    expect([running.code, running.json()]).toEqual([0, { dataDir: dir, findings: [], running: true }])
    expect(await node.stop('SIGKILL')).toBe(null)
    const codes = (await on(dir, 'doctor')).json<{ findings: { code: string }[] }>().findings.map(({ code }) => code)
    expect(codes).toEqual(['STALE_LOCK', 'STALE_SOCKET'])
    expect((await on(dir, 'doctor', '--fix')).code).toBe(0)
    expect(existsSync(join(dir, 'node.json'))).toBe(false)
    expect((await on(dir, 'doctor')).json<{ findings: object[] }>().findings).toEqual([])
  })
})

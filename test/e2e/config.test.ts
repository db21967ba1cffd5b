import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { main } from '../../src/cli/main.ts'
import { cleanUp, rookery, startNode, tempDir } from './cli-fixture.ts'

afterAll(cleanUp)

interface Shown {
  settings: { name: string; value: unknown; from?: string; live: boolean }[]
}

async function dataDir(): Promise<string> {
  const dir = tempDir()
  expect((await rookery('init', '--data', dir, '--agent', 'alice', '--json')).code).toBe(0)
  return dir
}

const show = async (dir: string, ...argv: string[]) =>
  (await rookery('config', 'show', ...argv, '--data', dir, '--json')).json<Shown>().settings

describe('rookery start --init', () => {
  it('[F100] makes a key in an unused folder, never in one that lost its own', async () => {
    const dir = join(tempDir(), 'new')
    const first = await startNode(dir, '--init')
    expect(await first.stop()).toBe(0)
    const again = await startNode(dir, '--init')
    expect(again.status.node.peer).toBe(first.status.node.peer)
    expect(await again.stop()).toBe(0)
    for (const name of readdirSync(dir)) if (name.startsWith('node.key') || name === 'node-key.json') rmSync(join(dir, name))
    const files = readdirSync(dir)
    const refused = await rookery('start', '--init', '--data', dir, '--json')
    expect(refused.code).toBe(3)
    expect(readdirSync(dir)).toEqual(files)
  })
})

describe('rookery config', () => {
  it('shows every setting with its value and the line that set it', async () => {
    const dir = await dataDir()
    writeFileSync(join(dir, 'config.yaml'), '# mine\nnetwork: public\nqueue:\n  ttlMax: 3d\n')
    expect((await show(dir)).length).toBeGreaterThan(40)
    expect(await show(dir, '--changed')).toEqual([
      expect.objectContaining({ name: 'network', value: 'public', from: `${join(dir, 'config.yaml')}, line 2, column 1` }),
      expect.objectContaining({ name: 'queue.ttlMax', value: '3d', from: `${join(dir, 'config.yaml')}, line 4, column 3` })
    ])
    expect((await show(dir, 'http')).map(({ name }) => name)).toContain('http.port')
    const one = await rookery('config', 'show', 'queue.ttlMax', '--data', dir)
    expect(one.stdout).toContain('ROOKERY_QUEUE_TTL_MAX')
    expect(one.stdout).toContain('followed by `rookery config reload`')
    const unknown = await rookery('config', 'show', 'ttl', '--data', dir, '--json')
    expect(unknown.code).toBe(2)
    expect(unknown.error()).toMatchObject({ code: 'SETTING_UNKNOWN', value: 'ttl', remedy: expect.stringContaining('queue.ttlMax') })
  })

  it('checks a file without starting anything: the place, the value and what is allowed', async () => {
    const dir = await dataDir()
    const good = join(dir, 'good.yaml')
    writeFileSync(good, 'sessionsMax: 5\n')
    expect((await rookery('config', 'check', good, '--data', dir, '--json')).json()).toMatchObject({ ok: true, set: 1 })
    const bad = join(dir, 'bad.json')
    writeFileSync(bad, '{\n  "queue": { "ttlMax": 7 }\n}\n')
    const refused = await rookery('config', 'check', bad, '--data', dir, '--json')
    expect(refused.code).toBe(3)
    expect(refused.error()).toMatchObject({ code: 'CONFIG_INVALID', field: 'queue.ttlMax', value: 7 })
    expect(refused.error().message).toContain(`${bad}, line 2, column`)
    expect(refused.error().message).toContain('needs a unit')
  })

  it('writes a setting between the comments, refuses what would not pass, and takes it out again', async () => {
    const dir = await dataDir()
    const file = join(dir, 'config.yaml')
    writeFileSync(file, '# ours\nnetwork: lan # at home\n')
    expect((await rookery('config', 'set', 'queue.messagesMax', '900', '--data', dir, '--json')).json()).toEqual({
      file,
      name: 'queue.messagesMax',
      value: 900,
      live: true
    })
    expect((await rookery('config', 'set', 'keepers', '', '--data', dir, '--json')).code).toBe(3)
    expect(readFileSync(file, 'utf8')).toBe('# ours\nnetwork: lan # at home\nqueue:\n  messagesMax: 900\n')
    const refused = await rookery('config', 'set', 'queue.ttlMax', '90d', '--data', dir, '--json')
    expect(refused.code).toBe(3)
    expect(refused.error()).toMatchObject({ code: 'CONFIG_INVALID', field: 'queue.ttlMax', value: '90d' })
    expect(refused.error().message).toBe('queue.ttlMax must be from 1s to 30d')
    expect(refused.error().remedy).toBe(`give another value; ${file} is as it was`)
    expect(refused.stderr).not.toContain('.new')
    expect(existsSync(`${file}.new`)).toBe(false)
    expect((await rookery('config', 'unset', 'queue.messagesMax', '--data', dir, '--json')).code).toBe(0)
    expect(await show(dir, '--changed')).toEqual([expect.objectContaining({ name: 'network', value: 'lan' })])
  })

  it('opens an editor, and keeps the former file where the text does not pass', async () => {
    const dir = await dataDir()
    const file = join(dir, 'config.yaml')
    const editor = join(dir, 'editor')
    const edit = async (line: string) => {
      writeFileSync(editor, `#!/bin/sh\nprintf '${line}\\n' > "$1"\n`)
      chmodSync(editor, 0o700)
      return await main(['config', 'edit', '--data', dir, '--json'], {
        env: { EDITOR: editor, PATH: process.env.PATH },
        signal: new AbortController().signal
      })
    }
    expect(await edit('sessionsMax: 7')).toBe(0)
    expect(readFileSync(file, 'utf8')).toBe('sessionsMax: 7\n')
    expect(await edit('sessionsMax: none')).toBe(3)
    expect(readFileSync(file, 'utf8')).toBe('sessionsMax: 7\n')
    expect(readFileSync(`${file}.new`, 'utf8')).toBe('sessionsMax: none\n')
    expect((await rookery('config', 'edit', '--data', dir, '--json')).error()).toMatchObject({ code: 'EDITOR_UNKNOWN' })
  })

  it('gives a JSON Schema in which each setting is described', async () => {
    const schema = (await rookery('config', 'schema', '--json')).json<{ properties: { queue: { properties: { ttlMax: object } } } }>()
    expect(schema.properties.queue.properties.ttlMax).toMatchObject({ type: 'string', default: '7d', description: expect.any(String) })
  })

  it('is read anew by a running node: at once where it can be, and said where it needs a restart; also on SIGHUP', async () => {
    const dir = await dataDir()
    const node = await startNode(dir)
    const bounds = async () => (await rookery('status', '--data', dir, '--json')).json<{ bounds: Record<string, unknown> }>().bounds
    for (const [name, value] of [
      ['queue.messagesMax', '900'],
      ['sessionsMax', '7']
    ] as const) {
      expect((await rookery('config', 'set', name, value, '--data', dir, '--json')).code).toBe(0)
    }
    const reloaded = await rookery('config', 'reload', '--data', dir, '--json')
    expect(reloaded.json()).toMatchObject({ applied: ['queue.messagesMax'], restart: ['sessionsMax'] })
    expect(await bounds()).toMatchObject({ 'queue.messagesMax': 900, sessionsMax: 1_000 })
    writeFileSync(join(dir, 'config.yaml'), 'queue: { messagesMax: many }\n')
    const refused = await rookery('config', 'reload', '--data', dir, '--json')
    expect(refused.error()).toMatchObject({ code: 'CONFIG_INVALID', field: 'queue.messagesMax' })
    expect(await bounds()).toMatchObject({ 'queue.messagesMax': 900 })
    writeFileSync(join(dir, 'config.yaml'), 'queue: { messagesMax: 800 }\n')
    node.child.kill('SIGHUP')
    while ((await bounds())['queue.messagesMax'] !== 800) await new Promise((resolve) => setTimeout(resolve, 20))
    expect(await node.stop()).toBe(0)
  })
})

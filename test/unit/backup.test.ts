import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { exportAgent, importAgent } from '../../src/backup/agent-export.ts'
import { backUp, restore } from '../../src/backup/backup.ts'
import { seal, unseal } from '../../src/backup/sealed-stream.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../src/errors.ts'
import { AgentFiles } from '../../src/identity/agent-file.ts'
import { newAgentRecord } from '../../src/identity/agents.ts'
import { initDataDir } from '../../src/identity/init.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { openStore } from '../../src/store/open-store.ts'
import { jsonCodec } from '../../src/store/store.ts'

const PASSPHRASE = 'correct horse battery'
const HEADER = { kind: 'backup', by: 'test', madeAtMs: 1, of: 'peer' } as const
const components = { crypto: nodeCrypto, random: systemRandom }

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-backup-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

async function* pieces(...given: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* given
}

async function all(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const got: Uint8Array[] = []
  for await (const piece of source) got.push(piece)
  return Buffer.concat(got)
}

const open = async (bytes: Uint8Array, passphrase?: string) =>
  all((await unseal(pieces(bytes), { file: 'f', passphrase: async () => passphrase })).text)

describe('a sealed stream', () => {
  it('opens to what was sealed, however it was cut', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 100_000, size: 'max' }), { maxLength: 4 }), async (parts) => {
        expect(await open(await all(seal(pieces(...parts), HEADER, undefined)))).toEqual(Buffer.concat(parts))
      }),
      { numRuns: 20 }
    )
  })

  it('is refused at every changed bit, at every cut, and with chunks left out or swapped', async () => {
    const text = new Uint8Array(150_000).map((_, i) => i % 251)
    const sealed = await all(seal(pieces(text), HEADER, undefined))
    const refused = async (bytes: Uint8Array) => expect(await open(bytes).catch((error: unknown) => error)).toBeInstanceOf(RookeryError)
    const ends = [sealed.indexOf('}') + 1]
    for (let at = ends[0] as number; at < sealed.length; ) {
      at += 4 + sealed.readUInt32BE(at)
      ends.push(at)
    }
    expect(ends).toHaveLength(4)
    const [head = 0, one = 0, two = 0] = ends
    for (const at of [0, 9, 12, 40, head + 3, head + 100, one + 2, one + 500, two + 4, sealed.length - 1]) {
      const changed = Buffer.from(sealed)
      changed[at] = (changed[at] as number) ^ 1
      await refused(changed)
    }
    for (const end of [0, 5, head, one, two, sealed.length - 1]) await refused(sealed.subarray(0, end))
    await refused(Buffer.concat([sealed.subarray(0, head), sealed.subarray(one)]))
    await refused(Buffer.concat([sealed.subarray(0, head), sealed.subarray(one, two), sealed.subarray(head, one), sealed.subarray(two)]))
    await refused(Buffer.concat([sealed, sealed.subarray(two)]))
  })

  it('opens with its passphrase alone, whatever the form of its letters', async () => {
    const sealed = await all(seal(pieces(Buffer.from('secret')), HEADER, 'Zürich ist schön'))
    expect(sealed.includes('secret')).toBe(false)
    expect((await open(sealed, 'Zürich ist schön'.normalize('NFD'))).toString()).toBe('secret')
    await expect(open(sealed, 'Zürich ist schon')).rejects.toMatchObject({ code: 'PASSPHRASE_WRONG' })
    await expect(open(sealed)).rejects.toMatchObject({ code: 'PASSPHRASE_MISSING', remedy: expect.stringContaining('--passphrase-file') })
  }, 120_000)
})

async function madeNode(): Promise<{ dataDir: string; peer: string }> {
  const dataDir = join(dir, 'node')
  const { peer } = initDataDir(dataDir, components)
  const files = new AgentFiles(dataDir, components)
  files.save(newAgentRecord({ name: 'alice', description: 'an agent' }, { random: systemRandom, nowMs: 1, handler: 'manual' }))
  files.saveToken('alice', systemRandom.bytes(32))
  writeFileSync(join(dataDir, 'config.yaml'), '# mine\n')
  writeFileSync(join(dataDir, 'ese.keys'), 'keys of states that may be destroyed')
  return { dataDir, peer }
}

describe('a backup', () => {
  it('brings back keys, agents, settings and each row of the store, and the keys of shared state never', async () => {
    const { dataDir, peer } = await madeNode()
    const file = join(dir, 'node.backup')
    const store = await openStore(dataDir, { software: 'test' })
    const table = store.table('things', jsonCodec<{ i: number }>())
    await store.commit(Array.from({ length: 2_000 }, (_, i) => table.put(`k${i}`, { i })))
    const report = await backUp({ store, peer, nowMs: 5 }, { dataDir, file, passphrase: PASSPHRASE })
    expect(report).toMatchObject({ files: 4, rows: 2_001, sealed: 'passphrase', bytes: statSync(file).size })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    await store.close()
    const target = join(dir, 'restored')
    const restored = await restore({ dataDir: target, file, passphrase: async () => PASSPHRASE })
    expect(restored).toMatchObject({ files: 4, rows: 2_001, header: { of: peer, madeAtMs: 5 } })
    expect(readdirSync(target).sort()).toEqual(['agents', 'config.yaml', 'node.key', 'store'])
    for (const name of ['node.key', 'agents/alice.json', 'agents/alice.token', 'config.yaml']) {
      expect(readFileSync(join(target, name))).toEqual(readFileSync(join(dataDir, name)))
    }
    const again = await openStore(target, { software: 'test' })
    const rows = again.table('things', jsonCodec<{ i: number }>())
    let count = 0
    for await (const [key, { i }] of rows.entries()) {
      expect(key).toBe(`k${i}`)
      count++
    }
    expect(count).toBe(2_000)
    await again.close()
  }, 120_000)

  it('is one moment of the store, whatever is written while it is made', async () => {
    const { dataDir, peer } = await madeNode()
    const store = await openStore(dataDir, { software: 'test' })
    const table = store.table('pairs', jsonCodec<number>())
    const write = (n: number) => store.commit([table.put('a', n), table.put('z', n), table.put(`row-${n}`, n)])
    await write(0)
    let made = false
    const writing = (async () => {
      for (let n = 1; !made; n++) await write(n)
    })()
    await backUp({ store, peer, nowMs: 5 }, { dataDir, file: join(dir, 'b'), passphrase: undefined })
    made = true
    await writing
    await store.close()
    await restore({ dataDir: join(dir, 'r'), file: join(dir, 'b'), passphrase: async () => undefined })
    const again = await openStore(join(dir, 'r'), { software: 'test' })
    const read = again.table('pairs', jsonCodec<number>())
    const last = (await read.get('a')) as number
    expect(await read.get('z')).toBe(last)
    expect(await read.has(`row-${last}`)).toBe(true)
    expect(await read.has(`row-${last + 1}`)).toBe(false)
    await again.close()
  })

  it('leaves nothing behind where it fails: neither half a file nor half a folder', async () => {
    const { dataDir, peer } = await madeNode()
    const store = await openStore(dataDir, { software: 'test' })
    const file = join(dir, 'b')
    await expect(
      backUp({ store, peer, nowMs: 5 }, { dataDir, file: join(dir, 'no', 'such'), passphrase: undefined })
    ).rejects.toMatchObject({ code: 'BACKUP_FAILED' })
    await backUp({ store, peer, nowMs: 5 }, { dataDir, file, passphrase: undefined })
    await expect(backUp({ store, peer, nowMs: 5 }, { dataDir, file, passphrase: undefined })).rejects.toMatchObject({
      code: 'BACKUP_EXISTS'
    })
    await store.close()
    const before = readdirSync(dir)
    await expect(restore({ dataDir, file, passphrase: async () => undefined })).rejects.toMatchObject({
      code: 'DATA_DIR_NOT_EMPTY',
      field: '--data'
    })
    const cut = join(dir, 'cut')
    writeFileSync(cut, readFileSync(file).subarray(0, -20))
    await expect(restore({ dataDir: join(dir, 'r'), file: cut, passphrase: async () => undefined })).rejects.toMatchObject({
      code: 'BACKUP_INVALID'
    })
    rmSync(cut)
    expect(readdirSync(dir)).toEqual(before)
    expect(existsSync(join(dir, 'r'))).toBe(false)
  })
})

describe('an agent that moves', () => {
  it('is exported under a passphrase and imported once, under another name if wished', async () => {
    const { dataDir } = await madeNode()
    const file = join(dir, 'alice.agent')
    const { did } = await exportAgent({ dataDir, name: 'alice', file, passphrase: PASSPHRASE, nowMs: 1 })
    const other = join(dir, 'other')
    initDataDir(other, components)
    const importing = (passphrase: string) => importAgent({ dataDir: other, file, as: 'alba', passphrase: async () => passphrase })
    await expect(importing('something else')).rejects.toMatchObject({ code: 'PASSPHRASE_WRONG' })
    expect(await importing(PASSPHRASE)).toEqual({ name: 'alba', did })
    const [agent] = new AgentFiles(other, components).load()
    expect(agent?.record).toMatchObject({ name: 'alba', description: 'an agent' })
    await expect(importing(PASSPHRASE)).rejects.toMatchObject({ code: 'AGENT_EXISTS', value: 'alba' })
    await expect(exportAgent({ dataDir, name: 'bob', file: join(dir, 'x'), passphrase: undefined, nowMs: 1 })).rejects.toMatchObject({
      code: 'AGENT_UNKNOWN'
    })
    await expect(restore({ dataDir: join(dir, 'r'), file, passphrase: async () => PASSPHRASE })).rejects.toMatchObject({
      code: 'BACKUP_INVALID',
      message: expect.stringContaining('rookery agent import')
    })
  }, 120_000)
})

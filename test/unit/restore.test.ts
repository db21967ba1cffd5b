import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { exportAgent, importAgent } from '../../src/backup/agent-export.ts'
import { FILES_MAX, restore, UNPACKED_BYTES_FREE, UNPACKED_RATIO_MAX } from '../../src/backup/backup.ts'
import { linesOf } from '../../src/backup/lines.ts'
import { exportNode, importNode, kindOfSealed } from '../../src/backup/node-export.ts'
import { unseal } from '../../src/backup/sealed-stream.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { AgentFiles } from '../../src/identity/agent-file.ts'
import { AGENTS_MAX, newAgentRecord } from '../../src/identity/agents.ts'
import { initDataDir } from '../../src/identity/init.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { backupFile, linesText, sealedFile } from '../support/sealed-archive.ts'

const components = { crypto: nodeCrypto, random: systemRandom }
const MIB = 1_048_576
const GOOD = linesText({ file: 'config.yaml', data: 'IyBtaW5lCg==' }, { files: 1, rows: 0 })

let dir: string
let file: string
beforeEach(() => {
  // in memory where the system has such: one test writes hundreds of files, each synced
  dir = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'rookery-restore-'))
  file = join(dir, 'theirs')
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const opened = async () => undefined
const restored = (dataDir: string, options = {}) => restore({ dataDir, file, passphrase: opened }, options)
async function backup(text: Uint8Array): Promise<void> {
  writeFileSync(file, await backupFile(text))
}

describe('a backup that is larger than it looks', () => {
  it('is refused at a bound that goes by its weight, says the bound and leaves nothing; its owner may lift it', async () => {
    const row = (i: number) => ({ row: `r${i}`, data: 'A'.repeat(MIB) })
    await backup(linesText(...Array.from({ length: 96 }, (_, i) => row(i)), { files: 0, rows: 96 }))
    const bytesMax = UNPACKED_BYTES_FREE + UNPACKED_RATIO_MAX * statSync(file).size
    expect(bytesMax).toBeLessThan(95 * MIB)
    await expect(restored(join(dir, 'r'))).rejects.toMatchObject({
      code: 'BACKUP_INVALID',
      field: 'file',
      value: file,
      message: expect.stringContaining(`${UNPACKED_RATIO_MAX} times`),
      remedy: expect.stringContaining('--any-size'),
      data: { bytesMax }
    })
    expect(readdirSync(dir)).toEqual(['theirs'])
    expect(await restored(join(dir, 'r'), { size: 'any' })).toMatchObject({ rows: 96 })
  }, 180_000)

  it('is refused for a line without an end before it is held whole', async () => {
    let given = 0
    const endless = async function* () {
      for (; ; given++) yield new Uint8Array(MIB).fill(65)
    }
    const read = linesOf(endless(), 'f').next()
    await expect(read).rejects.toMatchObject({ code: 'BACKUP_INVALID' })
    expect(given).toBe(64)
  })

  it('is refused for more files than a node can have', async () => {
    const names = Array.from({ length: FILES_MAX + 1 }, (_, i) => ({ file: `agents/a${i}.json`, data: '' }))
    await backup(linesText(...names, { files: names.length, rows: 0 }))
    await expect(restored(join(dir, 'r'))).rejects.toMatchObject({ code: 'BACKUP_INVALID', message: expect.stringContaining('files') })
    expect(readdirSync(dir)).toEqual(['theirs'])
  }, 180_000)
})

describe('lines of a backup', () => {
  it('are the same however their bytes were cut', async () => {
    const lines = [
      { file: 'a', data: 'ü' },
      { row: 'r'.repeat(50), data: '' },
      { files: 1, rows: 1 }
    ]
    const text = linesText(...lines)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(text.length), { maxLength: 8 }), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), text.length]
        const cut = async function* () {
          for (let i = 1; i < at.length; i++) yield text.subarray(at[i - 1], at[i])
        }
        const got: object[] = []
        for await (const line of linesOf(cut(), 'f')) got.push(line)
        expect(got).toEqual(lines)
      })
    )
  })

  it('are refused where they are no UTF-8, no JSON and no line of a backup', async () => {
    const refused = [Uint8Array.of(0x22, 0xff, 0x22), 'null', '[]', '{"file":1,"data":""}', '{"row":"a"}', '{"files":1}', '{', ''].map(
      (one) => Buffer.concat([Buffer.from(one as string), Buffer.from('\n{"files":0,"rows":0}\n')])
    )
    for (const text of refused) {
      await backup(text)
      await expect(restored(join(dir, 'r')), text.toString()).rejects.toMatchObject({ code: 'BACKUP_INVALID' })
      expect(readdirSync(dir)).toEqual(['theirs'])
    }
  }, 60_000)

  it('with a schema record that is none are told as a damaged store of the file', async () => {
    for (const record of ['null', '5', '{"version":"1"}', 'x']) {
      await backup(linesText({ row: '!meta!schema', data: Buffer.from(record).toString('base64') }, { files: 0, rows: 1 }))
      await expect(restored(join(dir, 'r')), record).rejects.toMatchObject({
        code: 'BACKUP_INVALID',
        message: expect.stringContaining('store'),
        value: file
      })
      expect(readdirSync(dir)).toEqual(['theirs'])
    }
  }, 60_000)
})

describe.skipIf(process.platform === 'win32')('where a backup is restored to', () => {
  it('is the empty folder that a link leads to: the link stays', async () => {
    await backup(GOOD)
    mkdirSync(join(dir, 'volume', 'real'), { recursive: true })
    const link = join(dir, 'link')
    symlinkSync('volume/real', link)
    await restored(link)
    expect(readlinkSync(link)).toBe('volume/real')
    expect(readFileSync(join(link, 'config.yaml'), 'utf8')).toBe('# mine\n')
    expect(readdirSync(join(dir, 'volume'))).toEqual(['real'])
    expect(statSync(link).mode & 0o777).toBe(0o700)
    await expect(restored(link)).rejects.toMatchObject({ code: 'DATA_DIR_NOT_EMPTY', field: '--data', value: link })
  })

  it('is no link that leads nowhere, to itself or to a file, and no file: it is told, and nothing is changed', async () => {
    await backup(GOOD)
    writeFileSync(join(dir, 'plain'), 'kept')
    symlinkSync('nowhere', join(dir, 'dangling'))
    symlinkSync('loop', join(dir, 'loop'))
    symlinkSync('plain', join(dir, 'to-file'))
    const before = readdirSync(dir)
    const node = join(dir, 'node')
    await mkdirNode(node)
    const [key, agent] = [join(dir, 'key'), join(dir, 'agent')]
    await exportNode(components, { dataDir: node, file: key, passphrase: undefined, nowMs: 1 })
    await exportAgent({ dataDir: node, name: 'alice', file: agent, passphrase: undefined, nowMs: 1 })
    for (const name of ['dangling', 'loop', 'to-file', 'plain']) {
      const dataDir = join(dir, name)
      const refusal = {
        code: 'DATA_DIR_UNUSABLE',
        kind: 'storage',
        field: '--data',
        value: dataDir,
        remedy: expect.stringContaining('--data')
      }
      await expect(restored(dataDir), name).rejects.toMatchObject(refusal)
      await expect(importNode(components, { dataDir, file: key, passphrase: opened }), name).rejects.toMatchObject(refusal)
      await expect(importAgent({ dataDir, file: agent, as: undefined, passphrase: opened }), name).rejects.toMatchObject(refusal)
    }
    expect(readdirSync(dir)).toEqual([...before, 'node', 'key', 'agent'].sort())
    expect(lstatSync(join(dir, 'dangling')).isSymbolicLink()).toBe(true)
    expect(readFileSync(join(dir, 'plain'), 'utf8')).toBe('kept')
  }, 60_000)

  it('leaves the rights of the folder around it as they are', async () => {
    await backup(GOOD)
    const around = join(dir, 'shared')
    mkdirSync(around)
    chmodSync(around, 0o755)
    await restored(join(around, 'node'))
    await restored(join(around, 'new', 'node'))
    expect([around, join(around, 'node'), join(around, 'new')].map((path) => statSync(path).mode & 0o777)).toEqual([0o755, 0o700, 0o700])
  })

  it('is told as unusable where it cannot be made, and never as a damaged file', async () => {
    await backup(GOOD)
    for (const dataDir of [join(file, 'node'), '/proc/none/node']) {
      await expect(restored(dataDir), dataDir).rejects.toMatchObject({
        code: 'DATA_DIR_UNUSABLE',
        remedy: expect.stringContaining('--data')
      })
    }
    expect(readdirSync(dir)).toEqual(['theirs'])
  })
})

async function mkdirNode(dataDir: string): Promise<string> {
  initDataDir(dataDir, components)
  const files = new AgentFiles(dataDir, components)
  files.save(newAgentRecord({ name: 'alice', description: 'an agent' }, { random: systemRandom, nowMs: 1, handler: 'manual' }))
  return readFileSync(join(dataDir, 'agents/alice.json'), 'utf8')
}

describe('a sealed file', () => {
  it('that is a folder is told as one that cannot be read', async () => {
    const dataDir = join(dir, 'r')
    const refusal = { code: 'BACKUP_UNREADABLE', field: 'file', value: dir }
    await expect(restore({ dataDir, file: dir, passphrase: opened })).rejects.toMatchObject(refusal)
    await expect(kindOfSealed(dir)).rejects.toMatchObject(refusal)
    await expect(importNode(components, { dataDir, file: dir, passphrase: opened })).rejects.toMatchObject(refusal)
    await expect(importAgent({ dataDir, file: dir, as: undefined, passphrase: opened })).rejects.toMatchObject(refusal)
    expect(readdirSync(dir)).toEqual([])
  })

  it('whose head asks for a key by parameters that are none is refused, and by others than it may name', async () => {
    const head = (scrypt: unknown) => {
      const stored = { kind: 'agent', by: 't', of: 'p', madeAtMs: 1, sealed: 'passphrase', salt: 'AA', prefix: 'AAAAAAAAAA', scrypt }
      const header = Buffer.from(JSON.stringify(stored))
      return Buffer.concat([Buffer.from('ROOKBK01'), Buffer.from([header.length >> 8, header.length & 255]), header])
    }
    const open = async (bytes: Uint8Array) => {
      const source = async function* () {
        yield bytes
      }
      const { text } = await unseal(source(), { file: 'f', passphrase: async () => 'word' })
      return await text.next()
    }
    for (const scrypt of [null, 7, 'x', [], {}, { N: 16_384 }, { N: '16384', r: 8, p: 1 }, { N: 2 ** 40, r: 8, p: 1 }]) {
      await expect(open(head(scrypt)), JSON.stringify(scrypt)).rejects.toMatchObject({ code: 'BACKUP_INVALID' })
    }
    const more = { N: 16_384, r: 1, p: 1, cost: 2, maxmem: 1 }
    await expect(open(Buffer.concat([head(more), Buffer.from([0, 0, 0, 16, ...Array(16).fill(0)])]))).rejects.toMatchObject({
      code: 'PASSPHRASE_WRONG'
    })
  })

  it('is not written where it cannot be: an export says so as a backup does', async () => {
    const node = join(dir, 'node')
    await mkdirNode(node)
    const given = { dataDir: node, file: join(dir, 'no', 'such'), passphrase: undefined, nowMs: 1 }
    await expect(exportNode(components, given)).rejects.toMatchObject({ code: 'BACKUP_FAILED', value: given.file })
    await expect(exportAgent({ ...given, name: 'alice' })).rejects.toMatchObject({ code: 'BACKUP_FAILED', value: given.file })
  })
})

describe('an imported identity', () => {
  const agentFile = async (text: string) => writeFileSync(file, await sealedFile('agent', Buffer.from(text)))
  const importing = (dataDir: string) => importAgent({ dataDir, file, as: undefined, passphrase: opened })

  it('of an agent is kept as this version writes one: what else was in the file goes, however deep', async () => {
    const mine = JSON.parse(await mkdirNode(join(dir, 'node'))) as object
    const deep = `${'['.repeat(9_000)}${']'.repeat(9_000)}`
    await agentFile(`{"more":${deep},"__proto__":{"name":"x"},${JSON.stringify(mine).slice(1)}`)
    const other = join(dir, 'other')
    initDataDir(other, components)
    expect(await importing(other)).toMatchObject({ name: 'alice' })
    expect(JSON.parse(readFileSync(join(other, 'agents/alice.json'), 'utf8'))).toEqual(mine)
  })

  it('that is damaged is refused before anything is made', async () => {
    const mine = JSON.parse(await mkdirNode(join(dir, 'node'))) as { seed: string }
    const other = join(dir, 'other')
    const wrong = [
      { formerly: [{ did: 'did:key:zNone', rotatedAtMs: 1 }] },
      { formerly: [{ did: 'did:key:zNone', rotatedAtMs: 1, certificate: 'A' }] },
      { seed: mine.seed.split('').reverse().join('') },
      { mailbox: [] },
      { v: 2 },
      { handler: 7 }
    ]
    for (const more of wrong) {
      await agentFile(JSON.stringify({ ...mine, ...more }))
      await expect(importing(other), JSON.stringify(more)).rejects.toMatchObject({ code: 'BACKUP_INVALID', field: 'file', value: file })
    }
    for (const text of ['', 'null', '{}', '{"v":1,"kind":"node","seed":"","public":""}', '\ud800']) {
      writeFileSync(file, await sealedFile('node', Buffer.from(text)))
      await expect(importNode(components, { dataDir: other, file, passphrase: opened }), text).rejects.toMatchObject({
        code: 'BACKUP_INVALID'
      })
    }
    expect(readdirSync(dir).sort()).toEqual(['node', 'theirs'])
  })

  it('is refused where the node has as many agents as it may', async () => {
    await agentFile(await mkdirNode(join(dir, 'node')))
    const other = join(dir, 'other')
    initDataDir(other, components)
    mkdirSync(join(other, 'agents'), { recursive: true })
    for (let i = 0; i < AGENTS_MAX; i++)
      writeFileSync(join(other, 'agents', `a${i}.json`), JSON.stringify({ name: `a${i}`, did: `did:key:z${i}` }))
    await expect(importing(other)).rejects.toMatchObject({ code: 'AGENTS_MAX', value: AGENTS_MAX })
    expect(readdirSync(join(other, 'agents'))).toHaveLength(AGENTS_MAX)
  })
})

it('a gzip that ends early, or holds no gzip, is a damaged backup', async () => {
  for (const bytes of [gzipSync(GOOD).subarray(0, -9), Buffer.from('plain'), Buffer.alloc(0)]) {
    writeFileSync(file, await sealedFile('backup', bytes))
    await expect(restored(join(dir, 'r'))).rejects.toMatchObject({ code: 'BACKUP_INVALID' })
    expect(readdirSync(dir)).toEqual(['theirs'])
  }
})

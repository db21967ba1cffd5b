import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { socketPath, TCP_FILE } from '../../src/api/control-endpoint.ts'
import { type ControlHandlers, serveControl } from '../../src/api/control-server.ts'
import { exportAgent, importAgent } from '../../src/backup/agent-export.ts'
import { backUp, restore } from '../../src/backup/backup.ts'
import { seal } from '../../src/backup/sealed-stream.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { modeFindings } from '../../src/doctor/examine-data-dir.ts'
import { AgentFiles } from '../../src/identity/agent-file.ts'
import { newAgentRecord } from '../../src/identity/agents.ts'
import { initDataDir } from '../../src/identity/init.ts'
import { loadNodeKey } from '../../src/identity/node-key.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { openStore } from '../../src/store/open-store.ts'

const components = { crypto: nodeCrypto, random: systemRandom }

let dir: string
let dataDir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-files-'))
  dataDir = join(dir, 'node')
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

function makeNode(): AgentFiles {
  initDataDir(dataDir, components)
  const files = new AgentFiles(dataDir, components)
  files.save(newAgentRecord({ name: 'alice', description: '' }, { random: systemRandom, nowMs: 1, handler: 'manual' }))
  files.saveToken('alice', systemRandom.bytes(32))
  return files
}

const modeOf = (path: string) => statSync(path).mode & 0o777

/** Everything below a folder with its mode; what lies in the store is guarded by the store's own folder. */
function* modes(folder: string): Generator<[path: string, mode: number]> {
  yield [folder, modeOf(folder)]
  for (const { name } of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, name)
    if (lstatSync(path).isDirectory() && name !== 'store') yield* modes(path)
    else yield [path, modeOf(path)]
  }
}

describe.skipIf(process.platform === 'win32')('secrets on disk', () => {
  it('are 0600 in folders 0700 whatever the umask: keys, tokens, the control API’s token, backups and exports', async () => {
    const former = process.umask(0)
    try {
      makeNode()
      const server = await serveControl(
        { handlers: {} as ControlHandlers, logger: silentLogger, random: systemRandom },
        { dataDir, startedAtMs: 1, transport: 'tcp' }
      )
      const store = await openStore(dataDir, { software: 'test' })
      await backUp({ store, peer: 'p', nowMs: 1 }, { dataDir, file: join(dataDir, 'node.backup'), passphrase: undefined })
      await store.close()
      await exportAgent({ dataDir, name: 'alice', file: join(dataDir, 'alice.agent'), passphrase: undefined, nowMs: 1 })
      const found = [...modes(dataDir)]
      expect(found.map(([path]) => path)).toContain(join(dataDir, TCP_FILE))
      expect(found.length).toBeGreaterThanOrEqual(8)
      expect(found.filter(([path, mode]) => mode !== (statSync(path).isDirectory() ? 0o700 : 0o600))).toEqual([])
      await server.close()
    } finally {
      process.umask(former)
    }
  })

  it('that others may read are narrowed as they are read: keys and tokens, also behind a link, and the folder', () => {
    const files = makeNode()
    const key = join(dataDir, 'node.key')
    const elsewhere = join(dir, 'key-elsewhere')
    renameSync(key, elsewhere)
    symlinkSync(elsewhere, key)
    const wide = [elsewhere, join(dataDir, 'agents/alice.json'), join(dataDir, 'agents/alice.token'), join(dataDir, 'agents')]
    for (const path of wide) chmodSync(path, 0o777)
    loadNodeKey(dataDir, nodeCrypto)
    files.load()
    expect(wide.map(modeOf)).toEqual([0o600, 0o600, 0o600, 0o700])
  })

  it('that others may read are told by doctor by path and mode, also behind a link, and mended by its word', () => {
    makeNode()
    expect(modeFindings(dataDir)).toEqual([])
    const token = join(dataDir, 'agents/alice.token')
    const elsewhere = join(dir, 'token-elsewhere')
    renameSync(token, elsewhere)
    symlinkSync(elsewhere, token)
    chmodSync(elsewhere, 0o640)
    chmodSync(join(dataDir, 'node.key'), 0o604)
    const [finding, ...more] = modeFindings(dataDir)
    expect(more).toEqual([])
    expect(finding).toMatchObject({ code: 'FILE_MODES', severity: 'problem', remedy: expect.stringContaining('chmod 700') })
    expect(finding?.evidence).toEqual([
      `${join(dataDir, 'node.key')} is 604, should be 600`,
      `${join(dataDir, 'agents/alice.token')} is 640, should be 600`
    ])
    finding?.mend?.()
    expect([modeOf(join(dataDir, 'node.key')), modeOf(elsewhere), modeFindings(dataDir)]).toEqual([0o600, 0o600, []])
  })

  it('do not go through a folder for sockets that another user laid there, or that is a link', () => {
    const long = join(dir, 'd'.repeat(60), 'e'.repeat(60))
    mkdirSync(long, { recursive: true })
    const former = process.env.TMPDIR
    process.env.TMPDIR = dir
    try {
      const folder = join(dir, `rookery-${process.getuid?.()}`)
      mkdirSync(folder)
      chmodSync(folder, 0o755)
      expect(() => socketPath(long)).toThrow(expect.objectContaining({ code: 'SOCKET_DIR_UNSAFE' }))
      rmSync(folder, { recursive: true })
      mkdirSync(join(dir, 'theirs'), { mode: 0o700 })
      symlinkSync(join(dir, 'theirs'), folder)
      expect(() => socketPath(long)).toThrow(expect.objectContaining({ code: 'SOCKET_DIR_UNSAFE' }))
      rmSync(folder)
      expect(socketPath(long).startsWith(`${folder}/`)).toBe(true)
      expect(modeOf(folder)).toBe(0o700)
    } finally {
      if (former === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = former
    }
  })
})

describe('names that lead out of their folder', () => {
  /** A backup as a stranger may write one: well formed, in clear, with any names. */
  async function archive(...lines: object[]): Promise<string> {
    const file = join(dir, 'theirs.backup')
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
    const pieces: Uint8Array[] = []
    const sealed = seal(
      Readable.from([Buffer.from(text)]).pipe(createGzip()),
      { kind: 'backup', by: 'test', madeAtMs: 1, of: 'p' },
      undefined
    )
    for await (const piece of sealed) pieces.push(piece)
    writeFileSync(file, Buffer.concat(pieces))
    return file
  }
  const data = Buffer.from('theirs').toString('base64')

  it('in a backup refuse all of it: nothing is written, inside or outside', async () => {
    const names = [
      '../evil',
      '../../evil',
      '/tmp/evil',
      'agents/../../evil.json',
      'agents/../evil.json',
      'agents/a/b.json',
      'agents/.json',
      'agents/a.json/../../../evil',
      'agents\\..\\..\\evil.json',
      'agents/A.json',
      'agents/a.sh',
      'agents/a.json\0.key',
      './node.key',
      'store/CURRENT',
      'store/../../evil',
      'ese.keys',
      'control.json',
      '__proto__',
      'constructor',
      '~/evil',
      ''
    ]
    for (const name of names) {
      const file = await archive({ file: name, data }, { files: 1, rows: 0 })
      const target = join(dir, 'restored')
      await expect(restore({ dataDir: target, file, passphrase: async () => undefined }), name).rejects.toMatchObject({
        code: 'BACKUP_INVALID'
      })
      expect([name, readdirSync(dir)]).toEqual([name, ['theirs.backup']])
    }
    const rows = await archive({ row: '../../evil', data }, { row: '/etc/evil', data }, { files: 0, rows: 2 })
    await restore({ dataDir: join(dir, 'restored'), file: rows, passphrase: async () => undefined }).catch(() => {})
    expect(readdirSync(dir).filter((name) => name !== 'restored')).toEqual(['theirs.backup'])
    expect(existsSync('/etc/evil')).toBe(false)
  })

  it('given to an agent that is imported are refused, and what they would lead to stays', async () => {
    makeNode()
    const file = join(dir, 'alice.agent')
    await exportAgent({ dataDir, name: 'alice', file, passphrase: undefined, nowMs: 1 })
    const other = join(dir, 'other')
    initDataDir(other, components)
    const kept = join(other, 'config.json')
    writeFileSync(kept, '{}')
    for (const as of ['../config', '../../evil', '/tmp/evil', 'a/b', '.', '..', '', '-a', 'A', 'a\0b', '__proto__']) {
      await expect(importAgent({ dataDir: other, file, as, passphrase: async () => undefined }), as).rejects.toMatchObject({
        code: 'AGENT_NAME_INVALID',
        field: '--as'
      })
    }
    expect(readFileSync(kept, 'utf8')).toBe('{}')
    for (const name of ['../node', '..', 'a/../../x', '']) {
      await expect(exportAgent({ dataDir, name, file: join(dir, 'x'), passphrase: undefined, nowMs: 1 })).rejects.toMatchObject({
        code: 'AGENT_UNKNOWN'
      })
    }
    expect(existsSync(join(dir, 'x'))).toBe(false)
  })
})

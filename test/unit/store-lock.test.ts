import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MemoryLevel } from 'memory-level'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { RookeryError } from '../../src/errors.ts'
import { holderOf, readLockFile, removeLockFile, writeLockFile } from '../../src/store/lock-file.ts'
import { openStore } from '../../src/store/open-store.ts'
import { processStart } from '../../src/store/process-start.ts'
import { bringToSchema, SCHEMA_VERSION } from '../../src/store/schema-version.ts'
import { jsonCodec, Store } from '../../src/store/store.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-store-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const software = 'rookery test'

async function refusal(work: Promise<unknown>): Promise<RookeryError> {
  const error = await work.then(
    () => new Error('nothing was refused'),
    (reason: unknown) => reason
  )
  if (error instanceof RookeryError) return error
  throw error
}

describe('opening the store', () => {
  it('makes a folder only for its owner, and keeps what was written over a restart [D-21]', async () => {
    const first = await openStore(dir, { software })
    const table = first.table('notes', jsonCodec<string>())
    await first.commit([table.put('a', 'kept')])
    await first.close()
    expect(statSync(join(dir, 'store')).mode & 0o777).toBe(0o700)
    const second = await openStore(dir, { software })
    expect(await second.table('notes', jsonCodec<string>()).get('a')).toBe('kept')
    await second.close()
  })

  it('a second time is refused with the holder and its start, and tells what to do [F061]', async () => {
    const store = await openStore(dir, { software })
    writeLockFile(dir, { startedAtMs: 1_767_225_600_000, socket: 'x' })
    const error = await refusal(openStore(dir, { software }))
    expect(error).toMatchObject({ code: 'DATA_DIR_IN_USE', kind: 'conflict', field: 'dataDir', value: dir })
    expect(error.message).toContain(`pid ${process.pid}`)
    expect(error.message).toContain('2026-01-01T00:00:00.000Z')
    expect(error.remedy).toContain('rookery stop')
    await store.close()
    await (await openStore(dir, { software })).close()
  })

  it('a second time asks who answers where no start time is known, and else names nobody [F091]', async () => {
    const store = await openStore(dir, { software })
    const known = await refusal(openStore(dir, { software, holder: async () => ({ pid: 4_711, startedAtMs: 0 }) }))
    expect(known).toMatchObject({ code: 'DATA_DIR_IN_USE', data: { pid: 4_711, startedAtMs: 0 } })
    writeFileSync(join(dir, 'node.json'), JSON.stringify({ pid: 1, startedAtMs: 5, socket: '/x' }))
    const unknown = await refusal(openStore(dir, { software }))
    expect(unknown.message).toContain('another process')
    expect(unknown.data).toBeUndefined()
    await store.close()
  })

  it('that is damaged is refused with a remedy, and never replaced', async () => {
    const store = await openStore(dir, { software })
    await store.close()
    const current = join(dir, 'store', 'CURRENT')
    const manifest = join(dir, 'store', readFileSync(current, 'utf8').trim())
    const intact = readFileSync(manifest)
    for (const [file, junk] of [
      [manifest, 'junk, and more of it'],
      [manifest, ''],
      [current, 'MANIFEST-009999\n'],
      [current, '']
    ] as const) {
      const good = readFileSync(file)
      writeFileSync(file, junk)
      const error = await refusal(openStore(dir, { software }))
      expect(error).toMatchObject({ code: 'STORE_CORRUPT', kind: 'storage' })
      expect(error.remedy).toContain('backup')
      writeFileSync(file, good)
    }
    expect(readFileSync(manifest)).toEqual(intact)
    await (await openStore(dir, { software })).close()
  })

  it('below a file, where no folder can be, is refused by its path', async () => {
    writeFileSync(join(dir, 'file'), '')
    const error = await refusal(openStore(join(dir, 'file', 'node'), { software }))
    expect(error).toMatchObject({ code: 'DATA_DIR_UNUSABLE', field: 'dataDir' })
    expect(error.remedy).toContain('--data')
  })

  it('on a read-only file system is refused by its path', async () => {
    const error = await refusal(openStore('/proc/rookery', { software }))
    expect(error).toMatchObject({ code: 'DATA_DIR_UNUSABLE', value: '/proc/rookery/store' })
  })
})

describe('the schema', () => {
  const memory = () => new Store(new MemoryLevel<string, Uint8Array>({ valueEncoding: 'view' }))

  it('of an empty store is this software’s', async () => {
    const store = memory()
    expect(await bringToSchema(store, { software })).toEqual({ from: undefined, to: SCHEMA_VERSION })
    expect(await bringToSchema(store, { software })).toEqual({ from: SCHEMA_VERSION, to: SCHEMA_VERSION })
  })

  it('of a newer software is refused and nothing is changed', async () => {
    const newer = await openStore(dir, { software: 'rookery 9.0.0' })
    const meta = newer.table('meta', jsonCodec<{ version: number; by: string }>())
    await newer.commit([meta.put('schema', { version: SCHEMA_VERSION + 1, by: 'rookery 9.0.0' })])
    await newer.close()
    const error = await refusal(openStore(dir, { software }))
    expect(error).toMatchObject({ code: 'SCHEMA_NEWER', kind: 'storage', value: SCHEMA_VERSION + 1 })
    expect(error.remedy).toContain('rookery 9.0.0')
    const again = await refusal(openStore(dir, { software }))
    expect(again.code).toBe('SCHEMA_NEWER')
  })

  it('of an older software is brought up step by step, each with its number in one batch', async () => {
    const store = memory()
    await bringToSchema(store, { software, version: 1 })
    const notes = store.table('notes', jsonCodec<string>())
    const migrations = [
      { from: 1, note: 'first', steps: async () => [notes.put('1', 'to 2')] },
      { from: 2, note: 'second', steps: async () => [notes.put('2', 'to 3')] }
    ]
    expect(await bringToSchema(store, { software, version: 3, migrations })).toEqual({ from: 1, to: 3 })
    expect(await notes.get('1')).toBe('to 2')
    expect(await notes.get('2')).toBe('to 3')
  })

  it('without a way to here, or with a damaged record, is refused', async () => {
    const store = memory()
    await bringToSchema(store, { software, version: 1 })
    expect((await refusal(bringToSchema(store, { software, version: 2, migrations: [] }))).code).toBe('SCHEMA_UNKNOWN')
    await store.commit([{ table: 'meta', key: 'schema', value: Uint8Array.of(1, 2, 3) }])
    expect((await refusal(bringToSchema(store, { software }))).code).toBe('STORE_CORRUPT')
    await store.commit([{ table: 'meta', key: 'schema', value: new TextEncoder().encode('{"version":"x"}') }])
    expect((await refusal(bringToSchema(store, { software }))).code).toBe('STORE_CORRUPT')
  })
})

describe('node.json', () => {
  it('names this process while it runs, and goes when it is removed', () => {
    writeLockFile(dir, { startedAtMs: 5, socket: '/x' })
    expect(holderOf(dir)).toMatchObject({ pid: process.pid, startedAtMs: 5, socket: '/x' })
    expect(statSync(join(dir, 'node.json')).mode & 0o777).toBe(0o600)
    removeLockFile(dir)
    expect(readdirSync(dir)).toEqual([])
  })

  it('with the pid of a live unrelated process is not believed and not removed [F091] [F092]', async () => {
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], { stdio: 'ignore' })
    try {
      await new Promise((resolve) => stranger.once('spawn', resolve))
      for (const pid of [stranger.pid, 1, process.pid]) {
        writeFileSync(join(dir, 'node.json'), JSON.stringify({ pid, processStart: 'another:1', startedAtMs: 5, socket: '/x' }))
        expect(holderOf(dir)).toBeUndefined()
        writeFileSync(join(dir, 'node.json'), JSON.stringify({ pid, startedAtMs: 5, socket: '/x' }))
        expect(holderOf(dir)).toBeUndefined()
        await (await openStore(dir, { software })).close()
      }
      expect(stranger.exitCode).toBeNull()
      writeFileSync(join(dir, 'node.json'), JSON.stringify({ pid: stranger.pid, startedAtMs: 5, socket: '/x' }))
      removeLockFile(dir)
      expect(readLockFile(dir)?.pid).toBe(stranger.pid)
    } finally {
      stranger.kill('SIGKILL')
    }
  })

  it('that is garbled, empty, a folder or huge is only no hint: the node starts [F091]', async () => {
    const path = join(dir, 'node.json')
    for (const text of ['', '{', '[]', '{"pid":"x"}', '{"pid":-1,"startedAtMs":0,"socket":""}', ' '.repeat(100_000)]) {
      writeFileSync(path, text)
      expect(readLockFile(dir)).toBeUndefined()
      await (await openStore(dir, { software })).close()
    }
    rmSync(path)
    mkdirSync(path)
    expect(readLockFile(dir)).toBeUndefined()
  })

  it('tells processes apart by when they started', () => {
    expect(processStart(process.pid)).toBe(processStart(process.pid))
    expect(processStart(process.pid)).not.toBe(processStart(1))
    expect(processStart(2 ** 30)).toBeUndefined()
    expect(processStart(-1)).toBeUndefined()
  })
})

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { type Examined, examineLocally } from '../../src/doctor/examine.ts'
import { LOCAL_FINDINGS, type LocalFindingCode } from '../../src/doctor/finding.ts'
import { holderOfPort } from '../../src/doctor/port-holder.ts'
import { AgentFiles } from '../../src/identity/agent-file.ts'
import { newAgentRecord } from '../../src/identity/agents.ts'
import { initDataDir } from '../../src/identity/init.ts'
import type { BoundUse } from '../../src/ops/bounds.ts'
import { ManualClock, systemClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { writeLockFile } from '../../src/store/lock-file.ts'
import { openStore } from '../../src/store/open-store.ts'

const components = { clock: systemClock, crypto: nodeCrypto, random: systemRandom }
const MIB = 1_048_576
const ROOMY = async () => ({ freeBytes: 100_000 * MIB, totalBytes: 200_000 * MIB })
/** A process that this machine cannot have: above every limit of pids. */
const NO_PID = 9_999_999

let dir: string
let dataDir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-doctor-'))
  dataDir = join(dir, 'node')
  initDataDir(dataDir, components)
  const files = new AgentFiles(dataDir, components)
  files.save(newAgentRecord({ name: 'alice', description: '' }, { random: systemRandom, nowMs: 1, handler: 'manual' }))
  files.saveToken('alice', systemRandom.bytes(32))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const WELL: ConfigInput = { mdns: true }
const examine = (
  how: 'look' | 'fix',
  init: {
    flags?: ConfigInput
    space?: typeof ROOMY
    running?: { drainHeld?: string; boundsNear?: BoundUse[] }
    nowMs?: number
    at?: string
  } = {}
): Promise<Examined> =>
  examineLocally(
    { ...components, clock: init.nowMs === undefined ? systemClock : new ManualClock(init.nowMs) },
    {
      dataDir: init.at ?? dataDir,
      load: () => loadConfig({ dataDir: init.at ?? dataDir, env: {}, flags: init.flags ?? WELL }),
      running: init.running,
      software: 'test',
      space: init.space ?? ROOMY
    },
    how
  )

const met = new Set<LocalFindingCode>()
/** That a class is found and, where it can be mended, mended: gone at the next look, and nothing is mended by a look. */
async function found(code: LocalFindingCode, init: Parameters<typeof examine>[1] = {}, fixable: 'fixable' | 'by hand' = 'by hand') {
  met.add(code)
  const looked = await examine('look', init)
  const finding = looked.findings.find((one) => one.code === code)
  expect(finding, code).toMatchObject({ title: expect.any(String), remedy: expect.any(String), fixed: false })
  expect(finding?.evidence.length).toBeGreaterThan(0)
  expect((await examine('look', init)).findings.map((one) => one.code)).toContain(code)
  const fixed = (await examine('fix', init)).findings.find((one) => one.code === code)
  expect([fixed?.fixed, fixed?.fix !== undefined]).toEqual(fixable === 'fixable' ? [true, true] : [false, false])
  const after = (await examine('look', init)).findings.map((one) => one.code)
  if (fixable === 'fixable') expect(after).not.toContain(code)
  else expect(after).toContain(code)
  return finding as NonNullable<typeof finding>
}

describe('rookery doctor', () => {
  it('finds nothing wrong with a node as `init` makes it', async () => {
    expect(await examine('look')).toEqual({ findings: [], running: false })
    expect(await examine('look', { running: {} })).toEqual({ findings: [], running: true })
  })

  it('finds a folder without a node, one that lost its key, and a key that is damaged', async () => {
    await found('NOT_INITIALISED', { at: join(dir, 'nowhere') })
    const key = join(dataDir, 'node.key')
    const text = readFileSync(key, 'utf8')
    writeFileSync(key, text.replace(/"public": "../, '"public": "00'))
    await found('KEY_FILE_INVALID')
    rmSync(key)
    await found('IDENTITY_MISSING')
    writeFileSync(key, text, { mode: 0o600 })
    writeFileSync(join(dataDir, 'agents', 'alice.json'), '{}')
    expect((await found('KEY_FILE_INVALID')).title).toContain('alice.json')
  })

  it.skipIf(process.platform === 'win32')('finds keys, tokens and folders that others may read, and takes their rights away', async () => {
    const wide = { 'node.key': 0o644, 'agents/alice.token': 0o640, agents: 0o755, '': 0o711 }
    for (const [name, mode] of Object.entries(wide)) chmodSync(join(dataDir, name), mode)
    const { evidence } = await found('FILE_MODES', {}, 'fixable')
    expect(evidence.join('\n')).toContain(`${join(dataDir, 'node.key')} is 644, should be 600`)
    const modes = Object.keys(wide).map((name) => statSync(join(dataDir, name)).mode & 0o777)
    expect(modes).toEqual([0o600, 0o600, 0o700, 0o700])
  })

  it('finds what a process that is gone left behind: its lock, its socket, files half written; what a live one has stays', async () => {
    writeFileSync(
      join(dataDir, 'node.json'),
      JSON.stringify({ pid: NO_PID, processStart: 'long ago', startedAtMs: 1_000, socket: join(dataDir, 'control.sock') })
    )
    await found('STALE_LOCK', {}, 'fixable')
    writeFileSync(join(dataDir, 'control.sock'), '', { mode: 0o600 })
    await found('STALE_SOCKET', {}, 'fixable')
    const half = join(dataDir, `node.key.${NO_PID}.tmp`)
    const alive = join(dataDir, `node.key.${process.pid}.tmp`)
    for (const path of [half, alive]) writeFileSync(path, 'half', { mode: 0o600 })
    await found('LEFTOVER_FILES', {}, 'fixable')
    expect([existsSync(half), existsSync(alive)]).toEqual([false, true])
    rmSync(alive)
    writeLockFile(dataDir, { startedAtMs: 1_000, socket: join(dataDir, 'control.sock') })
    expect((await examine('fix')).findings).toEqual([])
    expect(existsSync(join(dataDir, 'node.json'))).toBe(true)
  })

  it('shows the line of the settings that is wrong, and leaves it to its owner', async () => {
    writeFileSync(join(dataDir, 'config.yaml'), 'mdns: true\nhttp:\n  prot: 80\n', { mode: 0o600 })
    const { title, remedy } = await found('CONFIG_INVALID')
    expect(title).toContain('line 3, column 3')
    expect(remedy).toContain('rookery config check')
    expect(readFileSync(join(dataDir, 'config.yaml'), 'utf8')).toContain('prot: 80')
  })

  it('says of a port that is set by hand and taken who has it', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    try {
      const { title, evidence } = await found('PORT_IN_USE', { flags: { ...WELL, http: { port } } })
      expect(title).toContain(`http.port: port ${port}`)
      if (process.platform === 'linux') expect(evidence[0]).toContain(`pid ${process.pid}`)
      const listen = [`/ip4/127.0.0.1/tcp/${port}`]
      const also = await examine('look', { flags: { ...WELL, listen, ops: { port } } })
      expect(also.findings.map((one) => one.title.split(':')[0])).toEqual(['ops.port', 'listen[0]'])
    } finally {
      await new Promise((resolve) => server.close(resolve))
    }
    expect((await examine('look', { flags: { ...WELL, http: { port } } })).findings).toEqual([])
  })

  it('reads from the system’s tables who listens, of whatever they hold', () => {
    const proc = join(dir, 'proc')
    mkdirSync(join(proc, 'net'), { recursive: true })
    writeFileSync(join(proc, 'net', 'tcp'), 'sl local_address\n 0: 0100007F:1266 00000000:0000 0A 0 0 0 1000 0 4242\n 1: garbage\n')
    expect(holderOfPort(0x1266, 'tcp', proc)).toBeUndefined()
    expect(holderOfPort(80, 'udp', join(dir, 'no-proc'))).toBeUndefined()
  })

  it('finds a clock that reads earlier than what this machine wrote, or than any node ran, and queues that are held for it', async () => {
    const later = new Date(Date.now() + 3_600_000)
    utimesSync(join(dataDir, 'node.key'), later, later)
    expect((await found('CLOCK_WRONG')).evidence[0]).toContain('node.key was written at')
    const now = new Date()
    utimesSync(join(dataDir, 'node.key'), now, now)
    expect((await found('CLOCK_WRONG', { nowMs: Date.UTC(1970, 0, 2) })).evidence[0]).toContain('1970-01-02')
    await found('QUEUES_HELD', { running: { drainHeld: 'the disk knows a later time' } })
  })

  it('[OD-30] tells which bound is nearly reached and which setting raises it, and that one is reached, with what becomes of what comes next', async () => {
    const use: BoundUse = { bound: 'tasks', used: 95, max: 100, setting: 'tasks.openMax', beyond: 'new tasks are refused with TODO_LIMIT' }
    const near = await found('BOUND_NEAR', { running: { boundsNear: [use] } })
    expect(near).toMatchObject({ severity: 'warning', evidence: ['95 of 100 tasks (tasks.openMax)'] })
    expect(near.remedy).toContain('`tasks.openMax`')
    const reached = await found('BOUND_NEAR', { running: { boundsNear: [{ ...use, used: 100 }] } })
    expect(reached).toMatchObject({ severity: 'problem', title: expect.stringContaining('refused with TODO_LIMIT') })
  })

  it('finds a disk that is full but for the reserve, and one that soon will be', async () => {
    await found('DISK_FULL', { space: async () => ({ freeBytes: 10 * MIB, totalBytes: 10_000 * MIB }) })
    await found('DISK_LOW', { space: async () => ({ freeBytes: 100 * MIB, totalBytes: 10_000 * MIB }) })
    const own = {
      flags: { ...WELL, store: { reserveBytes: 200 * MIB } },
      space: async () => ({ freeBytes: 100 * MIB, totalBytes: 10_000 * MIB })
    }
    expect((await examine('look', own)).findings).toMatchObject([{ code: 'DISK_FULL', severity: 'problem' }])
  })

  it('finds a store that does not open', async () => {
    await (await openStore(dataDir, { software: 'test' })).close()
    expect((await examine('look')).findings).toEqual([])
    writeFileSync(join(dataDir, 'store', 'CURRENT'), 'nonsense\n')
    expect((await found('STORE_DAMAGED')).remedy).toContain('backup')
  })

  it('finds a node that knows nobody to join through and does not look around', async () => {
    expect((await found('BOOTSTRAP_MISSING', { flags: {} })).severity).toBe('warning')
  })

  it('has met every class of finding in these tests', () => {
    const classes = LOCAL_FINDINGS.filter((code) => code !== 'FILE_MODES' || process.platform !== 'win32')
    expect(classes.filter((code) => !met.has(code))).toEqual([])
  })
})

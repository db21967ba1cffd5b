import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MemoryLevel } from 'memory-level'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { mailboxKid } from '../../protocol/delivery/object.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../src/errors.ts'
import { AgentFiles } from '../../src/identity/agent-file.ts'
import { AGENTS_MAX, Agents } from '../../src/identity/agents.ts'
import { MAILBOX_ROTATE_MS } from '../../src/identity/hosted-agent.ts'
import { initDataDir } from '../../src/identity/init.ts'
import { loadNodeKey } from '../../src/identity/node-key.ts'
import { nodeKeyOf } from '../../src/identity/peer-id.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { writePrivateFile } from '../../src/platform/files.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'
import { seededRandom, systemRandom } from '../../src/platform/random.ts'
import { Store } from '../../src/store/store.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-identity-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const crypto = nodeCrypto
const random = systemRandom
const memoryStore = () => new Store(new MemoryLevel<string, Uint8Array>({ valueEncoding: 'view' }))
const defaults = { mode: 'always_on', handler: 'manual' } as const

function open(options: { store?: Store; clock?: ManualClock } = {}): Promise<Agents> {
  const { store = memoryStore(), clock = new ManualClock() } = options
  return Agents.open({ storage: new AgentFiles(dir, { crypto, random }), store, crypto, clock, random }, defaults)
}

async function refusal(work: () => unknown): Promise<RookeryError> {
  try {
    await work()
  } catch (error) {
    if (error instanceof RookeryError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

describe('the node key', () => {
  it('is made by init alone and is the same at every start, with and without the store [F100]', async () => {
    const made = initDataDir(dir, { crypto, random })
    expect(loadNodeKey(dir, crypto).peer).toBe(made.peer)
    mkdirSync(join(dir, 'store'))
    rmSync(join(dir, 'store'), { recursive: true })
    for (let start = 0; start < 3; start++) expect(loadNodeKey(dir, crypto).peer).toBe(made.peer)
    expect(made.peer).toMatch(/^12D3Koo/)
  })

  it('has libp2p’s own text form', () => {
    expect(nodeKeyOf(new Uint8Array(32), crypto).peer).toBe('12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN')
  })

  it('lies in a file that only its owner reads, and one that others may read is narrowed', () => {
    initDataDir(dir, { crypto, random })
    const path = join(dir, 'node.key')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    chmodSync(path, 0o644)
    loadNodeKey(dir, crypto)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(dir)).toEqual(['node.key'])
  })

  it('that is empty, garbled, changed or unreadable refuses the start, and the file stays as it is [F100]', async () => {
    initDataDir(dir, { crypto, random })
    const path = join(dir, 'node.key')
    const good = readFileSync(path, 'utf8')
    const json = JSON.parse(good) as { seed: string; public: string }
    const other = nodeKeyOf(new Uint8Array(32).fill(9), crypto)
    const bad = [
      '',
      '\0\0\0\0',
      good.slice(0, 40),
      '{}',
      JSON.stringify({ ...json, seed: json.seed.slice(1) }),
      JSON.stringify({ ...json, public: toHex(crypto.ed25519.publicKey(other.seed)) }),
      JSON.stringify({ ...json, v: 2 }),
      'x'.repeat(100_000)
    ]
    for (const text of bad) {
      writeFileSync(path, text)
      const error = await refusal(() => loadNodeKey(dir, crypto))
      expect(error).toMatchObject({ code: 'KEY_FILE_INVALID', kind: 'config', field: path })
      expect(error.remedy).toContain('backup')
      expect(JSON.stringify(error)).not.toContain(json.seed)
      expect(readFileSync(path, 'utf8')).toBe(text)
    }
    rmSync(path)
    mkdirSync(path)
    expect((await refusal(() => loadNodeKey(dir, crypto))).code).toBe('KEY_FILE_INVALID')
  })

  it('that is missing beside a store is told apart from a folder that was never used [F100]', async () => {
    expect((await refusal(() => loadNodeKey(dir, crypto))).code).toBe('NOT_INITIALISED')
    mkdirSync(join(dir, 'store'))
    expect((await refusal(() => loadNodeKey(dir, crypto))).code).toBe('IDENTITY_MISSING')
    expect(existsSync(join(dir, 'node.key'))).toBe(false)
  })

  it('is not replaced by a second init', async () => {
    const { peer } = initDataDir(dir, { crypto, random })
    expect(await refusal(() => initDataDir(dir, { crypto, random }))).toMatchObject({ code: 'ALREADY_INITIALISED', data: { peer } })
    expect(loadNodeKey(dir, crypto).peer).toBe(peer)
  })
})

describe('agents', () => {
  it('keep EID, mailbox key, token and settings over a restart [D-21]', async () => {
    const store = memoryStore()
    const first = await open({ store })
    const made = await first.add({ name: 'weather', description: 'tells the weather', handler: 'echo' })
    await first.sleep(made, 1_800_000_000_000)
    const again = (await open({ store })).get('weather')
    expect(again.did).toBe(made.did)
    expect(again.mailboxKey).toEqual(made.mailboxKey)
    expect(again.reachability).toEqual({ mode: 'sleep', untilMs: 1_800_000_000_000 })
    expect([again.description, again.handler]).toEqual(['tells the weather', 'echo'])
    const token = readFileSync(join(dir, 'agents', 'weather.token'), 'utf8').trim()
    expect((await open({ store })).byToken(token)?.name).toBe('weather')
    for (const file of ['weather.json', 'weather.token']) expect(statSync(join(dir, 'agents', file)).mode & 0o777).toBe(0o600)
  })

  it('each have a token of 32 random bytes, and no other opens the door [IX-05]', async () => {
    const agents = await open()
    const a = await agents.add({ name: 'a' })
    const b = await agents.add({ name: 'b' })
    const tokens = [a, b].map((agent) => readFileSync(agents.tokenFile(agent) as string, 'utf8').trim())
    expect(tokens.map((text) => Buffer.from(text, 'base64url').length)).toEqual([32, 32])
    expect(tokens.map((text) => agents.byToken(text)?.name)).toEqual(['a', 'b'])
    const wrong = ['', 'x', `${tokens[0]}A`, (tokens[0] as string).slice(1), `${tokens[0]}\n`, 'é'.repeat(43)]
    for (const text of wrong) expect(agents.byToken(text)).toBeUndefined()
  })

  it('are found by name or did, the oldest without either; an unknown one is refused with the known names', async () => {
    const clock = new ManualClock()
    const agents = await open({ clock })
    expect((await refusal(() => agents.get(undefined))).code).toBe('NO_AGENT')
    const zebra = await agents.add({ name: 'zebra' })
    clock.advance(1)
    await agents.add({ name: 'ant' })
    expect(agents.get(undefined)).toBe(zebra)
    expect(agents.get(zebra.did)).toBe(zebra)
    expect((await open({ clock })).get(undefined).name).toBe('zebra')
    const error = await refusal(() => agents.get('zebr'))
    expect(error).toMatchObject({ code: 'AGENT_UNKNOWN', kind: 'notFound', field: 'agent', value: 'zebr' })
    expect(error.remedy).toContain('zebra, ant')
  })

  it('need a name that is safe as a file, not taken, and there is a bound', async () => {
    const agents = await Agents.open(
      { storage: new AgentFiles(dir, { crypto, random }), store: memoryStore(), crypto, clock: new ManualClock(), random: seededRandom(1) },
      defaults
    )
    for (const name of ['', '-a', 'A', '../a', 'a/b', 'a.b', 'a'.repeat(33), 'é', 'a\0']) {
      expect((await refusal(() => agents.add({ name }))).code).toBe('AGENT_NAME_INVALID')
    }
    await agents.add({ name: 'a' })
    expect((await refusal(() => agents.add({ name: 'a' }))).code).toBe('AGENT_EXISTS')
    for (let i = 1; i < AGENTS_MAX; i++) await agents.add({ name: `n${i}` })
    expect(await refusal(() => agents.add({ name: 'one-more' }))).toMatchObject({ code: 'AGENTS_MAX', value: AGENTS_MAX })
    expect(existsSync(join(dir, 'agents', 'one-more.token'))).toBe(false)
    // two files of each agent, each synced
  }, 180_000)

  it('with a damaged file, or one that holds another agent, refuse the start [F100]', async () => {
    const agents = await open()
    await agents.add({ name: 'a' })
    await agents.add({ name: 'b' })
    const path = join(dir, 'agents', 'a.json')
    const good = readFileSync(path, 'utf8')
    const seedOfB = (JSON.parse(readFileSync(join(dir, 'agents', 'b.json'), 'utf8')) as { seed: string }).seed
    for (const text of [
      '',
      '{}',
      readFileSync(join(dir, 'agents', 'b.json'), 'utf8'),
      JSON.stringify({ ...(JSON.parse(good) as object), seed: seedOfB }),
      JSON.stringify({ ...(JSON.parse(good) as object), mailbox: [] })
    ]) {
      writeFileSync(path, text)
      expect(await refusal(() => open())).toMatchObject({ code: 'KEY_FILE_INVALID', field: path })
    }
    writeFileSync(path, good)
    writeFileSync(join(dir, 'agents', 'a.token'), 'short')
    expect(await refusal(() => open())).toMatchObject({ code: 'KEY_FILE_INVALID', field: join(dir, 'agents', 'a.token') })
    rmSync(join(dir, 'agents', 'a.token'))
    expect((await open()).list()).toHaveLength(2)
  })

  it('rotate the mailbox key weekly, keep the last three, and write before they use', async () => {
    const clock = new ManualClock()
    const agents = await open({ clock })
    const agent = await agents.add({ name: 'a' })
    const kid = () => toHex(mailboxKid(crypto, agent.mailboxKey))
    const kids = [kid()]
    expect(agents.rotateMailboxKeys()).toEqual([])
    for (let week = 0; week < 3; week++) {
      clock.advance(MAILBOX_ROTATE_MS - 1)
      expect(agents.rotateMailboxKeys()).toEqual([])
      clock.advance(1)
      expect(agents.rotateMailboxKeys()).toEqual([agent])
      kids.push(kid())
    }
    expect(new Set(kids).size).toBe(4)
    expect(kids.map((one) => agent.mailboxSecret(one) !== undefined)).toEqual([false, true, true, true])
    const again = (await open({ clock })).get('a')
    expect(kids.map((one) => again.mailboxSecret(one) !== undefined)).toEqual([false, true, true, true])
    clock.jumpWall(-400 * 86_400_000)
    expect(agents.rotateMailboxKeys()).toEqual([])
  })

  it('go back to what they were when they wake, over a restart too', async () => {
    const store = memoryStore()
    const agents = await open({ store })
    const agent = await agents.add({ name: 'a', mode: 'hourly_wake', window: { periodSec: 600, openSec: 60 } })
    const before = agent.reachability
    expect(before.window).toMatchObject({ periodSec: 600, openSec: 60 })
    await agents.sleep(agent)
    await agents.sleep(agent, 1_800_000_000_000)
    const again = await open({ store })
    await again.wake(again.get('a'))
    expect(again.get('a').reachability).toEqual(before)
  })

  it('spread their wake windows by EID where the owner sets no offset, and refuse a window that cannot be [OD-49]', async () => {
    const agents = await open()
    const offsets = new Set<number | undefined>()
    for (const [i, name] of ['a', 'b', 'c', 'd'].entries()) {
      const agent = await agents.add({ name, mode: 'hourly_wake', seed: new Uint8Array(32).fill(i + 1) })
      offsets.add(agent.reachability.window?.offsetSec)
    }
    expect(offsets.size).toBe(4)
    await expect(agents.add({ name: 'e', mode: 'hourly_wake', window: { periodSec: 60, openSec: 61 } })).rejects.toMatchObject({
      code: 'RANGE'
    })
    expect(agents.list()).toHaveLength(4)
  })
})

describe('the log', () => {
  it('writes JSON lines with component and level, and never a secret', () => {
    const lines: string[] = []
    const logger = createLogger({ level: 'info', sink: { write: (text) => void lines.push(text) } })
    logger
      .child('net')
      .child('dht')
      .warn({ peer: 'p', token: 's3cret', agent: { seed: 's3cret', name: 'a' } }, 'a warning')
    logger.debug({}, 'not shown')
    expect(lines).toHaveLength(1)
    expect(JSON.parse(lines[0] as string)).toMatchObject({ level: 'warn', component: 'net:dht', peer: 'p', msg: 'a warning' })
    expect(lines[0]).not.toContain('s3cret')
  })

  it('of an agent shows its name and did only', async () => {
    const agents = await open()
    const agent = await agents.add({ name: 'a' })
    expect(JSON.parse(JSON.stringify(agent))).toEqual({ name: 'a', did: agent.did })
  })
})

describe('a private file', () => {
  it('is never written through a link or into the mode of what lay at its temporary name', () => {
    const dir = mkdtempSync(join(tmpdir(), 'rookery-file-'))
    try {
      const target = join(dir, 'elsewhere')
      writeFileSync(target, 'untouched', { mode: 0o644 })
      symlinkSync(target, join(dir, `key.${process.pid}.tmp`))
      writePrivateFile(join(dir, 'key'), 'secret')
      expect(readFileSync(target, 'utf8')).toBe('untouched')
      expect(readFileSync(join(dir, 'key'), 'utf8')).toBe('secret')
      const state = lstatSync(join(dir, 'key'))
      expect([state.isFile(), state.mode & 0o777]).toEqual([true, 0o600])
    } finally {
      rmSync(dir, { recursive: true })
    }
  })
})

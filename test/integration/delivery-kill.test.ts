import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Level } from 'level'
import { afterEach, describe, expect, it } from 'vitest'
import { equals, fromUtf8, toHex, utf8 } from '../../protocol/bytes.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { ClockGuard } from '../../src/delivery/clock-guard.ts'
import { Drain } from '../../src/delivery/drain.ts'
import { LevelAsleepQueue } from '../../src/delivery/level-asleep-queue.ts'
import { ReplayCache } from '../../src/delivery/replay-cache.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { randomFraction, seededRandom } from '../../src/platform/random.ts'
import { Store } from '../../src/store/store.ts'
import { crypto, FakeTodos, localAgent, principalOf, seal } from '../unit/delivery-fixtures.ts'

const ROUNDS = 20
const ACKS_MAX = 120
const bounds = { messagesMax: 1e6, bytesMax: 1e9, messagesPerPeerMax: 1e6, ttlMaxMs: 86_400_000 }
const audience = 'ab'.repeat(32) as EidHex

const directories: string[] = []
function directory(): string {
  const made = mkdtempSync(join(tmpdir(), 'rookery-delivery-'))
  directories.push(made)
  return made
}
afterEach(() => {
  for (const made of directories.splice(0)) rmSync(made, { recursive: true, force: true })
})

async function open(path: string) {
  const level = new Level<string, Uint8Array>(path, { valueEncoding: 'view' })
  await level.open()
  const store = new Store(level)
  const clockGuard = await ClockGuard.open({ store, clock: systemClock })
  const queue = await LevelAsleepQueue.open({ store, crypto, clockGuard, logger: silentLogger }, { bounds: () => bounds })
  return { store, clockGuard, queue }
}

/** Runs the enqueuer until `acks` messages were promised, then SIGKILLs it. Resolves with what was promised, the last moment included. */
async function enqueueAndKill(path: string, round: number, acks: number): Promise<string[]> {
  const script = join(import.meta.dirname, 'delivery-enqueuer.ts')
  const child = spawn(process.execPath, ['--experimental-strip-types', '--no-warnings', script, path, String(round)], {
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let out = ''
  let errors = ''
  const lines = () =>
    out
      .slice(0, out.lastIndexOf('\n') + 1)
      .split('\n')
      .slice(0, -1)
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString()
    if (lines().length >= acks) child.kill('SIGKILL')
  })
  const signal = await new Promise((resolve) => child.on('close', (_, by) => resolve(by)))
  if (signal !== 'SIGKILL') throw new Error(`the enqueuer ended by itself: ${errors}`)
  return lines()
}

describe('the asleep queue under kill -9', () => {
  it(`[OD-41] [OD-51] [F062] finds every promised message after each of ${ROUNDS} kills at random moments, and starts every time`, async () => {
    const path = directory()
    const random = seededRandom(41)
    const promised = new Set<string>()
    let opens = 0
    for (let round = 0; round < ROUNDS; round++) {
      const acks = 1 + Math.floor(randomFraction(random) * ACKS_MAX)
      for (const message of await enqueueAndKill(path, round, acks)) promised.add(message)
      if (round % 5 !== 4) continue
      const { queue, store } = await open(path)
      opens++
      const found = new Set((await queue.list(audience)).map((record) => fromUtf8(record.object).replace(/\.+$/, '')))
      expect([...promised].filter((message) => !found.has(message))).toEqual([])
      expect((await queue.usage(audience)).messages).toBe(found.size)
      expect(queue.damaged).toBe(0)
      await store.close()
    }
    expect(opens).toBe(ROUNDS / 5)
    expect(promised.size).toBeGreaterThanOrEqual(ROUNDS)
  })

  it('[F064] [OD-33] delivers what lies before a torn log tail, verified, once and in order, whatever the tail holds', async () => {
    const alice = localAgent('alice')
    const bob = localAgent('bob')
    const path = directory()
    const { queue, store } = await open(path)
    const objects: Uint8Array[] = []
    for (let i = 0; i < 50; i++) {
      const object = await seal(alice, bob, systemClock.nowMs(), { messageId: `m-${i}`, text: 'x'.repeat(1_000) })
      objects.push(object)
      expect((await queue.enqueue({ audience: bob.eidHex, principal: principalOf(alice), object })).status).toBe('queued')
    }
    const random = seededRandom(64)
    for (const tail of [new Uint8Array(4_096), random.bytes(4_096)]) {
      const torn = directory()
      cpSync(path, torn, { recursive: true }) // what a hard stop leaves: every batch was synced
      const log = readdirSync(torn).find((name) => name.endsWith('.log')) as string
      const bytes = readFileSync(join(torn, log))
      bytes.set(tail, bytes.length - tail.length)
      writeFileSync(join(torn, log), bytes)
      const after = await open(torn)
      const records = await after.queue.list(bob.eidHex)
      expect(records.length).toBeGreaterThanOrEqual(44)
      for (const [i, record] of records.entries()) expect(equals(record.object, objects[i] as Uint8Array)).toBe(true)
      const replay = await ReplayCache.open({ store: after.store })
      const todos = new FakeTodos(after.store)
      const drain = new Drain({ ...after, replay, todos, crypto, clock: systemClock, logger: silentLogger })
      expect((await drain.drain(bob)).accepted).toBe(records.length)
      expect(todos.messages().map((message) => message.messageId)).toEqual(records.map((_, i) => `m-${i}`))
      await after.store.close()
    }
    await store.close()
  })

  it('[OD-36] [OD-43] remembers across processes’ lives what had its effect: a real store, closed and opened again', async () => {
    const alice = localAgent('alice')
    const bob = localAgent('bob')
    const path = directory()
    const object = await seal(alice, bob, systemClock.nowMs())
    const outcomes: string[] = []
    for (let life = 0; life < 3; life++) {
      const { queue, store, clockGuard } = await open(path)
      const replay = await ReplayCache.open({ store })
      const drain = new Drain({
        queue,
        store,
        clockGuard,
        replay,
        todos: new FakeTodos(store),
        crypto,
        clock: systemClock,
        logger: silentLogger
      })
      await queue.enqueue({ audience: bob.eidHex, principal: principalOf(alice), object })
      for (const event of (await drain.drain(bob)).events) outcomes.push(event.outcome)
      expect(await queue.list(bob.eidHex)).toHaveLength(0)
      await store.close()
    }
    expect(outcomes).toEqual(['accepted', 'replayed', 'replayed'])
  })

  it('[OD-22] holds each record under its object’s own bytes, so that what is handed out is what came in', async () => {
    const path = directory()
    const { queue, store } = await open(path)
    const blobs = Array.from({ length: 32 }, (_, i) => utf8(`blob ${i}`))
    await Promise.all(blobs.map((object) => queue.enqueue({ audience, principal: 'eid:aa', object, kind: 'opaque' })))
    await store.close()
    const again = await open(path)
    expect((await again.queue.list(audience)).map((record) => toHex(record.object))).toEqual(blobs.map((blob) => toHex(blob)))
    await again.store.close()
  })
})

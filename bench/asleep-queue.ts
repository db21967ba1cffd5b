/** An asleep queue on disk with its bounds raised, and governed objects to fill it with. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Level } from 'level'
import { objectIdOf, PURPOSE_A2A_MESSAGE, sealObject } from '../protocol/delivery/object.ts'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'
import { ClockGuard } from '../src/delivery/clock-guard.ts'
import { Drain } from '../src/delivery/drain.ts'
import { LevelAsleepQueue } from '../src/delivery/level-asleep-queue.ts'
import { ReplayCache } from '../src/delivery/replay-cache.ts'
import type { HostedAgent } from '../src/identity/hosted-agent.ts'
import { systemClock } from '../src/platform/clock.ts'
import { silentLogger } from '../src/platform/logger.ts'
import { systemRandom } from '../src/platform/random.ts'
import { openStore } from '../src/store/open-store.ts'
import { createTodos } from '../src/tasks/level-todos.ts'
import type { Log } from './servers.ts'

export const RAISED = { messagesMax: 1_000_000, bytesMax: 4 * 2 ** 30, messagesPerPeerMax: 1_000_000, ttlMaxMs: 6 * 86_400_000 }
const HOUR_MS = 3_600_000

export function tempDir(): string {
  return mkdtempSync(join(tmpdir(), 'rookery-bench-'))
}

export async function openQueue(dir: string) {
  const store = await openStore(dir, { software: 'bench' })
  const components = { store, crypto: nodeCrypto, clock: systemClock, random: systemRandom, logger: silentLogger }
  const clockGuard = await ClockGuard.open(components)
  const startedMs = performance.now()
  const queue = await LevelAsleepQueue.open({ ...components, clockGuard }, { bounds: () => RAISED })
  const openMs = performance.now() - startedMs
  const drainOf = async (perSecMax: number, batchMax?: number) => {
    const replay = await ReplayCache.open({ store }, { namesMax: 1_000_000 })
    const todos = await createTodos(components, { openMax: 1_000_000, openPerCallerMax: 1_000_000 })
    return {
      todos,
      drain: new Drain(
        { ...components, queue, replay, clockGuard, todos },
        { perSecMax, approvalFor: () => 'none', ...(batchMax === undefined ? {} : { batchMax }) }
      )
    }
  }
  return { store, queue, openMs, drainOf }
}

/** One message of about `bytes` bytes, sealed for `to`. */
export async function sealed(from: HostedAgent, to: HostedAgent, name: string, bytes: number): Promise<Uint8Array> {
  const text = 'x'.repeat(Math.max(1, bytes - 450))
  const request = { method: 'SendMessage', params: { message: { messageId: name, role: 'ROLE_USER', parts: [{ text }] } } }
  const nowMs = systemClock.nowMs()
  return await sealObject(nodeCrypto, {
    signer: from.signer,
    audience: to.eid,
    mailboxKey: to.mailboxKey,
    id: objectIdOf(nodeCrypto, from.eid, to.eid, name),
    purpose: PURPOSE_A2A_MESSAGE,
    issuedAtMs: nowMs,
    expiresAtMs: nowMs + HOUR_MS,
    plaintext: new TextEncoder().encode(JSON.stringify(request)),
    ephemeralSecret: systemRandom.bytes(32)
  })
}

/** The bare floor: one synced put a message, so that what the queue adds can be told. */
export async function levelLog(): Promise<Log> {
  const dir = tempDir()
  const bare = new Level<string, Uint8Array>(dir, { keyEncoding: 'utf8', valueEncoding: 'view' })
  await bare.open()
  let next = 0
  return {
    name: 'a bare LevelDB put, synced',
    append: async (message) => await bare.put(String(next++).padStart(12, '0'), message, { sync: true }),
    async stop() {
      await bare.close()
      rmSync(dir, { recursive: true, force: true })
    }
  }
}

import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { ClockGuard } from '../../src/delivery/clock-guard.ts'
import { LevelAsleepQueue } from '../../src/delivery/level-asleep-queue.ts'
import { RookeryError } from '../../src/errors.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { openStore } from '../../src/store/open-store.ts'
import { crypto, localAgent } from '../unit/delivery-fixtures.ts'

const MIB = 1_048_576
const OBJECT_BYTES = 256 * 1_024

/** A volume of its own, where this user may mount one. */
function mounted(mib: number): string | undefined {
  const dir = mkdtempSync(join(tmpdir(), 'rookery-volume-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', dir], { stdio: 'ignore' })
    return dir
  } catch {
    rmSync(dir, { recursive: true, force: true })
    return undefined
  }
}

const volumes = [mounted(32), mounted(32)] as const
afterAll(() => {
  for (const volume of volumes) {
    if (volume === undefined) continue
    execFileSync('umount', ['-l', volume])
    rmSync(volume, { recursive: true, force: true })
  }
})
const here = volumes.includes(undefined) ? ' (not run: this user may not mount a volume)' : ''
const bob = localAgent('bob')
let made = 0

async function openQueue(dataDir: string, reserveBytes?: number) {
  const store = await openStore(dataDir, { software: 'test', reserveBytes })
  const clockGuard = await ClockGuard.open({ store, clock: systemClock })
  const bounds = { messagesMax: 10_000, bytesMax: 1_000 * MIB, messagesPerPeerMax: 10_000, ttlMaxMs: 86_400_000 }
  const queue = await LevelAsleepQueue.open({ store, crypto, clockGuard, logger: silentLogger }, { bounds: () => bounds })
  const enqueue = async () => {
    const object = new Uint8Array(OBJECT_BYTES)
    globalThis.crypto.getRandomValues(object.subarray(0, 65_536))
    object[OBJECT_BYTES - 1] = made++ % 256
    const answer = await queue.enqueue({ audience: bob.eidHex, principal: 'eid:a', object, kind: 'opaque' })
    if (answer.status !== 'queued') throw new TypeError(`a bound: ${answer.status}`)
    return answer.record
  }
  /** until refused; what was acknowledged, and why it ended */
  const fill = async () => {
    const keys: string[] = []
    for (;;) {
      try {
        keys.push((await enqueue()).key)
      } catch (error) {
        if (!(error instanceof RookeryError)) throw error
        return { keys, code: error.code, kind: error.kind }
      }
    }
  }
  const held = async () => (await queue.list(bob.eidHex)).map(({ key }) => key)
  return { store, queue, enqueue, fill, held }
}

describe('a volume that fills up', () => {
  it(`[F065] [F070] [OD-22] [OD-41] refuses before its end, loses nothing that it acknowledged, and takes again without a restart${here}`, async () => {
    const [volume] = volumes
    if (volume === undefined) return expect(volume).toBeUndefined()
    const dir = join(volume, 'reserve')
    const one = await openQueue(dir)
    const { keys, code, kind } = await one.fill()
    expect({ code, kind }).toEqual({ code: 'STORE_FULL', kind: 'storage' })
    expect(keys.length).toBeGreaterThan(8)
    expect(await one.held()).toEqual(keys)
    // Room may come back at any moment, for stores compact when they like: then more is taken.
    let state = await one.store.state()
    for (let tries = 0; state.state !== 'full' && tries < 50; tries++) {
      keys.push(...(await one.fill()).keys)
      state = await one.store.state()
    }
    expect(state).toMatchObject({ state: 'full', reserveBytes: 8 * MIB })
    expect(await one.held()).toEqual(keys)
    const dropped = keys.splice(0, Math.ceil(keys.length / 2))
    for (const key of dropped) expect(await one.queue.drop(bob.eidHex, key)).toBe(true)
    const full = await fillUp(one, join(volume, 'ballast'), 4 * MIB)
    expect(full.error).toMatchObject({ code: 'STORE_FULL' })
    rmSync(join(volume, 'ballast'))
    await one.store.close()
    rmSync(dir, { recursive: true, force: true })
  })

  it(`[F065] [F070] [OD-22] [OD-41] meets its very end without a lost acknowledgement, and goes on when space returns${here}`, async () => {
    const [, volume] = volumes
    if (volume === undefined) return expect(volume).toBeUndefined()
    const dir = join(volume, 'hard')
    const one = await openQueue(dir, 0)
    const first = [(await one.enqueue()).key, (await one.enqueue()).key]
    const ballast = join(volume, 'ballast')
    writeFileSync(ballast, new Uint8Array(24 * MIB))
    const { keys, code } = await one.fill()
    expect(['STORE_FULL', 'STORE_WRITE_FAILED']).toContain(code)
    const after = await fillUp(one, ballast, 0)
    expect(after.error).toMatchObject({ kind: 'storage' })
    const acknowledged = [...first, ...keys, ...after.keys]
    expect(await one.held()).toEqual(acknowledged)
    rmSync(ballast)
    const taken = await within(10_000, one.enqueue)
    expect(await one.held()).toEqual([...acknowledged, taken.key])
    expect((await one.queue.usage(bob.eidHex)).messages).toBe(acknowledged.length + 1)
    await one.store.close()
    const two = await openQueue(dir, 0)
    expect(await two.held()).toEqual([...acknowledged, taken.key])
    expect(two.queue.damaged).toBe(0)
    await two.store.close()
    rmSync(dir, { recursive: true, force: true })
  }, 30_000)

  it(`[OD-22] is not opened on a volume that is read-only, says so, and is opened once it may write${here}`, async () => {
    const own = mounted(32)
    if (own === undefined) return expect(own).toBeUndefined()
    const one = await openQueue(own, 0)
    const { key } = await one.enqueue()
    await one.store.close()
    execFileSync('mount', ['-o', 'remount,ro', own])
    await expect(openQueue(own, 0)).rejects.toMatchObject({ code: 'DATA_DIR_UNUSABLE', kind: 'storage', remedy: expect.any(String) })
    execFileSync('mount', ['-o', 'remount,rw', own])
    const again = await openQueue(own, 0)
    expect(await again.held()).toEqual([key])
    await again.store.close()
    execFileSync('umount', ['-l', own])
    rmSync(own, { recursive: true, force: true })
  })
})

/** Leaves no more than `leaveBytes` free until a message is refused; again whenever space came back, for stores compact when they like. */
async function fillUp({ store, enqueue }: Awaited<ReturnType<typeof openQueue>>, ballast: string, leaveBytes: number) {
  const keys: string[] = []
  for (let tries = 0; tries < 50; tries++) {
    const { bavail, bsize } = statfsSync(dirname(ballast))
    appendUntilFull(ballast, Math.max(0, bavail * bsize - leaveBytes))
    await store.state() // measures
    try {
      keys.push((await enqueue()).key)
    } catch (error) {
      return { keys, error }
    }
  }
  throw new Error('never full')
}

/** The store may take what was free a moment ago: that the volume has no room left is then what was wanted. */
function appendUntilFull(ballast: string, bytes: number): void {
  try {
    appendFileSync(ballast, new Uint8Array(bytes))
  } catch (error) {
    if ((error as { code?: string }).code !== 'ENOSPC') throw error
  }
}

async function within<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const untilMs = performance.now() + ms
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (performance.now() > untilMs) throw error
      await systemClock.sleep(50)
    }
  }
}

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { cleanUp, rookery, startNode } from './cli-fixture.ts'

const MIB = 1_048_576
const VOLUME_MIB = 64

function mounted(): string | undefined {
  const dir = mkdtempSync(join(tmpdir(), 'rookery-volume-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${VOLUME_MIB}m`, 'tmpfs', dir], { stdio: 'ignore' })
    return dir
  } catch {
    rmSync(dir, { recursive: true, force: true })
    return undefined
  }
}

const volume = mounted()
afterAll(async () => {
  await cleanUp()
  if (volume === undefined) return
  execFileSync('umount', ['-l', volume])
  rmSync(volume, { recursive: true, force: true })
})

describe('a node whose volume is full', () => {
  const here = volume === undefined ? ' (not run: this user may not mount a volume)' : ''
  it(`[OD-22] [F065] [F070] says so, queues nothing, keeps serving what it has, and takes messages again without a restart${here}`, async () => {
    if (volume === undefined) return expect(volume).toBeUndefined()
    const dataDir = join(volume, 'node')
    expect((await rookery('init', '--data', dataDir, '--agent', 'alice', '--json')).code).toBe(0)
    const node = await startNode(dataDir)
    const on = (...argv: string[]) => rookery(...argv, '--data', dataDir, '--json')
    const store = async () => (await on('status')).json<{ store: { state: string } }>().store
    const send = (id: string) => on('send', 'alice', '--text', 'later', '--message-id', id)
    expect((await on('sleep')).code).toBe(0)
    expect((await send('m-1')).code).toBe(7)
    expect(await store()).toMatchObject({ state: 'ok', reserveBytes: 16 * MIB })

    const ballast = join(volume, 'ballast')
    writeFileSync(ballast, new Uint8Array((VOLUME_MIB - 12) * MIB))
    // The node looks once a second at the least, and when it is asked.
    expect(await store()).toMatchObject({ state: 'full' })
    const refused = await send('m-2')
    expect(refused.code).toBe(9)
    expect(refused.stdout).toBe('')
    expect(refused.error()).toMatchObject({ kind: 'storage', remedy: expect.stringContaining('free space') })
    expect(await store()).toMatchObject({ state: 'full', reason: expect.any(String) })
    const shown = await rookery('status', '--data', dataDir)
    expect(shown.stdout).toMatch(/disk +full: .*nothing new is taken/)
    expect((await on('queue', 'list')).json<unknown[]>()).toHaveLength(1)
    expect((await on('mode', 'set', 'sleep', '--until', '8h')).code).toBe(0)

    rmSync(ballast)
    expect((await send('m-2')).code).toBe(7)
    expect(await store()).toMatchObject({ state: 'ok' })
    expect((await on('wake')).json()).toMatchObject({ drain: { accepted: 2 } })
    expect(node.child.exitCode).toBe(null)
    expect(await node.stop()).toBe(0)
  }, 60_000)
})

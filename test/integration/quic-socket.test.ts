import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, it } from 'vitest'
import type { HostFault } from '../../src/net/host.ts'
import { quicAnswers } from '../../src/net/quic-probe.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { FaultySystem, faultySystem, SYSTEM_ERRNO } from '../faults/faulty-system.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const library = faultySystem()
const here = library === undefined ? ' (not run: it needs Linux and a C compiler, `cc`)' : ''

describe('the socket of QUIC', () => {
  it(`[OD-22] that is closed under the node is noticed, told, and bound anew on its port${here}`, async () => {
    if (library === undefined) return expect(here).not.toBe('')
    const system = new FaultySystem(library)
    cleanups.push(() => system.remove())
    const child = spawn(process.execPath, ['--no-warnings', join(import.meta.dirname, 'quic-socket-process.ts')], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      env: { ...process.env, ...system.env }
    })
    const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
    cleanups.push(async () => {
      child.kill('SIGKILL')
      await exited
    })
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]()
    const line = async <T>() => JSON.parse((await lines.next()).value as string) as T
    const { addresses } = await line<{ addresses: string[] }>()
    const port = Number(/\/udp\/(\d+)\//.exec(addresses[0] as string)?.[1])
    const asks = { clock: systemClock, random: systemRandom }
    expect(await quicAnswers(asks, { host: '127.0.0.1', port }, 60_000)).toBe(true)
    system.arm({ closedErrno: SYSTEM_ERRNO.EBADF })
    expect((await line<{ fault: HostFault }>()).fault).toMatchObject({
      needs: 'time',
      detail: expect.stringContaining(`/udp/${port}/quic-v1`)
    })
    expect(await line()).toEqual({ fault: 'none' })
    expect(await quicAnswers(asks, { host: '127.0.0.1', port }, 60_000)).toBe(true)
    expect(system.failures()).toBeGreaterThan(0)
  }, 180_000)
})

import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { PROCESS_WATCH_MS, ProcessWatch } from '../../src/ops/process-watch.ts'
import { sayAcceptErrors } from '../../src/platform/accept-errors.ts'
import { ManualClock, systemClock } from '../../src/platform/clock.ts'
import { machineAddresses } from '../../src/platform/interfaces.ts'
import { type Logger, silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { createWorkSolver } from '../../src/work/solver.ts'

function heard(): { logger: Logger; lines: [level: string, message: string, fields: object][] } {
  const lines: [string, string, object][] = []
  const to = (level: string) => (fields: object, message: string) => void lines.push([level, message, fields])
  const logger: Logger = { ...silentLogger, info: to('info'), warn: to('warn'), child: () => logger }
  return { logger, lines }
}

describe('the watch over the process', () => {
  function watch() {
    const clock = new ManualClock()
    const { logger, lines } = heard()
    const state = { jumps: 0, used: 10, noFile: undefined as string | undefined }
    const one = new ProcessWatch(
      { clock, logger },
      { jumped: () => state.jumps++, heap: () => ({ used: state.used, limit: 100 }), noFile: () => state.noFile }
    )
    one.start()
    return { clock, lines, state, one }
  }

  it('[G-10] tells of a clock that steps either way, has what waits for it looked at, and keeps still over what NTP slews', () => {
    const { clock, lines, state } = watch()
    clock.advance(PROCESS_WATCH_MS)
    clock.jumpWall(500)
    clock.advance(PROCESS_WATCH_MS)
    expect([state.jumps, lines]).toEqual([0, []])
    clock.jumpWall(86_400_000)
    clock.advance(PROCESS_WATCH_MS)
    clock.jumpWall(-86_400_000)
    clock.advance(PROCESS_WATCH_MS)
    expect(state.jumps).toBe(2)
    expect(lines.map(([level, , fields]) => [level, (fields as { jumpMs: number }).jumpMs])).toEqual([
      ['warn', 86_400_000],
      ['warn', -86_400_000]
    ])
  })

  it('[OD-22] tells once that only another process can go on', () => {
    const clock = new ManualClock()
    const told: string[] = []
    let why: string | undefined
    const one = new ProcessWatch(
      { clock, logger: silentLogger },
      {
        jumped: () => {},
        heap: () => ({ used: 1, limit: 100 }),
        noFile: () => undefined,
        lost: { why: () => why, told: (text) => told.push(text) }
      }
    )
    one.start()
    clock.advance(PROCESS_WATCH_MS)
    expect(told).toEqual([])
    why = 'the socket is dead'
    clock.advance(3 * PROCESS_WATCH_MS)
    expect(told).toEqual(['the socket is dead'])
    one.stop()
  })

  it('tells of a process that stood still', () => {
    const times = [0, 0]
    let due: () => void = () => {}
    const { logger, lines } = heard()
    const clock = { ...systemClock, nowMs: () => times[0] as number, monotonicMs: () => times[1] as number }
    clock.after = (_ms: number, call: () => void) => {
      due = call
      return () => {}
    }
    new ProcessWatch({ clock, logger }, { jumped: () => {} }).start()
    times[0] = times[1] = PROCESS_WATCH_MS + 45_000
    due()
    expect(lines).toEqual([['warn', expect.stringContaining('stood still'), { ms: 45_000 }]])
  })

  it('tells once of a heap that is nearly full and of files that run out, with the remedy, and when both are well again', () => {
    const { clock, lines, state, one } = watch()
    state.used = 80
    state.noFile = 'EMFILE'
    clock.advance(3 * PROCESS_WATCH_MS)
    state.used = 50
    state.noFile = undefined
    clock.advance(PROCESS_WATCH_MS)
    one.stop()
    clock.advance(PROCESS_WATCH_MS)
    expect(lines.map(([level, message]) => [level, message.slice(0, 22)])).toEqual([
      ['warn', 'no file can be opened '],
      ['warn', 'the heap is nearly ful'],
      ['info', 'files can be opened ag'],
      ['info', 'the heap has room agai']
    ])
    expect(lines[0]?.[2]).toMatchObject({ code: 'EMFILE', remedy: expect.stringContaining('ulimit') })
  })
})

describe('what takes a file descriptor', () => {
  it('does not end the process where there is none: the addresses of this machine stay as they were', () => {
    const before = machineAddresses()
    const full = () => {
      throw Object.assign(new Error('uv_interface_addresses returned Unknown system error 24'), { code: 'ERR_SYSTEM_ERROR' })
    }
    expect(machineAddresses(full)).toEqual(before)
  })

  it('does not end the process where a server cannot take a connection: it says so, once a minute', () => {
    const clock = new ManualClock()
    const { logger, lines } = heard()
    const server = createServer()
    sayAcceptErrors(server, 'the A2A edge', logger, clock)
    const full = Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' })
    for (let i = 0; i < 5; i++) server.emit('error', full)
    clock.advance(60_000)
    server.emit('error', full)
    expect(lines.map(([, message, fields]) => [message.slice(0, 44), fields])).toEqual([
      ['the A2A edge cannot take connections; it goe', { code: 'EMFILE', remedy: expect.stringContaining('ulimit') }],
      ['the A2A edge cannot take connections; it goe', expect.anything()]
    ])
  })
})

describe('threads of the solver that are ended under it', () => {
  const SEED = new Uint8Array(32).fill(7)

  it('are replaced, and the search begins anew', async () => {
    let left = 2
    const end = (worker: { terminate(): Promise<number> }) => {
      if (left-- > 0) void worker.terminate()
    }
    process.on('worker', end)
    const solver = createWorkSolver({ clock: systemClock, random: systemRandom }, { threads: 1 })
    try {
      expect(await solver.solve(SEED, 10)).toHaveLength(8)
      expect(left).toBeLessThan(1)
    } finally {
      process.off('worker', end)
      await solver.stop()
    }
  })

  it('are given up after three times, with the reason', async () => {
    const end = (worker: { terminate(): Promise<number> }) => void worker.terminate()
    process.on('worker', end)
    const solver = createWorkSolver({ clock: systemClock, random: systemRandom }, { threads: 1 })
    try {
      await expect(solver.solve(nodeCrypto.sha256(SEED), 10)).rejects.toMatchObject({ code: 'SOLVER_FAILED', kind: 'internal' })
    } finally {
      process.off('worker', end)
      await solver.stop()
    }
  })
})

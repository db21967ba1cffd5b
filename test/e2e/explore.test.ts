import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const run = promisify(execFile)
const SCRIPT = new URL('../explore/run.ts', import.meta.url).pathname
const MINUTES_15 = 900_000

interface Row {
  space: string
  mutant?: string
  states: number
  isWhole: boolean
  broken?: { events: string[]; error: string }
}

async function explore(...args: string[]): Promise<Row[]> {
  const { stdout } = await run(process.execPath, [SCRIPT, '--json', ...args], { maxBuffer: 2 ** 24 })
  return JSON.parse(stdout) as Row[]
}

describe('the explorer', () => {
  it(
    '[PSS-12] [D-14] finds no state of handshake and reconciliation, with one crash of each side, in which a promise is broken',
    async () => {
      const rows = await explore('--small')
      expect(rows.map(({ space, isWhole, broken }) => ({ space, isWhole, broken }))).toEqual([
        { space: 'handshake', isWhole: true, broken: undefined },
        { space: 'session', isWhole: true, broken: undefined }
      ])
      for (const { states } of rows) expect(states).toBeGreaterThan(200)
    },
    MINUTES_15
  )

  it(
    '[D-14] finds every mistake that is made on purpose, and tells the shortest way to it',
    async () => {
      const rows = await explore('--mutants')
      expect(rows.map(({ mutant, broken }) => ({ mutant, error: broken?.error }))).toEqual([
        { mutant: 'takes an ACK twice', error: 'Error: one ACK opened two sessions' },
        { mutant: 'takes an old cookie', error: 'Error: a cookie opened a session after its time' },
        { mutant: 'takes a cookie after a restart', error: 'Error: one ACK opened two sessions' },
        { mutant: 'acks before the effect is on disk', error: 'Error: acked and not applied: 0' },
        { mutant: 'writes an effect without its position', error: 'Error: channel 1 applied 0,0, not 0' },
        { mutant: 'forgets positions at a restart', error: 'Error: channel 1 applied 0,0, not 0' },
        { mutant: 'forgets its journal at a restart', error: 'Error: channel 1 applied , not 0' },
        { mutant: 'sends before it journals', error: 'Error: channel 1 applied , not 0' },
        { mutant: 'forgets what is in hand when an epoch ends', error: 'Error: channel 1 applied 0,0, not 0' }
      ])
      for (const { broken } of rows) expect(broken?.events.length).toBeLessThan(12)
    },
    MINUTES_15
  )
})

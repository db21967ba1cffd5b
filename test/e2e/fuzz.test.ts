import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { TARGET_FILES } from '../fuzz/targets/index.ts'

const run = promisify(execFile)
const SCRIPT = new URL('../fuzz/run.ts', import.meta.url).pathname
const MINUTES_15 = 900_000

interface Report {
  found: number
  targets: { target: string; found: number; status: { execs: number; edges: number } }[]
}

/** @param args - appended; the corpus that is kept is read, nothing is written */
async function fuzz(...args: string[]): Promise<Report> {
  const { stdout } = await run(process.execPath, [SCRIPT, '--dry', '--json', ...args], { maxBuffer: 2 ** 26 })
  return JSON.parse(stdout) as Report
}

describe('fuzzing', () => {
  it(
    '[D-14] finds nothing in 60 s over every decoder and state machine, from the corpus that is kept',
    async () => {
      const report = await fuzz('--seconds', '60', '--jobs', '2', '--seed', '1')
      expect(report.targets.map(({ target }) => target).sort()).toEqual(Object.values(TARGET_FILES).flat().sort())
      for (const { target, status } of report.targets) expect(status.execs, target).toBeGreaterThan(20)
      expect(report.found).toBe(0)
    },
    MINUTES_15
  )

  it(
    '[D-14] makes the same run of the same seed, so that a finding can be had again',
    async () => {
      const once = () => fuzz('--target', 'frames', '--execs', '2000', '--seed', '42', '--jobs', '1')
      const [one, two] = [await once(), await once()]
      const figures = ({ targets }: Report) => targets.map(({ target, status }) => ({ target, ...status }))
      expect(figures(one)).toEqual(figures(two))
    },
    MINUTES_15
  )
})

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import type { ScaleFigures } from '../../bench/scale/figures.ts'
import { page, table } from '../../bench/scale/page.ts'

const run = promisify(execFile)
const SCRIPT = new URL('../../bench/scale/run.ts', import.meta.url).pathname
const MINUTES_15 = 900_000

const folder = mkdtempSync(join(tmpdir(), 'rookery-scale-test-'))
const temporary = join(folder, 'tmp')
mkdirSync(temporary)
const env = { ...process.env, TMPDIR: temporary, BENCH_OUT: join(folder, 'out') }
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const saidOf = (figures: ScaleFigures | undefined) => (figures?.said ?? []).map(({ where, words }) => `${where}: ${words}`).join('\n')

describe('npm run scale', () => {
  it(
    '[OD-30] grows each kind, tells what is refused in the words of caller and operator, and leaves nothing behind',
    async () => {
      const { stdout } = await run(process.execPath, [SCRIPT, '--part', '0.001', '--json'], { env, maxBuffer: 2 ** 24 })
      const { kinds } = JSON.parse(stdout) as { kinds: ScaleFigures[] }
      expect(kinds.map(({ kind, asked, reached }) => [kind, asked, reached])).toEqual([
        ['sessions', 10, 10],
        ['spaces', 10, 10],
        ['records', 1_000, 1_000],
        ['tasks', 100, 100]
      ])
      const [sessions, spaces, records, tasks] = kinds
      expect(sessions?.facts.find(({ what }) => what === 'taken up again')?.value).toBe(10)
      expect(saidOf(sessions)).toMatch(/caller: another node.*SESSION_BUSY/)
      expect(saidOf(sessions)).toMatch(/health: bounds \(note\): 11 of 10 sessions \(sessionsMax\)/)
      expect(saidOf(sessions)).toMatch(/log: warn .*a bound is reached/)
      expect(spaces?.gave[0]?.what).toMatch(/registry\.putsPerMinuteMax/)
      expect(records?.gave[0]?.what).toMatch(/answered "full".*registry\.bytesMax/)
      expect(records?.facts.find(({ what }) => what === 'swept')?.value).toBeGreaterThanOrEqual(1_000)
      expect(saidOf(tasks)).toMatch(/caller: .*TODO_LIMIT.*tasks\.openPerCallerMax/)
      expect(table(kinds)).toMatch(/Records at one registrar: 1,000 of 1,000/)
      expect(page(kinds, { machine: 'here', part: 0.001 })).toMatch(/^# How far one node grows[\s\S]*## Tasks of one node/)
      expect(readdirSync(env.BENCH_OUT)).toEqual(['scale.json'])
      expect(readdirSync(temporary)).toEqual([])
    },
    MINUTES_15
  )

  it(
    'ends at once by Ctrl-C, with 130 and nothing left, and names what is wrong with its arguments',
    async () => {
      const child = spawn(process.execPath, [SCRIPT, 'tasks'], { env, stdio: ['ignore', 'ignore', 'pipe'] })
      const exited = once(child, 'exit')
      for await (const chunk of child.stderr) if (String(chunk).includes('tasks: ')) break
      child.kill('SIGINT')
      expect(await exited).toEqual([130, null])
      expect(readdirSync(temporary)).toEqual([])
      await expect(run(process.execPath, [SCRIPT, '--part', '2'], { env })).rejects.toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/--part is a number/)
      })
      await expect(run(process.execPath, [SCRIPT, 'files'], { env })).rejects.toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/no kind "files"/)
      })
    },
    MINUTES_15
  )
})

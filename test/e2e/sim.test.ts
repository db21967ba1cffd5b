import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SimReport } from '../../sim/index.ts'

const bin = fileURLToPath(new URL('../../bin/rookery.js', import.meta.url))
let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rookery-sim-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** Runs the command line; `onStderr` sees what it says so far, and may interrupt it once. */
function rookery(args: string[], onStderr: (text: string, interrupt: () => void) => void = () => {}): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [bin, ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    let interrupted = false
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
      onStderr(stderr, () => {
        if (!interrupted) interrupted = child.kill('SIGINT')
      })
    })
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, stdout, stderr }))
  })
}

const reportIn = async (...path: string[]): Promise<SimReport> => JSON.parse(await readFile(join(folder, ...path, 'report.json'), 'utf8'))

describe('rookery sim run', () => {
  it('[DS-05] [PSS-01] joins, searches and talks among 20 real nodes, all of it, and writes both reports', async () => {
    const ended = await rookery(['sim', 'run', 'first-contact', '--nodes', '20', '--seed', '1', '--json'])
    const report = JSON.parse(ended.stdout) as SimReport
    expect(report.failures).toEqual([])
    expect(report).toMatchObject({
      scenario: 'first-contact',
      nodes: 20,
      seed: 1,
      success: true,
      interrupted: false,
      join: { wanted: 19, joined: 19 },
      discovery: { searches: 20, succeeded: 20, successRate: 1, recall: 1 },
      sessions: { wanted: 20, opened: 20 },
      messages: { perNode: { count: 20 } }
    })
    expect(report.discovery.hops.min).toBeGreaterThanOrEqual(1)
    expect(report.messages.perNode.min).toBeGreaterThan(0)
    expect(ended.code).toBe(0)
    const where = ['sim-out', 'first-contact-20-1']
    expect(await reportIn(...where)).toEqual(report)
    expect(ended.stderr).toContain(join('first-contact-20-1', 'report.html'))
    expect(await readFile(join(folder, ...where, 'report.html'), 'utf8')).toContain('<!doctype html>')
  })

  it('stops at Ctrl-C, still writes the report of what was done, and exits 130', async () => {
    const ended = await rookery(['sim', 'run', 'first-contact', '--nodes', '12', '--out', 'here'], (said, interrupt) => {
      if (said.includes('join the space')) interrupt()
    })
    expect(ended.code).toBe(130)
    expect(ended.stdout).toContain('interrupted')
    expect(await reportIn('here')).toMatchObject({ interrupted: true, success: false, latencyValid: false, sessions: { opened: 0 } })
  })

  it.each([
    [['first-contact', '--nodes', '1'], 2, { code: 'SIM_NODES_INVALID', field: 'nodes', value: 1 }],
    [['first-contact', '--nodes', '100000'], 2, { code: 'SIM_NODES_INVALID', field: 'nodes', value: 100_000 }],
    [['first-contact', '--nodes', 'many'], 2, { code: 'SIM_NODES_INVALID', field: 'nodes' }],
    [['first-contact', '--seed', '-1'], 2, { code: 'SIM_SEED_INVALID', field: 'seed', value: -1 }],
    [['second-contact'], 2, { code: 'SCENARIO_UNKNOWN', field: 'scenario', value: 'second-contact' }],
    [['first-contact', '--nodes', '2', '--out', 'a-file/below'], 9, { code: 'SIM_OUT_UNWRITABLE', field: 'out' }]
  ])('refuses %j before anything runs, naming field and remedy', async (args, code, error) => {
    await writeFile(join(folder, 'a-file'), '')
    const ended = await rookery(['sim', 'run', ...args, '--json'])
    expect(ended.code).toBe(code)
    expect(ended.stdout).toBe('')
    expect(JSON.parse(ended.stderr)).toEqual({ error: expect.objectContaining({ ...error, remedy: expect.any(String) }) })
  })
})

describe('rookery sim list', () => {
  it('tells the scenarios there are', async () => {
    const ended = await rookery(['sim', 'list', '--json'])
    expect(ended.code).toBe(0)
    const told = JSON.parse(ended.stdout) as { name: string; description: string; nodes: { min: number; max: number; default: number } }[]
    expect(told[0]).toMatchObject({ name: 'first-contact', engine: 'real', nodes: { min: 2, max: 1_000, default: 100 } })
    expect(told.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['hostile', 'rush-hour', 'sleepers', 'split-brain', 'equivocator', 'internet'])
    )
    for (const { name, description, nodes } of told) {
      expect(description, name).toMatch(/\.$/)
      expect(nodes.min <= nodes.default && nodes.default <= nodes.max, name).toBe(true)
    }
  })
})

describe('rookery sim new, check, schema, export, compare and replay', () => {
  it('write, check, run and run again a scenario of one’s own, and say where it is wrong', async () => {
    expect((await rookery(['sim', 'new', 'mine.yaml', '--from', 'sleepers'])).code).toBe(0)
    const text = await readFile(join(folder, 'mine.yaml'), 'utf8')
    expect(text).toContain('$schema=./mine.yaml.schema.json')
    expect(JSON.parse(await readFile(join(folder, 'mine.yaml.schema.json'), 'utf8'))).toEqual(
      JSON.parse((await rookery(['sim', 'schema', '--json'])).stdout)
    )
    expect((await rookery(['sim', 'new', 'mine.yaml'])).code).not.toBe(0)
    const checked = JSON.parse((await rookery(['sim', 'check', 'mine.yaml', '--nodes', '40', '--json'])).stdout)
    expect(checked).toMatchObject({ name: 'sleepers', engine: 'model', nodes: 40 })

    const ran = await rookery(['sim', 'run', './mine.yaml', '--nodes', '40', '--seed', '5', '--out', 'a', '--log', 'a.log'])
    expect(ran.code).toBe(0)
    const again = await rookery(['sim', 'replay', 'a/report.json', '--out', 'b'])
    expect(again.code).toBe(0)
    const [one, two] = [await reportIn('a'), await reportIn('b')]
    expect(two.eventLog).toEqual(one.eventLog)
    expect((await readFile(join(folder, 'a.log'), 'utf8')).split('\n').slice(0, 100)).toEqual(one.eventLog.lines.slice(0, 100))
    const compared = JSON.parse((await rookery(['sim', 'compare', 'a/report.json', 'b/report.json', '--json'])).stdout)
    expect(compared).toContainEqual({ what: 'nodes', unit: '', a: 40, b: 40, ratio: 1 })

    await writeFile(join(folder, 'mine.yaml'), text.replace('perSecond: 0.5', 'perSecond: often'))
    const refused = await rookery(['sim', 'check', 'mine.yaml', '--json'])
    expect(refused.code).toBe(3)
    expect(JSON.parse(refused.stderr)).toEqual({
      error: expect.objectContaining({ code: 'SCENARIO_INVALID', field: expect.stringMatching(/^mine\.yaml:\d+:\d+$/) })
    })
  })

  it('write files for engines of others', async () => {
    for (const kind of ['compose', 'kubernetes', 'shadow']) {
      expect((await rookery(['sim', 'export', 'churn', '--to', kind, '--nodes', '6', '--out', `out/${kind}.yaml`])).code).toBe(0)
      expect(await readFile(join(folder, 'out', `${kind}.yaml`), 'utf8')).toContain('rookery start')
    }
  })
})

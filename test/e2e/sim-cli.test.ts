import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { EXIT_CODES } from '../../src/errors.ts'
import { rookery } from './cli-fixture.ts'

let folder: string
const at = (...path: string[]) => join(folder, ...path)
const sim = (...args: string[]) => rookery('sim', ...args)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rookery-sim-cli-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const COMMANDS = ['run', 'replay', 'check', 'new', 'schema', 'compare', 'export', 'list']

describe('rookery sim', () => {
  it('helps with each of its commands: what it does, what it takes, an example', async () => {
    const top = await sim('--help')
    expect(top.code).toBe(0)
    for (const command of COMMANDS) expect(top.stdout, command).toMatch(new RegExp(`^  ${command}\\b`, 'm'))
    for (const command of COMMANDS) {
      const { code, stdout } = await sim(command, '--help')
      expect(code, command).toBe(0)
      expect(stdout, command).toContain(`Usage: rookery sim ${command}`)
      expect(stdout, command).toContain(`Example:\n  rookery sim ${command}`)
    }
  })

  it('writes a scenario, checks it, runs it and runs it again, exports it and sets two runs side by side', async () => {
    const made = await sim('new', at('own.yaml'), '--from', 'sleepers', '--json')
    expect(made.code).toBe(0)
    expect(made.json()).toMatchObject({ file: at('own.yaml'), schema: at('own.yaml.schema.json') })
    const checked = await sim('check', at('own.yaml'), '--nodes', '30')
    expect(checked).toMatchObject({ code: 0, stdout: expect.stringMatching(/^sound {2}sleepers, 30 nodes, model engine\nSTAGE/) })
    const ran = await sim('run', at('own.yaml'), '--nodes', '30', '--out', at('one'))
    expect(ran.code).toBe(0)
    expect(ran.stdout).toMatch(/^sleepers, 30 modelled nodes, seed 1: passed in /)
    expect(ran.stdout).toMatch(/No acknowledged message is lost\.\s+holds/)
    expect(ran.stderr).toContain('two hours (')
    const again = await sim('replay', at('one', 'report.json'), '--out', at('two'))
    expect(again.code).toBe(0)
    const compared = await sim('compare', at('one', 'report.json'), at('two', 'report.json'))
    expect(compared).toMatchObject({ code: 0, stdout: expect.stringMatching(/^nodes\s+30\s+30\s+100\.0 %/m) })
    const exported = await sim('export', at('own.yaml'), '--to', 'shadow', '--nodes', '6')
    expect(exported.code).toBe(0)
    expect(Object.keys(parse(exported.stdout).hosts)).toHaveLength(6)
    const schema = await sim('schema')
    expect(JSON.parse(schema.stdout)).toEqual(JSON.parse(await readFile(at('own.yaml.schema.json'), 'utf8')))
    const listed = await sim('list')
    expect(listed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^idle {2}2 to 1000 nodes, 50 by default$/m) })
  })

  it('says of each command what was wrong, where, and what to do', async () => {
    await writeFile(at('there.yaml'), 'name: there\n')
    await writeFile(at('no-report.json'), '{}')
    await writeFile(
      at('wrong.yaml'),
      'name: wrong\ndescription: W.\nnodes:\n  - { group: all, count: 2 }\ntimeline:\n  - stage: one\n  - { do: jump }\n'
    )
    const wrong: [string[], number, { code: string; field?: string }][] = [
      [['new', at('there.yaml')], EXIT_CODES.conflict, { code: 'FILE_EXISTS', field: 'file' }],
      [['new', at('more.yaml'), '--from', 'nothing'], EXIT_CODES.usage, { code: 'SCENARIO_UNKNOWN', field: 'scenario' }],
      [['check', at('wrong.yaml')], EXIT_CODES.config, { code: 'SCENARIO_INVALID', field: `${at('wrong.yaml')}:7:7` }],
      [['run', at('wrong.yaml')], EXIT_CODES.config, { code: 'SCENARIO_INVALID', field: `${at('wrong.yaml')}:7:7` }],
      [['run', at('missing.yaml')], EXIT_CODES.config, { code: 'SCENARIO_UNREADABLE', field: 'scenario' }],
      [['run', 'eclipse', '--engine', 'model'], EXIT_CODES.usage, { code: 'SIM_OPTION_INVALID', field: 'engine' }],
      [['run', 'first-contact', '--threads', '0'], EXIT_CODES.usage, { code: 'SIM_OPTION_INVALID', field: 'threads' }],
      [['replay', at('no-report.json')], EXIT_CODES.config, { code: 'SIM_REPORT_UNREADABLE', field: 'report' }],
      [['compare', at('no-report.json'), at('missing.json')], EXIT_CODES.config, { code: 'SIM_REPORT_UNREADABLE', field: 'report' }],
      [['export', 'churn', '--to', 'paper'], EXIT_CODES.usage, { code: 'USAGE' }],
      [['schema', '--out', at('there.yaml', 'schema.json')], EXIT_CODES.storage, { code: 'SIM_OUT_UNWRITABLE', field: 'out' }],
      [['list', '--all'], EXIT_CODES.usage, { code: 'USAGE' }]
    ]
    for (const [args, exit, error] of wrong) {
      const told = await sim(...args, '--json')
      expect([args, told.code, told.stdout]).toEqual([args, exit, ''])
      expect(told.error(), args.join(' ')).toEqual(expect.objectContaining({ ...error, message: expect.any(String) }))
    }
  })
})

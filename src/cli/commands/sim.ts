import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Option } from 'commander'
import { z } from 'zod'
import type { EngineKind, ExportKind, SimReport } from '../../../sim/index.ts'
import { RookeryError } from '../../errors.ts'
import type { RegisterCommand } from '../context.ts'
import { makeFolder, saveFile } from '../sim-files.ts'
import { runAndReport, type SimRunOptions } from './sim-run.ts'

const REPORT_BYTES_MAX = 64 * 1_048_576
const IMAGE_DEFAULT = 'rookery:latest'

export const registerSim: RegisterCommand = (program, run) => {
  const sim = program.command('sim').description('simulated networks: scenarios on real nodes of this process or on a model, reports')
  const load = async (ref: string) => (await import('../../../sim/index.ts')).loadScenario(ref)
  const withRunOptions = (command: ReturnType<typeof sim.command>) =>
    command
      .option('--nodes <count>', 'how many nodes (default: what the scenario says)', Number)
      .option('--seed <number>', 'decides keys and who does what (default: what the scenario says)', Number)
      .addOption(
        new Option('--engine <engine>', 'real nodes, or a model of them (default: what the scenario says)').choices(['real', 'model'])
      )
      .addOption(
        new Option('--transport <transport>', 'of real nodes: straight through memory, or QUIC at loopback').choices(['memory', 'quic'])
      )
      .addOption(
        new Option('--time <time>', 'of real nodes in memory: that of the clock, or virtual, which leaps while all of them wait').choices([
          'real',
          'virtual'
        ])
      )
      .option('--threads <count>', 'worker threads for real nodes (default: 1)', Number)
      .option('--log <file>', 'writes the event log; that of a model is the same for the same seed')
      .option('--no-shrink', 'of a failure: does not look for the shortest list of events that still fails')
      .option('--out <dir>', 'where the reports go (default: sim-out/SCENARIO-NODES-SEED)')

  withRunOptions(sim.command('run <scenario>'))
    .description('run a scenario, by name or file, and write report.json and report.html; exits 0 only if all that it wanted came true')
    .addHelpText('after', '\nExample:\n  rookery sim run first-contact --nodes 100 --seed 1')
    .action((ref: string, options: SimRunOptions, command) =>
      run(command, async (invocation) => await runAndReport(invocation, await load(ref), options))
    )

  sim
    .command('replay <report>')
    .description(
      'run again what a report.json tells of: the same scenario, nodes and seed, or the short list of events that it was made down to'
    )
    .option('--out <dir>', 'where the reports go (default: sim-out/replay)')
    .addHelpText('after', '\nExample:\n  rookery sim replay sim-out/churn-100-1/report.json')
    .action((file: string, { out: folder }: { out?: string }, command) =>
      run(command, async (invocation) => {
        const { nodes, seed, engine, transport, time, threads, definition, plan } = readReport(file)
        const options: SimRunOptions = {
          nodes,
          seed,
          engine,
          threads,
          out: folder ?? join('sim-out', 'replay'),
          ...(transport === 'quic' ? { transport } : {}),
          ...(time === 'virtual' ? { time } : {}),
          shrink: false
        }
        return await runAndReport(invocation, definition, options, plan === undefined ? {} : { plan })
      })
    )

  sim
    .command('check <scenario>')
    .description('check a scenario without running it: its file, and what it comes to')
    .option('--nodes <count>', 'how many nodes', Number)
    .option('--seed <number>', 'the seed', Number)
    .addHelpText('after', '\nExample:\n  rookery sim check ./mine.yaml')
    .action((ref: string, options: { nodes?: number; seed?: number }, command) =>
      run(command, async ({ out }) => {
        const { defaultNodes, planOf } = await import('../../../sim/index.ts')
        const definition = await load(ref)
        const plan = planOf(definition, options.nodes ?? defaultNodes(definition), options.seed ?? definition.seed)
        const stages = plan.stages.map(({ name, lastsMs, lanes }) => ({
          name,
          lastsMs,
          events: lanes.reduce((sum, { events }) => sum + events.length, 0)
        }))
        out.result({ name: definition.name, engine: definition.engine, nodes: plan.nodes.length, stages }, () => {
          out.line(
            `${out.paint.green('sound')}  ${out.paint.bold(definition.name)}, ${plan.nodes.length} nodes, ${definition.engine} engine`
          )
          out.table(
            ['STAGE', 'LASTS', 'EVENTS'],
            stages.map(({ name, lastsMs, events }) => [
              name,
              lastsMs === 0 ? 'until done' : `${lastsMs / 1_000} s`,
              events.toLocaleString('en')
            ])
          )
        })
        return undefined
      })
    )

  sim
    .command('new <file>')
    .description('write a scenario to begin with')
    .option('--from <scenario>', 'a shipped scenario to copy', 'first-contact')
    .option('--force', 'even over a file that is there')
    .addHelpText('after', '\nExample:\n  rookery sim new mine.yaml --from churn')
    .action((file: string, { from, force }: { from: string; force?: boolean }, command) =>
      run(command, async ({ out }) => {
        const { definitionJsonSchema, shippedText } = await import('../../../sim/index.ts')
        await load(from)
        const path = resolve(file)
        if (existsSync(path) && force !== true) {
          throw new RookeryError('FILE_EXISTS', `${file} is there already`, {
            kind: 'conflict',
            field: 'file',
            value: file,
            remedy: 'name another file, or give --force'
          })
        }
        const schemaFile = `${path}.schema.json`
        await saveFile(schemaFile, `${JSON.stringify(definitionJsonSchema(), null, 2)}\n`)
        const text = shippedText(from).replace(/\$schema=.*/, `$schema=./${file.split(/[/\\]/).at(-1)}.schema.json`)
        await saveFile(path, text)
        out.result({ file: path, schema: schemaFile }, () =>
          out.line(`made  ${path}\n      ${schemaFile}\nnext  rookery sim check ${file}`)
        )
        return undefined
      })
    )

  sim
    .command('schema')
    .description('print the JSON Schema of scenario files, for editors')
    .option('--out <file>', 'write it there instead')
    .addHelpText('after', '\nExample:\n  rookery sim schema --out scenario.schema.json')
    .action(({ out: file }: { out?: string }, command) =>
      run(command, async ({ out }) => {
        const { definitionJsonSchema } = await import('../../../sim/index.ts')
        const schema = definitionJsonSchema()
        if (file !== undefined) await saveFile(resolve(file), `${JSON.stringify(schema, null, 2)}\n`)
        out.result(file === undefined ? schema : { file: resolve(file) }, () =>
          out.line(file === undefined ? JSON.stringify(schema, null, 2) : `made  ${resolve(file)}`)
        )
        return undefined
      })
    )

  sim
    .command('compare <a> <b>')
    .description('set the figures of two report.json side by side')
    .addHelpText('after', '\nExample:\n  rookery sim compare before/report.json after/report.json')
    .action((a: string, b: string, _options, command) =>
      run(command, async ({ out }) => {
        const { compareReports } = await import('../../../sim/index.ts')
        const rows = compareReports(readReport(a), readReport(b))
        const shown = (value: number) => value.toLocaleString('en', { maximumFractionDigits: 2 })
        out.result(rows, () => {
          out.table(
            ['FIGURE', 'A', 'B', 'B OF A', ''],
            rows.map(({ what, unit, a: one, b: two, ratio, invalid }) => [
              what,
              `${shown(one)} ${unit}`.trim(),
              `${shown(two)} ${unit}`.trim(),
              ratio === undefined ? '' : `${(ratio * 100).toFixed(1)} %`,
              invalid === true ? 'not valid for latency' : ''
            ])
          )
        })
        return undefined
      })
    )

  sim
    .command('export <scenario>')
    .description('write the nodes and links of a scenario for Docker Compose, Kubernetes or the Shadow simulator')
    .addOption(new Option('--to <kind>', 'what for').choices(['compose', 'kubernetes', 'shadow']).default('compose'))
    .option('--nodes <count>', 'how many nodes', Number)
    .option('--seed <number>', 'the seed', Number)
    .option('--image <image>', 'with rookery, and tc where links are shaped', IMAGE_DEFAULT)
    .option('--out <file>', 'write it there instead of printing it')
    .addHelpText('after', '\nExample:\n  rookery sim export churn --to compose --nodes 20 --out compose.yaml')
    .action((ref: string, options: { to: ExportKind; nodes?: number; seed?: number; image: string; out?: string }, command) =>
      run(command, async ({ out }) => {
        const { defaultNodes, exportScenario } = await import('../../../sim/index.ts')
        const definition = await load(ref)
        const text = exportScenario(definition, options.to, {
          nodes: options.nodes ?? defaultNodes(definition),
          seed: options.seed ?? definition.seed,
          image: options.image
        })
        if (options.out !== undefined) {
          const path = resolve(options.out)
          await makeFolder(resolve(path, '..'))
          await saveFile(path, text)
        }
        out.result(options.out === undefined ? { text } : { file: resolve(options.out) }, () =>
          out.line(options.out === undefined ? text : `made  ${resolve(options.out)}`)
        )
        return undefined
      })
    )

  sim
    .command('list')
    .description('the scenarios there are')
    .addHelpText('after', '\nExample:\n  rookery sim list')
    .action((_options, command) =>
      run(command, async ({ out }) => {
        const { loadScenario, nodesRange, shippedNames } = await import('../../../sim/index.ts')
        const list = shippedNames().map((name) => {
          const definition = loadScenario(name)
          return { name, description: definition.description, engine: definition.engine, nodes: nodesRange(definition, definition.engine) }
        })
        out.result(list, () => {
          for (const { name, description, engine, nodes } of list) {
            const kind = engine === 'model' ? 'modelled nodes' : 'nodes'
            out.line(`${out.paint.bold(name)}  ${nodes.min} to ${nodes.max} ${kind}, ${nodes.default} by default`)
            out.line(`  ${description}`)
          }
        })
        return undefined
      })
    )
}

const reportSchema = z.looseObject({
  scenario: z.string(),
  nodes: z.int(),
  seed: z.int(),
  engine: z.enum(['real', 'model']),
  definition: z.looseObject({ name: z.string() })
})

/** @throws RookeryError `SIM_REPORT_UNREADABLE` */
function readReport(file: string): SimReport & { engine: EngineKind } {
  const unreadable = (why: string, cause?: unknown) =>
    new RookeryError('SIM_REPORT_UNREADABLE', `the report ${file} cannot be read: ${why}`, {
      kind: 'config',
      field: 'report',
      value: file,
      remedy: 'name a report.json that `rookery sim run` wrote',
      ...(cause === undefined ? {} : { cause })
    })
  let value: unknown
  try {
    const bytes = readFileSync(file)
    if (bytes.length > REPORT_BYTES_MAX) throw new Error(`it has more than ${REPORT_BYTES_MAX} bytes`)
    value = JSON.parse(bytes.toString('utf8'))
  } catch (cause) {
    throw unreadable(cause instanceof Error ? cause.message : String(cause), cause)
  }
  const parsed = reportSchema.safeParse(value)
  if (!parsed.success) throw unreadable(`its member "${parsed.error.issues[0]?.path.join('.') ?? ''}" is missing or wrong`)
  return value as SimReport
}

import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { SimReport } from '../../../sim/index.ts'
import { EXIT_CODES, RookeryError } from '../../errors.ts'
import type { RegisterCommand } from '../context.ts'
import { bytesText, type Output } from '../output.ts'

interface SimRunOptions {
  nodes?: number
  seed?: number
  out?: string
}

export const registerSim: RegisterCommand = (program, run) => {
  const sim = program.command('sim').description('networks of real nodes in one process: scenarios, reports')
  sim
    .command('run <scenario>')
    .description('run a scenario and write report.json and report.html; exits 0 only if all that it wanted came true')
    .option('--nodes <count>', 'how many nodes (default: what the scenario says)', Number)
    .option('--seed <number>', 'decides keys and who does what (default: 1)', Number)
    .option('--out <dir>', 'where the reports go (default: sim-out/SCENARIO-NODES-SEED)')
    .addHelpText('after', '\nExample:\n  rookery sim run first-contact --nodes 100 --seed 1')
    .action((name: string, options: SimRunOptions, command) =>
      run(command, async ({ out, signal }) => {
        const { renderHtml, runScenario, scenarios } = await import('../../../sim/index.ts')
        const { SimProgress } = await import('../sim-progress.ts')
        const { nodes, seed } = options
        const folder = resolve(
          options.out ?? join('sim-out', `${safeName(name)}-${nodes ?? scenarios.get(name)?.nodes.default ?? ''}-${seed ?? 1}`)
        )
        const progress = new SimProgress(out)
        const report = await runScenario(name, {
          ...(nodes === undefined ? {} : { nodes }),
          ...(seed === undefined ? {} : { seed }),
          signal,
          onStart: () => makeFolder(folder),
          onProgress: (now) => progress.show(now)
        }).finally(() => progress.done())
        const files = { json: join(folder, 'report.json'), html: join(folder, 'report.html') }
        await save(files.json, `${JSON.stringify(report, null, 2)}\n`)
        await save(files.html, renderHtml(report))
        out.result(report, () => summary(out, report, files))
        if (out.json) out.note(`wrote ${files.json} and ${files.html}`)
        if (report.interrupted) return EXIT_CODES.interrupted
        return report.success ? EXIT_CODES.ok : EXIT_CODES.internal
      })
    )
  sim
    .command('list')
    .description('the scenarios there are')
    .addHelpText('after', '\nExample:\n  rookery sim list')
    .action((_options, command) =>
      run(command, async ({ out }) => {
        const { scenarios } = await import('../../../sim/index.ts')
        const list = [...scenarios.values()].map(({ name, description, nodes }) => ({ name, description, nodes }))
        out.result(list, () => {
          for (const { name, description, nodes } of list) {
            out.line(`${out.paint.bold(name)}  ${nodes.min} to ${nodes.max} nodes, ${nodes.default} by default`)
            out.line(`  ${description}`)
          }
        })
        return undefined
      })
    )
}

function safeName(name: string): string {
  return name.replaceAll(/[^a-z0-9-]/gi, '_').slice(0, 64)
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true })
  } catch (error) {
    throw unwritable(folder, error)
  }
}

/** Whole or not at all: a reader never meets half a report. */
async function save(file: string, text: string): Promise<void> {
  try {
    await writeFile(`${file}.tmp`, text)
    await rename(`${file}.tmp`, file)
  } catch (error) {
    throw unwritable(file, error)
  }
}

function unwritable(path: string, cause: unknown): RookeryError {
  return new RookeryError('SIM_OUT_UNWRITABLE', `cannot write ${path}: ${cause instanceof Error ? cause.message : String(cause)}`, {
    kind: 'storage',
    field: 'out',
    value: path,
    remedy: 'name a folder that you may write to with --out',
    cause
  })
}

function summary(out: Output, report: SimReport, files: { json: string; html: string }): void {
  const { join: joined, discovery, sessions, memory, eventLoop, messages } = report
  const verdict = report.success ? out.paint.green('passed') : out.paint.red(report.interrupted ? 'interrupted' : 'failed')
  out.line(`${out.paint.bold(report.scenario)}, ${report.nodes} nodes, seed ${report.seed}: ${verdict} in ${seconds(report.wallMs)}`)
  out.line('')
  out.table(
    ['PHASE', 'TIME', 'PROCESSOR'],
    report.phases.map(({ name, ms, cpuMs }) => [name, seconds(ms), seconds(cpuMs)])
  )
  out.line('')
  out.table(
    ['SHOWN', 'RESULT'],
    [
      ['joined the space', `${joined.joined} of ${joined.wanted}`],
      ['searches that found members', `${discovery.succeeded} of ${discovery.searches}`],
      ['members found by a search', `${(discovery.recall * 100).toFixed(1)} % of ${discovery.members}`],
      ['hops of a search, median and most', `${discovery.hops.p50} and ${discovery.hops.max}`],
      ['sessions that echoed an item', `${sessions.opened} of ${sessions.wanted}`],
      ['search, handshake (median)', `${discovery.latencyMs.p50} ms, ${sessions.handshakeMs.p50} ms`],
      ['sent by a node (median)', `${messages.perNode.p50} messages, ${bytesText(messages.bytesPerNode.p50)}`],
      ['memory at its highest', `${bytesText(memory.rssBytesMax)}, ${bytesText(memory.bytesPerNode)} a node`],
      ['event loop busy, delay p99', `${(eventLoop.utilization * 100).toFixed(0)} %, ${eventLoop.delayP99Ms} ms`]
    ]
  )
  if (report.checks.length > 0) {
    out.line('')
    out.table(
      ['ATTACK', 'MEASURED', 'VALUE', 'BOUND', ''],
      report.checks.map(({ attack, what, value, is, bound, holds }) => [
        attack,
        what,
        String(value),
        `${is} ${bound}`,
        holds ? out.paint.green('holds') : out.paint.red('broken')
      ])
    )
  }
  if (!report.latencyValid) out.line('\nThe event loop was saturated: latencies tell of this machine, not of a network.')
  for (const { what, node, code, message } of report.failures.slice(0, 10)) {
    out.line(`${out.paint.red('failed')}  ${what}, node ${node}: ${code}: ${message}`)
  }
  if (report.failuresCount > 10) out.line(`… and ${report.failuresCount - 10} more; see the report`)
  out.line(`\n${files.html}\n${files.json}`)
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}

import { join, resolve } from 'node:path'
import type { Definition, EngineKind, RunOptions, SimReport } from '../../../sim/index.ts'
import { EXIT_CODES } from '../../errors.ts'
import type { Invocation } from '../context.ts'
import { bytesText, type Output } from '../output.ts'
import { makeFolder, safeName, saveFile } from '../sim-files.ts'

export interface SimRunOptions {
  nodes?: number
  seed?: number
  out?: string
  engine?: EngineKind
  transport?: 'memory' | 'quic'
  time?: 'real' | 'virtual'
  threads?: number
  log?: string
  shrink?: boolean
}

/** Lines of a short list that are printed; the report has all. */
const EVENT_LINES_MAX = 30

/** Runs, writes both reports whatever comes, makes a failure short. @returns the exit code */
export async function runAndReport(
  { out, signal }: Pick<Invocation, 'out' | 'signal'>,
  definition: Definition,
  options: SimRunOptions,
  more: Pick<RunOptions, 'plan'> = {}
): Promise<number> {
  const { defaultNodes, eventLines, renderHtml, runScenario, shrinkRun } = await import('../../../sim/index.ts')
  const { SimProgress } = await import('../sim-progress.ts')
  const nodes = options.nodes ?? defaultNodes(definition)
  const seed = options.seed ?? definition.seed
  const folder = resolve(options.out ?? join('sim-out', `${safeName(definition.name)}-${nodes}-${seed}`))
  const progress = new SimProgress(out)
  const lines: string[] = []
  const runOptions: RunOptions = {
    ...more,
    nodes,
    seed,
    ...(options.engine === undefined ? {} : { engine: options.engine }),
    ...(options.transport === undefined ? {} : { transport: options.transport }),
    ...(options.time === undefined ? {} : { time: options.time }),
    ...(options.threads === undefined ? {} : { threads: options.threads }),
    ...(options.log === undefined ? {} : { onLog: (line) => void lines.push(line) }),
    signal
  }
  let report = await runScenario(definition, {
    ...runOptions,
    onStart: () => makeFolder(folder),
    onProgress: (now) => progress.show(now)
  }).finally(() => progress.done())
  if (!report.success && options.shrink !== false && !signal.aborted) {
    let left = Number.POSITIVE_INFINITY
    report = await shrinkRun(definition, runOptions, report, {
      onProgress: ({ events, ...now }) => {
        progress.show(now)
        if (events < left && now.done > 0) out.progress(`still fails with ${events} events, after ${now.done} runs`)
        left = events
      }
    }).finally(() => progress.done())
  }
  const files = { json: join(folder, 'report.json'), html: join(folder, 'report.html') }
  await saveFile(files.json, `${JSON.stringify(report, null, 2)}\n`)
  await saveFile(files.html, renderHtml(report))
  if (options.log !== undefined) await saveFile(resolve(options.log), `${lines.join('\n')}\n`)
  out.result(report, () => summary(out, report, { ...files, events: report.plan === undefined ? [] : eventLines(report.plan) }))
  if (out.json) out.note(`wrote ${files.json} and ${files.html}`)
  if (report.interrupted) return EXIT_CODES.interrupted
  return report.success ? EXIT_CODES.ok : EXIT_CODES.internal
}

function summary(out: Output, report: SimReport, files: { json: string; html: string; events: string[] }): void {
  const { join: joined, discovery, sessions, sends, memory, eventLoop, messages, model, virtual } = report
  const verdict = report.success ? out.paint.green('passed') : out.paint.red(report.interrupted ? 'interrupted' : 'failed')
  const what = report.engine === 'model' ? 'modelled nodes' : 'nodes'
  out.line(`${out.paint.bold(report.scenario)}, ${report.nodes} ${what}, seed ${report.seed}: ${verdict} in ${seconds(report.wallMs)}`)
  out.line('')
  out.table(
    ['PHASE', 'TIME', 'PROCESSOR'],
    report.phases.map(({ name, ms, cpuMs }) => [name, seconds(ms), seconds(cpuMs)])
  )
  out.line('')
  const rows: string[][] = []
  if (joined.wanted > 0) rows.push(['joined the space', `${joined.joined} of ${joined.wanted}`])
  if (discovery.searches > 0) {
    rows.push(
      ['searches that found members', `${discovery.succeeded} of ${discovery.searches}`],
      ['members found by a search', `${(discovery.recall * 100).toFixed(1)} % of ${discovery.members}`],
      ['hops of a search, median and most', `${discovery.hops.p50} and ${discovery.hops.max}`]
    )
  }
  if (sessions.wanted > 0) rows.push(['sessions that echoed an item', `${sessions.opened} of ${sessions.wanted}`])
  if (sends.wanted > 0) rows.push(['messages acknowledged', `${sends.acked} of ${sends.wanted}`])
  rows.push(
    ['search, handshake (median)', `${discovery.latencyMs.p50} ms, ${sessions.handshakeMs.p50} ms`],
    ['sent by a node (median)', `${messages.perNode.p50} messages, ${bytesText(messages.bytesPerNode.p50)}`],
    ['memory at its highest', `${bytesText(memory.rssBytesMax)}, ${bytesText(memory.bytesPerNode)} a node`]
  )
  if (virtual !== undefined) rows.push(['virtual time passed', seconds(virtual.simulatedMs)])
  else if (model === undefined)
    rows.push(['event loop busy, delay p99', `${(eventLoop.utilization * 100).toFixed(0)} %, ${eventLoop.delayP99Ms} ms`])
  else {
    rows.push(['events', `${model.events.toLocaleString('en')}, ${model.eventsPerSec.toLocaleString('en')} a second`])
    rows.push(['time simulated', seconds(model.simulatedMs)], ['event log', report.eventLog.sha256.slice(0, 16)])
  }
  out.table(['SHOWN', 'RESULT'], rows)
  out.line('')
  out.table(
    ['INVARIANT', 'STATE', 'JUDGED'],
    report.invariants.map(({ says, state, judged }) => [
      says,
      state === 'holds' ? out.paint.green('holds') : state === 'broken' ? out.paint.red('broken') : state === 'off' ? 'off' : 'not seen',
      judged.toLocaleString('en')
    ])
  )
  if (report.checks.length > 0) {
    out.line('')
    out.table(
      ['ATTACK', 'MEASURED', 'VALUE', 'BOUND', ''],
      report.checks.map(({ attack, what: measured, value, is, bound, holds }) => [
        attack,
        measured,
        String(value),
        `${is} ${bound}`,
        holds ? out.paint.green('holds') : out.paint.red('broken')
      ])
    )
  }
  for (const limit of report.machineLimits) {
    const what = limit === 'memory' ? 'Memory was nearly used up' : 'The event loop was saturated'
    out.line(`\n${what}: latencies tell of this machine, not of a network.`)
  }
  for (const { invariant, atMs, node, message } of report.broken.slice(0, 5)) {
    out.line(`${out.paint.red('broken')}  ${invariant}, ${seconds(atMs)}, node ${node}: ${message}`)
  }
  for (const { what: step, node, code, message } of report.failures.slice(0, 10)) {
    out.line(`${out.paint.red('failed')}  ${step}, node ${node}: ${code}: ${message}`)
  }
  if (report.failuresCount > 10) out.line(`… and ${report.failuresCount - 10} more; see the report`)
  if (!report.success) {
    out.line(`\nseed ${report.seed}; the same again: ${report.replay}`)
    if (report.shrunk !== undefined) {
      const { events, of, runs } = report.shrunk
      out.line(`the shortest that still fails, ${events} of ${of} events, found in ${runs} runs: rookery sim replay ${files.json}`)
      for (const line of files.events.slice(0, EVENT_LINES_MAX)) out.line(`  ${line}`)
      if (files.events.length > EVENT_LINES_MAX) out.line(`  … and ${files.events.length - EVENT_LINES_MAX} more; see the report`)
    }
  }
  out.line(`\n${files.html}\n${files.json}`)
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}

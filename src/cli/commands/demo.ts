import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RookeryError } from '../../errors.ts'
import type { RegisterCommand } from '../context.ts'
import { type DemoReport, DemoScenario, type DemoStep } from '../demo/scenario.ts'
import type { Output } from '../output.ts'

const DEMO_TIMEOUT_MS = 120_000

export const registerDemo: RegisterCommand = (program, run) => {
  program
    .command('demo')
    .description(
      'three nodes as three processes: they meet by topic, hold a session over QUIC, and deliver to an agent that slept through a kill'
    )
    .option('--keep', 'leave the nodes running and print how to talk to them')
    .addHelpText('after', '\nExample:\n  rookery demo --keep')
    .action((options: { keep?: boolean }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const folder = await mkdtemp(join(tmpdir(), 'rookery-demo-'))
        const signal = AbortSignal.any([invocation.signal, AbortSignal.timeout(DEMO_TIMEOUT_MS)])
        const scenario = new DemoScenario(folder, signal, {
          begin: (name) => out.progress(name),
          end: (step) => tell(out, step)
        })
        let keep = false
        try {
          const report = await scenario.run()
          keep = options.keep === true
          out.result(report, () => summary(out, report))
          if (keep) howToTalk(out, scenario)
          return 0
        } catch (cause) {
          if (invocation.signal.aborted) throw invocation.signal.reason
          throw new RookeryError('DEMO_FAILED', `step "${scenario.current}": ${cause instanceof Error ? cause.message : String(cause)}`, {
            kind: 'internal',
            field: scenario.current,
            cause
          })
        } finally {
          if (keep) for (const node of scenario.nodes) node.release()
          else {
            await scenario.stop()
            await rm(folder, { recursive: true, force: true })
          }
        }
      })
    )
}

function tell(out: Output, step: DemoStep): void {
  out.line(`${out.paint.green('✓')} ${step.name.padEnd(44)} ${`${Math.round(step.ms)} ms`.padStart(8)}   ${out.paint.dim(step.detail)}`)
}

function summary(out: Output, report: DemoReport): void {
  out.line('')
  out.table(
    ['SHOWN', 'RESULT'],
    [
      ['transport between nodes', report.transport],
      ['agents found by topic and by parent topic', String(report.found)],
      ['session', `${report.session}, handshake ${report.handshakeMs.toFixed(1)} ms`],
      ['sent while asleep', `HTTP ${report.asleep.status}, queued: ${report.asleep.queued}`],
      ['delivered after SIGKILL, once', report.deliveredAfterKill ? 'yes' : 'no'],
      ['identical object refused as a replay', report.replayRefused ? 'yes' : 'no'],
      ['in all', `${(report.steps.reduce((sum, step) => sum + step.ms, 0) / 1_000).toFixed(1)} s`]
    ]
  )
}

function howToTalk(out: Output, scenario: DemoScenario): void {
  out.note('\nThe nodes go on running. Talk to them, then stop them:')
  for (const node of scenario.nodes) out.note(`  rookery status --data ${node.dataDir}`)
  out.note(`  rookery find org.agentnet/marketplace --data ${scenario.a.dataDir}`)
  for (const node of scenario.nodes) out.note(`  rookery stop --data ${node.dataDir}`)
}

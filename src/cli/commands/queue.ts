import type { ControlResults, QueueEntry } from '../../api/methods.ts'
import { RookeryError } from '../../errors.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { age, bytesText, counted, type Output } from '../output.ts'
import { drainTable } from './sleep-wake.ts'

interface Of {
  agent?: string
}

export const registerQueue: RegisterCommand = (program, run) => {
  const queue = program.command('queue').description('what waits for a sleeping agent')
  queue
    .command('list')
    .description('list the queued objects by name and size; their content is sealed')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery queue list')
    .action((options: Of, command) =>
      run(command, async (invocation) => {
        const entries = await invocation.call('queue.list', options)
        invocation.out.result(entries, () => list(invocation.out, entries))
      })
    )
  queue
    .command('show <object>')
    .description('one of them: purpose, times, sizes and key, never its content')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery queue show 8f3ac1')
    .action((object: string, options: Of, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('queue.show', { object, ...options })
        invocation.out.result(view, () => show(invocation.out, view))
      })
    )
  queue
    .command('drop [object]')
    .description('drop one, or all: it is gone, and its sender is not told')
    .option('--agent <agent>', 'a local agent')
    .option('--all', 'whatever waits')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nExample:\n  rookery queue drop 8f3ac1 --yes')
    .action((object: string | undefined, { yes, all, ...options }: Of & { yes?: boolean; all?: boolean }, command) =>
      run(command, async (invocation) => {
        await confirmed(invocation, yes === true, all === true ? 'all that waits' : (object ?? 'nothing'))
        const dropped = await invocation.call('queue.drop', {
          ...options,
          ...(object === undefined ? {} : { object }),
          ...(all === true ? { all } : {})
        })
        invocation.out.result(dropped, () =>
          invocation.out.line(`${counted(dropped.dropped, 'object')} dropped, ${bytesText(dropped.bytes)} released`)
        )
      })
    )
  queue
    .command('retry')
    .description('look again at what waits and at rows that were set aside as damaged')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery queue retry')
    .action((options: Of, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const report = await invocation.call('queue.retry', options)
        out.result(report, () => {
          out.line(`${report.accepted} handed over, ${report.discarded} discarded, ${report.waiting} waiting, ${report.restored} restored`)
          drainTable(out, report)
        })
      })
    )
  queue
    .command('export')
    .description('write what waits, sealed as it is, to a file in the data directory')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery queue export --json')
    .action((options: Of, command) =>
      run(command, async (invocation) => {
        const done = await invocation.call('queue.export', options)
        invocation.out.result(done, () =>
          invocation.out.line(`${counted(done.records, 'object')}, ${bytesText(done.bytes)}, in ${done.path}`)
        )
      })
    )
}

function list(out: Output, entries: readonly QueueEntry[]): void {
  if (entries.length === 0) out.line('nothing waits')
  out.table(
    ['OBJECT', 'SIZE', 'AGE', 'EXPIRES IN', 'FROM'],
    entries.map((entry) => [
      entry.objectId,
      bytesText(entry.bytes),
      age(Date.now() - entry.enqueuedAtMs),
      age(entry.expiresAtMs - Date.now()),
      entry.issuer
    ])
  )
}

function show(out: Output, view: ControlResults['queue.show']): void {
  const date = (ms: number | undefined) => (ms === undefined ? '' : new Date(ms).toISOString())
  const rows: [string, string][] = [
    ['object', view.objectId],
    ['kind', view.kind],
    ['purpose', view.purpose ?? ''],
    ['from', view.issuer],
    ['left by', view.principal],
    ['size', bytesText(view.bytes)],
    ['issued', date(view.issuedAtMs)],
    ['came', date(view.enqueuedAtMs)],
    ['expires', date(view.expiresAtMs)],
    ['key', view.kid === undefined ? '' : `${view.kid}${view.opens === true ? '' : ' (no longer held: it cannot be opened)'}`]
  ]
  for (const [name, value] of rows) if (value !== '') out.line(`${name.padEnd(9)} ${value}`)
}

/** What cannot be taken back is asked for first; where nobody can be asked, a flag has to say so. */
async function confirmed(invocation: Invocation, isSure: boolean, what: string): Promise<void> {
  if (isSure) return
  if (await invocation.confirm(`drop ${what}? It cannot be taken back.`)) return
  throw new RookeryError('NOT_CONFIRMED', `nothing was dropped: ${what} would be gone for good`, {
    kind: 'usage',
    field: '--yes',
    remedy: 'say yes when asked on a terminal, or give --yes'
  })
}

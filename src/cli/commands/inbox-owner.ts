import type { Command } from 'commander'
import type { RunCommand } from '../context.ts'
import { age } from '../output.ts'
import { integer } from '../values.ts'

/** What the owner does about tasks beside answering them by hand. */
export function registerInboxOwner(inbox: Command, run: RunCommand): void {
  inbox
    .command('dead')
    .description('tasks whose attempts are used up: retry or drop them')
    .option('--agent <agent>', 'of one local agent')
    .option('--limit <count>', 'at most this many, oldest first', integer(1, 1_000))
    .addHelpText('after', '\nExample:\n  rookery inbox dead --agent bob')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        // `inbox` has options of these names too, and takes them wherever they stand
        const { agent, limit } = command.optsWithGlobals() as { agent?: string; limit?: number }
        const letters = await invocation.call('inbox.dead', {
          ...(agent === undefined ? {} : { agent }),
          ...(limit === undefined ? {} : { limit })
        })
        out.result(letters, () => {
          if (letters.length === 0) return out.line('no dead letters')
          const rows = letters.map((one) => [
            one.id,
            one.agent,
            String(one.attempts),
            age(Date.now() - one.deadAtMs),
            one.reason.replaceAll(/\s+/g, ' ').slice(0, 60)
          ])
          out.table(['ID', 'AGENT', 'ATTEMPTS', 'AGE', 'REASON'], rows)
        })
      })
    )
  inbox
    .command('retry <id>')
    .description('try a failed task anew, as another task of the same caller')
    .addHelpText('after', '\nExample:\n  rookery inbox retry 0199b2c0-…')
    .action((id: string, _options, command) =>
      run(command, async (invocation) => {
        const again = await invocation.call('inbox.retry', { id })
        invocation.out.result(again, () => invocation.out.line(`${again.todo.id}  ${again.todo.state}, in place of ${id}`))
      })
    )
  inbox
    .command('drop <id>')
    .description('take a task off the dead letters; it stays failed')
    .addHelpText('after', '\nExample:\n  rookery inbox drop 0199b2c0-…')
    .action((id: string, _options, command) =>
      run(command, async (invocation) => {
        const gone = await invocation.call('inbox.drop', { id })
        invocation.out.result(gone, () => invocation.out.line(`${gone.dropped}  dropped`))
      })
    )
  inbox
    .command('reject <id>')
    .description('refuse a task that has not ended')
    .requiredOption('--reason <text>', 'told to the caller')
    .addHelpText('after', '\nExample:\n  rookery inbox reject 0199b2c0-… --reason "not our business"')
    .action((id: string, options: { reason: string }, command) =>
      run(command, async (invocation) => {
        const done = await invocation.call('inbox.reject', { id, ...options })
        invocation.out.result(done, () => invocation.out.line(`${done.todo.id}  ${done.todo.state}`))
      })
    )
  inbox
    .command('trail <id>')
    .description('what happened to a task, by whom and by which protocol')
    .addHelpText('after', '\nExample:\n  rookery inbox trail 0199b2c0-…')
    .action((id: string, _options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const trail = await invocation.call('inbox.trail', { id })
        out.result(trail, () => {
          const rows = trail.events.map((one) => [
            String(one.n),
            new Date(one.atMs).toISOString(),
            one.kind,
            one.state,
            one.door,
            one.who ?? '',
            (one.reason ?? '').slice(0, 60)
          ])
          out.table(['N', 'TIME', 'WHAT', 'STATE', 'BY', 'WHO', 'WHY'], rows)
          for (const late of trail.late) out.line(`too late: ${late.act} by ${late.holder}, ${late.bytes} bytes, sha-256 ${late.digest}`)
        })
      })
    )
}

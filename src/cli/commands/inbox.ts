import { Option } from 'commander'
import type { RegisterCommand } from '../context.ts'
import { age } from '../output.ts'
import { integer } from '../values.ts'
import { registerInboxOwner } from './inbox-owner.ts'

const STATES = ['pending', 'claimed', 'input-required', 'auth-required', 'done', 'failed', 'canceled', 'rejected'] as const

export const registerInbox: RegisterCommand = (program, run) => {
  const inbox = program
    .command('inbox')
    .description('work that came in for the local agents')
    .option('--agent <agent>', 'a local agent')
    .addOption(new Option('--state <state>', 'only these').choices(STATES))
    .option('--limit <count>', 'at most this many, newest first', integer(1, 1_000))
    .addHelpText('after', '\nExample:\n  rookery inbox --state pending')
    .action((options: { agent?: string; state?: (typeof STATES)[number]; limit?: number }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const entries = await invocation.call('inbox.list', options)
        out.result(entries, () => {
          if (entries.length === 0) out.line('nothing here')
          out.table(
            ['ID', 'AGENT', 'STATE', 'AGE', 'VIA', 'TEXT'],
            entries.map((one) => [
              one.id,
              one.agent,
              one.approval === 'needed' ? `${one.state} (approve?)` : one.state,
              age(Date.now() - one.createdAtMs),
              one.door,
              one.preview.replaceAll(/\s+/g, ' ').slice(0, 60)
            ])
          )
        })
      })
    )
  inbox
    .command('show <id>')
    .description('one task, whole')
    .addHelpText('after', '\nExample:\n  rookery inbox show 0199b2c0-…')
    .action((id: string, _options, command) =>
      run(command, async (invocation) => {
        const shown = await invocation.call('inbox.show', { id })
        invocation.out.result(shown, () => invocation.out.line(JSON.stringify(shown.task, null, 2)))
      })
    )
  inbox
    .command('complete <id>')
    .description('answer a task of a manual agent')
    .option('-t, --text <text>', 'the answer')
    .addHelpText('after', '\nExample:\n  rookery inbox complete 0199b2c0-… --text "31 cents a kilowatt-hour"')
    .action((id: string, options: { text?: string }, command) =>
      run(command, async (invocation) => {
        const done = await invocation.call('inbox.complete', { id, ...options })
        invocation.out.result(done, () => invocation.out.line(`${done.todo.id}  ${done.todo.state}`))
      })
    )
  inbox
    .command('fail <id>')
    .description('give a task up')
    .requiredOption('--reason <text>', 'told to the caller')
    .addHelpText('after', '\nExample:\n  rookery inbox fail 0199b2c0-… --reason "no data for that place"')
    .action((id: string, options: { reason: string }, command) =>
      run(command, async (invocation) => {
        const done = await invocation.call('inbox.fail', { id, ...options })
        invocation.out.result(done, () => invocation.out.line(`${done.todo.id}  ${done.todo.state}`))
      })
    )
  inbox
    .command('approve <id>')
    .description('let work from the asleep queue run that may have lasting effects')
    .option('--refuse', 'refuse it instead')
    .addHelpText('after', '\nExample:\n  rookery inbox approve 0199b2c0-…')
    .action((id: string, options: { refuse?: boolean }, command) =>
      run(command, async (invocation) => {
        const done = await invocation.call('inbox.approve', { id, verdict: options.refuse === true ? 'refused' : 'given' })
        invocation.out.result(done, () =>
          invocation.out.line(`${done.todo.id}  ${done.todo.state}, approval ${done.todo.approval ?? 'none'}`)
        )
      })
    )
  registerInboxOwner(inbox, run)
}

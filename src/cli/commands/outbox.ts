import type { OutboxDetails, OutboxView } from '../../api/outbox-methods.ts'
import type { RegisterCommand } from '../context.ts'
import { age, bytesText, counted, type Output } from '../output.ts'

export const registerOutbox: RegisterCommand = (program, run) => {
  const outbox = program.command('outbox').description('what our agents undertook to deliver, and what became of it')
  outbox
    .command('list')
    .description('list the messages with their states, in the order in which they were handed over')
    .option('--agent <agent>', 'of one local agent')
    .option('--open', 'only what is not delivered yet')
    .addHelpText('after', '\nExample:\n  rookery outbox list --open')
    .action((options: { agent?: string; open?: boolean }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('outbox.list', options)
        out.result(result, () => {
          if (result.messages.length === 0) out.line('the outbox is empty')
          else table(out, result.messages)
          out.note(
            `${counted(result.waiting, 'message')} not delivered yet, ${bytesText(result.bytes)} of ${bytesText(result.bounds.bytesMax)}`
          )
          if (result.damaged > 0) out.note(`${counted(result.damaged, 'message')} cannot be read: the disk is damaged there`)
        })
      })
    )
  outbox
    .command('show <message>')
    .description('one of them, with who signed that it holds it')
    .addHelpText('after', '\nExample:\n  rookery outbox show 8f3ac1')
    .action((id: string, _options: object, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('outbox.show', { id })
        invocation.out.result(view, () => show(invocation.out, view))
      })
    )
  outbox
    .command('retry [message]')
    .description('try now, whatever the next attempt is due')
    .option('--all', 'whatever waits')
    .addHelpText('after', '\nExample:\n  rookery outbox retry --all')
    .action((id: string | undefined, { all }: { all?: boolean }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const { messages } = await invocation.call('outbox.retry', {
          ...(id === undefined ? {} : { id }),
          ...(all === true ? { all } : {})
        })
        out.result({ messages }, () => (messages.length === 0 ? out.line('nothing waits') : table(out, messages)))
      })
    )
  outbox
    .command('drop <message>')
    .description('let go of one: nothing more is tried; what is kept elsewhere may still be delivered')
    .addHelpText('after', '\nExample:\n  rookery outbox drop 8f3ac1')
    .action((id: string, _options: object, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('outbox.drop', { id })
        invocation.out.result(result, () => invocation.out.line(`${result.dropped} dropped`))
      })
    )
  outbox
    .command('watch')
    .description('a line for every change of a state, until Ctrl-C')
    .option('--agent <agent>', 'of one local agent')
    .addHelpText('after', '\nExample:\n  rookery outbox watch --json')
    .action((options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const { out, signal } = invocation
        const onEvent = (event: unknown) => {
          const view = event as OutboxView & { before?: string }
          out.jsonLine(view)
          out.line(`${view.id}  ${view.before === undefined ? '' : `${view.before} → `}${view.state}  ${view.to}`)
        }
        try {
          await invocation.call('outbox.watch', options, { progress: 'quiet', onEvent })
        } catch (error) {
          if (!signal.aborted) throw error
        }
        return undefined
      })
    )
}

function table(out: Output, messages: readonly OutboxView[]): void {
  out.table(
    ['MESSAGE', 'STATE', 'AGE', 'NEXT TRY', 'WHY', 'TO'],
    messages.map((one) => [
      one.id,
      one.state,
      age(Date.now() - one.acceptedAtMs),
      one.nextAttemptAtMs === undefined ? '' : age(Math.max(0, one.nextAttemptAtMs - Date.now())),
      one.lastError ?? '',
      one.to
    ])
  )
}

function show(out: Output, view: OutboxDetails): void {
  const date = (ms: number | undefined) => (ms === undefined ? '' : new Date(ms).toISOString())
  const rows: [string, string][] = [
    ['message', view.id],
    ['state', view.state],
    ['since', date(view.changedAtMs)],
    ['messageId', view.messageId],
    ['from', view.agent],
    ['to', view.to],
    ['size', bytesText(view.bytes)],
    ['accepted', date(view.acceptedAtMs)],
    ['expires', date(view.expiresAtMs)],
    ['next try', date(view.nextAttemptAtMs)],
    ['why', view.lastError ?? ''],
    ['task', view.task ?? ''],
    ...view.keepers.map((keeper): [string, string] => ['kept by', keeper]),
    ['confirmed', view.confirmationHex === undefined ? '' : 'signed by the audience']
  ]
  for (const [name, value] of rows) if (value !== '') out.line(`${name.padEnd(10)} ${value}`)
}

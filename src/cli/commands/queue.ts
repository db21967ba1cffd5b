import type { RegisterCommand } from '../context.ts'
import { age, bytesText } from '../output.ts'

export const registerQueue: RegisterCommand = (program, run) => {
  program
    .command('queue')
    .description('what waits for a sleeping agent')
    .command('list')
    .description('list the queued objects by name and size; their content is sealed')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery queue list')
    .action((options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const entries = await invocation.call('queue.list', options)
        out.result(entries, () => {
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
        })
      })
    )
}

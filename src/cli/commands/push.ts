import { Option } from 'commander'
import type { RegisterCommand } from '../context.ts'
import { age, counted } from '../output.ts'

type State = 'active' | 'done' | 'given-up'

export const registerPush: RegisterCommand = (program, run) => {
  const push = program.command('push').description('webhooks that callers asked to be told by of their tasks')
  push
    .command('list')
    .description('which there are, and what became of them')
    .addOption(new Option('--state <state>', 'those alone').choices(['active', 'done', 'given-up']))
    .addHelpText('after', '\nExample:\n  rookery push list --state given-up --json')
    .action(({ state }: { state?: State }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('push.list', state === undefined ? {} : { state })
        out.result(result, () => {
          if (!result.enabled) out.line('push notifications are off: see `rookery config show push.enabled`')
          out.table(
            ['TASK', 'ID', 'AGENT', 'STATE', 'TOLD', 'TRIES', 'NEXT TRY', 'WHY', 'URL'],
            result.configs.map((one) => [
              one.task,
              one.id,
              one.agent,
              one.state,
              String(one.told),
              String(one.attempts),
              one.nextAttemptAtMs === undefined ? '' : age(Math.max(0, one.nextAttemptAtMs - Date.now())),
              one.lastError ?? '',
              one.url
            ])
          )
          out.line(
            `${counted(result.delivered, 'notification')} delivered since the start, ${result.failed} tries failed, ${result.givenUp} given up`
          )
        })
      })
    )
  push
    .command('retry <task> <id>')
    .description('try one again now, as if it had not failed')
    .addHelpText('after', '\nExample:\n  rookery push retry 0b9c… 5f02c1d4a7e69b38')
    .action((task: string, id: string, _options, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('push.retry', { task, id })
        invocation.out.result(result, () => invocation.out.line(`webhook ${result.id} of ${result.task} is tried again`))
      })
    )
}

import type { RegisterCommand } from '../context.ts'
import { age, counted } from '../output.ts'
import { list } from '../values.ts'

export const registerSpace: RegisterCommand = (program, run) => {
  const space = program.command('space').description('discovery spaces: topics that agents announce and join')
  space
    .command('announce <name>')
    .description('announce a space, ns/topic@version, as its curator')
    .option('--agent <agent>', 'the curator, a local agent')
    .option('--description <text>', 'at most 256 bytes')
    .addHelpText('after', '\nExample:\n  rookery space announce org.agentnet/marketplace.energy@1 --description "who buys and sells power"')
    .action((name: string, options: { agent?: string; description?: string }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('space.announce', { name, ...options })
        invocation.out.result(view, () =>
          invocation.out.line(
            `announced ${invocation.out.paint.bold(view.name)} at ${view.stored} of ${counted(view.registrars, 'registrar')}, for ${age(view.expiresAtMs - Date.now())}`
          )
        )
      })
    )
  space
    .command('join <name>')
    .description('join a space; others then find the agent there')
    .option('--agent <agent>', 'the member, a local agent')
    .option('--tags <tags>', 'what the agent offers there, comma-separated', list)
    .addHelpText('after', '\nExample:\n  rookery space join org.agentnet/marketplace.energy@1 --tags seller,solar')
    .action((name: string, options: { agent?: string; tags?: string[] }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('space.join', { name, ...options })
        invocation.out.result(view, () =>
          invocation.out.line(
            `joined ${invocation.out.paint.bold(view.space)} at ${view.stored} of ${counted(view.registrars, 'registrar')}; refreshed while the node runs`
          )
        )
      })
    )
  space
    .command('leave <name>')
    .description('leave a space, and withdraw its announcement if the agent curates it')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery space leave org.agentnet/marketplace.energy@1')
    .action((name: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('space.leave', { name, ...options })
        invocation.out.result(result, () => invocation.out.line(`left ${result.name}`))
      })
    )
  space
    .command('list')
    .description('what the local agents announced and joined')
    .addHelpText('after', '\nExample:\n  rookery space list')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const spaces = await invocation.call('space.list', {})
        invocation.out.result(spaces, () => {
          if (spaces.length === 0) invocation.out.line('none yet: rookery space join NS/TOPIC@VERSION')
          invocation.out.table(
            ['SPACE', 'ROLE', 'AGENT', 'REFRESHED', 'EXPIRES IN'],
            spaces.map((one) => [
              one.name,
              one.role,
              one.agent,
              `${age(Date.now() - one.refreshedAtMs)} ago`,
              age(one.expiresAtMs - Date.now())
            ])
          )
        })
      })
    )
}

import type { RegisterCommand } from '../context.ts'

export const registerReload: RegisterCommand = (program, run) => {
  program
    .command('reload')
    .description('have the running node read its configuration again: what may change at once does, the rest is named')
    .addHelpText('after', '\nExample:\n  rookery reload --json')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('reload', {})
        out.result(result, () => {
          const changed = Object.entries(result.changed)
          if (changed.length === 0) out.line('nothing that can change while the node runs is different')
          for (const [name, { from, to }] of changed) out.line(`${name}  ${JSON.stringify(from)} → ${JSON.stringify(to)}`)
          if (result.atRestart.length > 0) out.line(`at the next start: ${result.atRestart.join(', ')}`)
        })
      })
    )
}

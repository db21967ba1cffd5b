import type { Command } from 'commander'
import type { RunCommand } from '../context.ts'
import { age, counted } from '../output.ts'
import { durationMs, integer, list } from '../values.ts'

/** What a curator does with a space of its own. */
export function registerCuration(space: Command, run: RunCommand): void {
  space
    .command('announce <name>')
    .description('announce a space, ns/topic@version, as its curator; takes one over that is offered to this agent')
    .option('--agent <agent>', 'the curator, a local agent')
    .option('--description <text>', 'at most 256 bytes')
    .option('--seeds <addresses>', 'up to 8 multiaddrs of peers that know members, comma-separated', list)
    .option('--shards <count>', 'for a space known to be big: 2, 4 … 256 parts; otherwise the node decides', integer(1, 256))
    .addHelpText('after', '\nExample:\n  rookery space announce org.agentnet/marketplace.energy@1 --description "who buys and sells power"')
    .action((name: string, options: { agent?: string; description?: string; seeds?: string[]; shards?: number }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const view = await invocation.call('space.announce', { name, ...options })
        out.result(view, () => {
          out.line(
            `announced ${out.paint.bold(view.name)} at ${view.stored} of ${counted(view.registrars, 'registrar')}, for ${age(view.expiresAtMs - Date.now())}`
          )
          if (view.contested) out.note(`others announce ${view.name} too; members tell you apart by ${view.name}#${view.curator}`)
        })
      })
    )
  space
    .command('update <name>')
    .description('change the description or the seeds of a space and keep the rest')
    .option('--agent <agent>', 'the curator, a local agent')
    .option('--description <text>', 'at most 256 bytes')
    .option('--seeds <addresses>', 'up to 8 multiaddrs, comma-separated', list)
    .addHelpText('after', '\nExample:\n  rookery space update org.agentnet/marketplace.energy@1 --description "power, by the hour"')
    .action((name: string, options: { agent?: string; description?: string; seeds?: string[] }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const view = await invocation.call('space.update', { name, ...options })
        out.result(view, () =>
          out.line(`updated ${out.paint.bold(view.name)} at ${view.stored} of ${counted(view.registrars, 'registrar')}`)
        )
      })
    )
  space
    .command('handover <name> <to>')
    .description('offer a space to another curator, by DID; "nobody" takes the offer back')
    .option('--agent <agent>', 'the curator, a local agent')
    .addHelpText('after', '\nExample:\n  rookery space handover org.agentnet/marketplace.energy@1 did:key:z6Mk…')
    .action((name: string, to: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const view = await invocation.call('space.handover', { name, to, ...options })
        out.result(view, () => {
          if (view.state === 'kept') out.line(`${view.name} stays with ${view.curator}`)
          else if (view.state === 'done') out.line(`${view.name} is curated by ${view.curator}`)
          else out.line(`offered ${view.name} to ${view.to}\nit takes the space with: rookery space announce ${view.name}`)
        })
      })
    )
  space
    .command('tombstone <name>')
    .description('withdraw an announcement; who joined is found no more')
    .option('--agent <agent>', 'the curator, a local agent')
    .addHelpText('after', '\nExample:\n  rookery space tombstone org.agentnet/marketplace.energy@1')
    .action((name: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('space.tombstone', { name, ...options })
        out.result(result, () => out.line(`withdrew ${result.name}`))
      })
    )
  space
    .command('prune <name> <member>')
    .description('hide a member, by DID, from the listings of a space')
    .option('--agent <agent>', 'the curator, a local agent')
    .option('--for <duration>', 'how long, 1d by default', durationMs)
    .option('--undo', 'list it again')
    .addHelpText('after', '\nExample:\n  rookery space prune org.agentnet/marketplace.energy@1 did:key:z6Mk… --for 30d')
    .action((name: string, member: string, options: { agent?: string; for?: number; undo?: true }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const { agent, for: forMs, undo } = options
        const untilMs = undo === true ? ('shown' as const) : forMs === undefined ? undefined : Date.now() + forMs
        const view = await invocation.call('space.prune', {
          name,
          member,
          ...(agent === undefined ? {} : { agent }),
          ...(untilMs === undefined ? {} : { untilMs })
        })
        out.result(view, () => {
          const where = `at ${view.stored} of ${counted(view.registrars, 'registrar')}`
          out.line(
            undo === true
              ? `${view.member} is listed in ${view.space} again, ${where}`
              : `${view.member} is hidden from ${view.space} for ${age(view.untilMs - Date.now())}, ${where}`
          )
        })
      })
    )
}

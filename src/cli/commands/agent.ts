import { Option } from 'commander'
import { REACHABILITY_MODES, type ReachabilityMode } from '../../../protocol/delivery/modes.ts'
import type { RegisterCommand } from '../context.ts'
import { handlerOf } from './init.ts'

export const registerAgent: RegisterCommand = (program, run) => {
  const agent = program.command('agent').description('the agents that this node hosts')
  agent
    .command('add <name>')
    .description('create an agent: an identity, a mailbox and an A2A endpoint')
    .option('--description <text>', 'what it does, shown on its card')
    .option(
      '--handler <handler>',
      'manual, echo, digest, or the path of an ES module whose default export handles tasks',
      handlerOf,
      'manual'
    )
    .addOption(new Option('--mode <mode>', 'how it can be reached').choices(REACHABILITY_MODES))
    .addHelpText('after', '\nExample:\n  rookery agent add weather --description "forecasts for a place" --handler ./weather.mjs')
    .action((name: string, options: { description?: string; handler: string; mode?: ReachabilityMode }, command) =>
      run(command, async (invocation) => {
        const { description, handler, mode } = options
        const view = await invocation.call('agent.add', {
          name,
          handler,
          ...(description !== undefined ? { description } : {}),
          ...(mode !== undefined ? { mode } : {})
        })
        invocation.out.result(view, () => {
          invocation.out.line(`added ${invocation.out.paint.bold(view.name)}  ${view.did}`)
          if (view.url !== undefined) invocation.out.line(`A2A    ${view.url}`)
          if (view.tokenFile !== undefined) invocation.out.line(`token  in ${view.tokenFile}`)
        })
      })
    )
  agent
    .command('rotate <name>')
    .description('give an agent another identity; what it owns stays, its peers are told in their sessions')
    .addHelpText(
      'after',
      `
The new DID is published and the old one withdrawn for good; each session's peer gets a certificate signed by both keys. The old secret is
destroyed once all have acknowledged, after 24 hours at most. Name, token, tasks, queue and mailbox stay; the URL changes with the DID.

Example:
  rookery agent rotate weather --json`
    )
    .action((name: string, _options, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('agent.rotate', { name })
        invocation.out.result(view, () => {
          invocation.out.line(`rotated ${invocation.out.paint.bold(view.name)}`)
          invocation.out.line(`was    ${view.oldDid}`)
          invocation.out.line(`is     ${view.did}`)
          if (view.url !== undefined) invocation.out.line(`A2A    ${view.url}`)
          if (view.unacknowledged > 0) invocation.out.line('some peers have not acknowledged it yet: they are told when they are met again')
        })
      })
    )
  agent
    .command('list')
    .description('list them')
    .addHelpText('after', '\nExample:\n  rookery agent list --json')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const agents = await invocation.call('agent.list', {})
        invocation.out.result(agents, () => {
          if (agents.length === 0) invocation.out.line('no agents yet: rookery agent add NAME')
          invocation.out.table(
            ['AGENT', 'MODE', 'HANDLER', 'QUEUED', 'DID'],
            agents.map((one) => [one.name + (one.isDefault ? ' *' : ''), one.mode, one.handler, String(one.queue.messages), one.did])
          )
        })
      })
    )
}

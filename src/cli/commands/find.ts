import { Option } from 'commander'
import { REACHABILITY_MODES, type ReachabilityMode } from '../../../protocol/delivery/modes.ts'
import type { FindResult } from '../../spaces/spaces.ts'
import type { RegisterCommand } from '../context.ts'
import { counted, type Output } from '../output.ts'
import { integer, list } from '../values.ts'

export const registerFind: RegisterCommand = (program, run) => {
  program
    .command('find <name>')
    .description('find agents by topic: ns/topic@version for one space, ns/topic for a topic and all below it')
    .option('--tags <tags>', 'all of these, comma-separated', list)
    .addOption(new Option('--mode <mode>', 'only agents of this reachability').choices(REACHABILITY_MODES))
    .option('--limit <count>', 'stop at this many', integer(1, 1_000))
    .addHelpText('after', '\nExample:\n  rookery find org.agentnet/marketplace --tags seller')
    .action((name: string, options: { tags?: string[]; mode?: ReachabilityMode; limit?: number }, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('find', { name, ...options })
        invocation.out.result(result, () => print(invocation.out, result))
      })
    )
  program
    .command('resolve <did>')
    .description("look up an agent's locator: where it is, when it is reachable")
    .addHelpText('after', '\nExample:\n  rookery resolve did:key:z6Mk…')
    .action((did: string, _options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const locator = await invocation.call('resolve', { did })
        out.result(locator, () => {
          out.line(`${out.paint.bold(locator.did)}\nmode  ${locator.mode}\npeer  ${locator.address.peer}`)
          for (const address of locator.address.addrs) out.line(`      ${address}`)
        })
      })
    )
}

function print(out: Output, result: FindResult): void {
  out.table(
    ['AGENT', 'SPACE', 'MODE', 'TAGS'],
    result.members.map((member) => [member.did, member.space, member.mode, member.tags.join(',')])
  )
  const contested = result.spaces.filter((space) => space.contested)
  for (const space of contested) out.note(`${space.name} is contested: several curators are alive; pin one with ${space.name}#did:key:…`)
  const { registrars } = result
  out.note(
    `${counted(result.members.length, 'agent')} in ${counted(result.spaces.length, 'space')}, from ${registrars.answered} of ${counted(registrars.known, 'registrar')}, ${Math.round(result.elapsedMs)} ms${result.complete ? '' : '; incomplete: too few registrars answered'}`
  )
}

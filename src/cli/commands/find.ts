import { Option } from 'commander'
import { REACHABILITY_MODES, type ReachabilityMode } from '../../../protocol/delivery/modes.ts'
import { CONTROL_BOUNDS, type ControlParams } from '../../api/methods.ts'
import type { FindResult } from '../../spaces/spaces.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { counted, type Output } from '../output.ts'
import { durationMs, integer, list } from '../values.ts'
import { MEMBER_HEAD, memberRow, trustText } from './find-text.ts'
import { watchFind } from './find-watch.ts'
import { availability } from './mode.ts'

const WATCH_MS = 5_000

interface FindOptions {
  tags?: string[]
  mode?: ReachabilityMode
  limit?: number
  page?: number
  cursor?: string
  watch?: true
  every?: number
}

export const registerFind: RegisterCommand = (program, run) => {
  program
    .command('find <name>')
    .description('find agents by topic: ns/topic@version for one space, ns/topic for a topic and all below it')
    .option('--tags <tags>', 'all of these, comma-separated', list)
    .addOption(new Option('--mode <mode>', 'only agents of this reachability').choices(REACHABILITY_MODES))
    .addOption(
      new Option('--limit <count>', 'stop at this many')
        .argParser(integer(1, CONTROL_BOUNDS.listMax))
        .conflicts(['page', 'cursor', 'watch'])
    )
    .option('--page <size>', 'so many and the cursor of the next page; without it all', integer(1, CONTROL_BOUNDS.listMax))
    .option('--cursor <cursor>', 'the page behind this cursor')
    .addOption(new Option('--watch', 'go on until Ctrl-C and tell who comes, goes and changes').conflicts(['page', 'cursor']))
    .option('--every <duration>', 'with --watch: how often to search, 5s by default', durationMs)
    .addHelpText(
      'after',
      `
Example:
  rookery find org.agentnet/marketplace --tags seller
  rookery find org.agentnet/marketplace.energy@1#did:key:z6Mk… --mode always_on
  rookery find org.agentnet/marketplace --watch --json`
    )
    .action((name: string, options: FindOptions, command) =>
      run(command, async (invocation) => {
        const { tags, mode, limit, page, cursor, watch, every } = options
        const query = { name, ...(tags === undefined ? {} : { tags }), ...(mode === undefined ? {} : { mode }) }
        if (watch === true) return await watchFind(invocation, () => findAll(invocation, query, 'quiet'), every ?? WATCH_MS)
        const inPages = page !== undefined || cursor !== undefined
        const params: ControlParams<'find'> = {
          ...query,
          ...(limit === undefined ? {} : { limit }),
          ...(inPages ? { page: { size: page ?? CONTROL_BOUNDS.listMax, ...(cursor === undefined ? {} : { after: cursor }) } } : {})
        }
        const result = inPages || limit !== undefined ? await invocation.call('find', params) : await findAll(invocation, query)
        invocation.out.result(result, () => print(invocation.out, result))
        return undefined
      })
    )
  program
    .command('resolve <did>')
    .description("look up an agent's locator: where it is, when it is reachable")
    .option('--fresh', 'ask the network, also where this node remembers an answer')
    .addHelpText('after', '\nExample:\n  rookery resolve did:key:z6Mk… --fresh')
    .action((did: string, { fresh }: { fresh?: true }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const locator = await invocation.call('resolve', { did, ...(fresh === undefined ? {} : { fresh }) })
        out.result(locator, () => {
          out.line(
            `${out.paint.bold(locator.did)}\nmode  ${locator.mode}${availability(locator, Date.now())}\npeer  ${locator.address.peer}`
          )
          for (const address of locator.address.addrs) out.line(`      ${address}`)
        })
      })
    )
}

/** All pages of one search. */
async function findAll(
  invocation: Invocation,
  query: Omit<ControlParams<'find'>, 'limit' | 'page'>,
  progress: 'shown' | 'quiet' = 'shown'
): Promise<FindResult> {
  const first = await invocation.call('find', query, { progress })
  const members = [...first.members]
  for (let after = first.next; after !== undefined; ) {
    const page = await invocation.call('find', { ...query, page: { size: CONTROL_BOUNDS.listMax, after } }, { progress })
    for (const member of page.members) members.push(member)
    after = page.next
  }
  const { next: _, ...whole } = first
  return { ...whole, members }
}

function print(out: Output, result: FindResult): void {
  const nowMs = Date.now()
  out.table(
    MEMBER_HEAD,
    result.members.map((member) => memberRow(member, nowMs))
  )
  const { registrars, spaces } = result
  if (spaces.length === 0)
    out.note('nobody has announced it, or its curator is not the one that this node follows: see `rookery space show`')
  for (const space of spaces) {
    if (space.contested) out.note(`${space.name} is contested: several curators are alive; pin one with ${space.name}#${space.curator}`)
    if (space.known === 'dht') out.note(`${space.name} is known from the DHT alone: no registrar has its announcement`)
  }
  if (spaces.length === 1 && spaces[0] !== undefined)
    out.note(`${spaces[0].name} is curated by ${spaces[0].curator} (${trustText(spaces[0].trust)})`)
  if (result.pruned > 0) out.note(`${counted(result.pruned, 'agent')} left out: pruned by the curator`)
  const incomplete = result.complete ? '' : '; incomplete: too few registrars answered, or there are more than one search holds'
  out.note(
    `${counted(result.members.length, 'agent')} in ${counted(spaces.length, 'space')}, from ${registrars.answered} of ${counted(registrars.known, 'registrar')}, ${Math.round(result.elapsedMs)} ms${incomplete}`
  )
  if (result.next !== undefined) out.note(`there are more: --cursor ${result.next}`)
}

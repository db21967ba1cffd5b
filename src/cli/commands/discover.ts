import { Option } from 'commander'
import { REACHABILITY_MODES, type ReachabilityMode } from '../../../protocol/delivery/modes.ts'
import type { ControlParams, DiscoverEventView, DiscoveredView, DiscoverResult } from '../../api/methods.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { counted, type Output } from '../output.ts'
import { integer, list } from '../values.ts'
import { WorkBar } from '../work-bar.ts'

const WANTS = ['records', 'contact', 'both'] as const

interface DiscoverFlags {
  anonymous?: true
  tags?: string[]
  mode?: ReachabilityMode
  minReputation?: number
  want?: (typeof WANTS)[number]
  fanOut?: number
  shards?: number
}

export const registerDiscover: RegisterCommand = (program, run) => {
  program
    .command('discover <name>')
    .description('find agents without showing who searches: a space, or a point (did:key:…/TAG); the request costs some work')
    .option('--anonymous', 'what this command does in any case; `rookery find` searches openly')
    .option('--tags <tags>', 'all of these, comma-separated', list)
    .addOption(new Option('--mode <mode>', 'only agents of this reachability').choices(REACHABILITY_MODES))
    .option('--min-reputation <0-100>', 'as the nodes on the way know it', integer(0, 100))
    .addOption(new Option('--want <what>', 'public records, contact with the agents themselves, or both').choices(WANTS))
    .option('--fan-out <count>', 'how widely to ask, 6 by default', integer(1, 16))
    .option('--shards <count>', 'parts of the space, where you know it: registrars are not asked for it first', integer(1, 256))
    .addHelpText(
      'after',
      `
Example:
  rookery discover org.agentnet/marketplace.energy@1 --anonymous --tags solar
  rookery discover did:key:z6Mk…/printer --want contact --json`
    )
    .action((name: string, flags: DiscoverFlags, command) =>
      run(command, async (invocation) => {
        const { anonymous: _, ...options } = flags
        const result = await search(invocation, { ...aimedAt(name), ...options })
        invocation.out.result(result, () => summarize(invocation.out, result))
        return undefined
      })
    )
}

/** A point is written as a DID and a tag; anything else is a space. */
function aimedAt(name: string): Pick<ControlParams<'discover'>, 'name' | 'point'> {
  if (!name.startsWith('did:')) return { name }
  const slash = name.indexOf('/')
  return { point: { did: slash < 0 ? name : name.slice(0, slash), tag: slash < 0 ? '' : name.slice(slash + 1) } }
}

async function search(invocation: Invocation, params: ControlParams<'discover'>): Promise<DiscoverResult> {
  const { out } = invocation
  const bar = new WorkBar(out)
  const shown = new Set<string>()
  const show = (found: DiscoveredView) => {
    if (shown.has(`${found.kind} ${found.did}`)) return
    shown.add(`${found.kind} ${found.did}`)
    bar.done()
    out.line([out.paint.bold(found.did), found.kind, found.mode ?? '', found.tags.join(',')].join('  ').trimEnd())
  }
  const onEvent = (event: DiscoverEventView) => {
    if (event.kind === 'solving') return bar.show(event.progress)
    bar.done()
    if (event.kind === 'found') return show(event.found)
    if (event.kind === 'harder') return out.note(`a node on the way asks for ${event.difficulty} bits: searching again with a new key`)
    if (event.kind === 'parts') return out.note(`the space has ${event.shards} parts: asking one of them, with a new key`)
    if (event.path === 'small')
      out.note('the network is too small for a stem: the first hop may be a registrar of this space, which sees your PeerId')
    if (event.path === 'direct') out.note('no peer can carry the request: registrars of this space see your PeerId')
    out.progress('asking')
  }
  try {
    const result = await invocation.call('discover', params, { onEvent: (event) => onEvent(event as DiscoverEventView) })
    for (const found of result.found) show(found) // what was not told on the way
    return result
  } finally {
    bar.done()
  }
}

function summarize(out: Output, { found, difficulty, tries, elapsedMs }: DiscoverResult): void {
  const members = found.filter(({ kind }) => kind === 'member').length
  const agents = new Set(found.map(({ did }) => did)).size
  out.note(
    `${counted(agents, 'agent')}, ${members} answered themselves; ${difficulty} bits of work, about ${tries.toLocaleString('en')} tries; ${elapsedMs} ms`
  )
}

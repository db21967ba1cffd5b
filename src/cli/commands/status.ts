import type { NodeStatus } from '../../api/methods.ts'
import { RookeryError } from '../../errors.ts'
import { boundText } from '../../ops/bounds.ts'
import { systemClock } from '../../platform/clock.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { joinAddresses } from '../join-addresses.ts'
import { age, bytesText, counted, type Output } from '../output.ts'
import { durationMs, pause } from '../values.ts'

const ASK_AGAIN_MS = 100
/** as many as fit a screen; a node can have thousands */
const SPACES_SHOWN = 20

export const registerStatus: RegisterCommand = (program, run) => {
  program
    .command('status')
    .description('what the running node is, knows and holds')
    .option('--wait <duration>', 'wait so long for a node that is about to start', durationMs, 0)
    .option('--join', 'print only the addresses that others give to --bootstrap, comma-separated')
    .addHelpText('after', '\nExample:\n  rookery status --json\n  rookery start --data b --bootstrap "$(rookery status --data a --join)"')
    .action(({ wait, join }: { wait: number; join?: true }, command) =>
      run(command, async (invocation) => {
        const status = await whenUp(invocation, wait)
        const { out } = invocation
        if (join === true) out.result(joinAddresses(status), () => out.line(joinAddresses(status).join(',')))
        else out.result(status, () => print(out, status))
      })
    )

  program
    .command('stop')
    .description('stop the running node cleanly')
    .addHelpText('after', '\nExample:\n  rookery stop --data ~/.rookery')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('stop', {})
        invocation.out.result(result, () => invocation.out.line('stopping'))
      })
    )
}

const REACHED: Record<NonNullable<NodeStatus['reachability']>['state'], string> = {
  direct: 'directly: peers dialled this node',
  relayed: 'over relays: peers cannot dial this node',
  unreachable: 'not at all: peers cannot dial this node, and no relay carries (rookery doctor says what to do)',
  unknown: 'not known yet: no peer has tried'
}

function printReachability(
  out: Output,
  { state, sinceMs, relays, external, upgrades, serving }: NonNullable<NodeStatus['reachability']>
): void {
  const how =
    state === 'direct' ? out.paint.green(REACHED[state]) : state === 'unreachable' ? out.paint.yellow(REACHED[state]) : REACHED[state]
  out.line(`reached   ${how}, for ${age(Date.now() - sinceMs)}`)
  for (const relay of relays) out.line(`          relay ${relay.peer} at ${relay.addrs[0] ?? ''}, for ${age(Date.now() - relay.sinceMs)}`)
  if (state !== 'direct') for (const address of external) out.line(`          peers see ${address}`)
  if (upgrades.tried > 0) out.line(`          ${counted(upgrades.tried, 'connection')} came over relays, ${upgrades.direct} became direct`)
  if (serving !== undefined) out.line(`relaying  for ${serving.reservations} of at most ${counted(serving.reservationsMax, 'node')}`)
}

/** Asks again while no node answers, for `waitMs` at the most. @throws RookeryError `NODE_NOT_RUNNING` */
async function whenUp(invocation: Invocation, waitMs: number): Promise<NodeStatus> {
  const endMs = systemClock.monotonicMs() + waitMs
  for (;;) {
    try {
      return await invocation.call('status', {})
    } catch (error) {
      const starting = error instanceof RookeryError && error.code === 'NODE_NOT_RUNNING'
      if (!starting || systemClock.monotonicMs() >= endMs) throw error
    }
    await pause(ASK_AGAIN_MS, invocation.signal)
    invocation.signal.throwIfAborted()
  }
}

function print(out: Output, status: NodeStatus): void {
  const { node, agents } = status
  out.line(`${out.paint.bold('node')}      ${node.peer}  v${node.version}, pid ${node.pid}, up ${age(node.uptimeMs)}`)
  out.line(`data      ${node.dataDir}`)
  const network =
    status.networkFault !== undefined
      ? out.paint.red(status.networkFault)
      : status.network === 'isolated'
        ? out.paint.yellow('isolated: no peer yet; what is announced waits')
        : out.paint.green('connected')
  out.line(
    `network   ${network}, ${counted(status.peers, 'peer')}, ${status.routingTableSize} in the routing table, DHT ${status.dhtMode}, ${status.scope}`
  )
  for (const address of joinAddresses(status)) out.line(`          ${address}`)
  if (status.reachability !== undefined) printReachability(out, status.reachability)
  for (const { peer, hidden, invented, lastAtMs } of status.faultyRegistrars) {
    const what = [
      hidden === 0 ? '' : `hid ${hidden} of what it took`,
      invented === 0 ? '' : `served ${invented} that are forged or misplaced`
    ]
    out.line(
      out.paint.yellow(`registrar ${peer} ${what.filter((part) => part !== '').join(' and ')}, last ${age(Date.now() - lastAtMs)} ago`)
    )
  }
  out.line(`A2A       ${status.http?.url ?? 'off'}`)
  if (status.ops !== undefined) out.line(`operator  ${status.ops.url}  (/healthz, /readyz, /metrics)`)
  out.line(`sessions  ${status.sessions}`)
  const { store, drainHeld, queueDamaged } = status
  const free = store.freeBytes === undefined ? '' : `, ${bytesText(store.freeBytes)} free`
  const disk = store.state === 'ok' ? `ok${free}` : out.paint.red(`${store.state}: ${store.reason ?? ''}${free}; nothing new is taken`)
  out.line(`disk      ${disk}`)
  const { outbox, keeping } = status
  if (outbox.waiting > 0) out.line(`outbox    ${counted(outbox.waiting, 'message')} not delivered yet: rookery outbox list --open`)
  if (status.friendRequests > 0) out.line(`friends   ${counted(status.friendRequests, 'request')} for you to answer: rookery friends list`)
  for (const { did, messages, bounds, bytes } of keeping) {
    out.line(`keeping   ${messages}/${bounds.messagesMax} (${bytesText(bytes)}) for ${did}`)
  }
  for (const use of status.boundsNear ?? []) out.line(out.paint.yellow(`bound     ${boundText(use)}`))
  if (drainHeld !== undefined) out.line(out.paint.yellow(`queues    held: ${drainHeld}`))
  if (queueDamaged > 0) out.line(out.paint.yellow(`queues    ${counted(queueDamaged, 'damaged row')} set aside`))
  out.line('')
  if (agents.length === 0) out.line('no agents yet: rookery agent add NAME')
  out.table(
    ['AGENT', 'MODE', 'QUEUE', 'HANDLER', 'DID'],
    agents.map((agent) => [
      agent.name + (agent.isDefault ? ' *' : ''),
      agent.untilMs === undefined ? agent.mode : `${agent.mode} for ${age(agent.untilMs - Date.now())}`,
      `${agent.queue.messages}/${agent.queue.bounds.messagesMax} (${bytesText(agent.queue.bytes)})`,
      agent.handlerFault === undefined ? agent.handler : `${agent.handler} (not at work)`,
      agent.did
    ])
  )
  for (const { name, handlerFault } of agents) {
    if (handlerFault !== undefined) out.line(out.paint.yellow(`${name}: ${handlerFault.code}: ${handlerFault.message}; its tasks wait`))
  }
  printSpaces(out, status.spaces)
}

function printSpaces(out: Output, spaces: NodeStatus['spaces']): void {
  if (spaces.length > 0) out.line('')
  out.table(
    ['SPACE', 'ROLE', 'AGENT', 'EXPIRES IN'],
    spaces.slice(0, SPACES_SHOWN).map((space) => [space.name, space.role, space.agent, age(space.expiresAtMs - Date.now())])
  )
  if (spaces.length > SPACES_SHOWN) out.line(`and ${(spaces.length - SPACES_SHOWN).toLocaleString('en')} more: rookery space list`)
}

import { fromHex } from '../../protocol/bytes.ts'
import { REACHABILITY_MODES } from '../../protocol/delivery/modes.ts'
import { eidToDid, eid as toEid } from '../../protocol/identity/eid.ts'
import type { SfcBlock } from '../../protocol/session/sfc.ts'
import { ATTACHMENTS_MAX } from '../delivery/attachments.ts'
import { FRIENDS_PENDING_MAX } from '../friends/friend-rows.ts'
import { GRANTS_MAX } from '../grants/grants.ts'
import { AGENTS_MAX } from '../identity/agents.ts'
import type { HostedAgent } from '../identity/hosted-agent.ts'
import { BOUND_NEAR, boundsOf } from '../ops/bounds.ts'
import { PUSH_CONFIGS_MAX } from '../push/push-rows.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { version } from '../version.ts'
import { type AgentView, CONTROL_BOUNDS, type NodeStatus } from './methods.ts'

/** An agent as status and lists show it. */
export async function agentView(node: RookeryNode, agent: HostedAgent): Promise<AgentView> {
  const { mode, window, untilMs, queueing } = agent.reachability
  const reachable = node.reachability(agent)
  const url = node.agentUrl(agent)
  const tokenFile = node.agents.tokenFile(agent)
  const fault = node.handlerFault(agent)
  return {
    name: agent.name,
    did: agent.did,
    description: agent.description,
    handler: agent.handler,
    ...(fault === undefined ? {} : { handlerFault: { code: fault.code, message: fault.message } }),
    isDefault: agent === node.agents.default,
    mode,
    ...(window === undefined ? {} : { window }),
    ...(untilMs === undefined ? {} : { untilMs }),
    ...(queueing === undefined ? {} : { queueing }),
    attached: node.attachments.count(agent),
    reachable: {
      now: reachable.state,
      ...(reachable.state === 'asleep' && reachable.retryAfterSec !== undefined ? { retryAfterSec: reachable.retryAfterSec } : {})
    },
    queue: await node.queueUsage(agent),
    ...(url === undefined ? {} : { url }),
    ...(tokenFile === undefined ? {} : { tokenFile })
  }
}

function outboxUsage(node: RookeryNode): NodeStatus['outbox'] {
  const { messages, waiting, bytes } = node.mail.outbox.usage()
  return { messages, waiting, bytes }
}

/** What the node is and holds now, with every bound in force (OD-04, OD-30). */
export async function nodeStatus(node: RookeryNode): Promise<NodeStatus> {
  const { host, config } = node
  const peers = host.peers().length
  const fault = host.fault?.()
  const spaces = await node.spaces.list()
  const near = boundsOf(node).filter(({ used, max }) => used >= max * BOUND_NEAR)
  return {
    node: {
      peer: node.peer,
      version,
      pid: process.pid,
      startedAtMs: node.startedAtMs,
      uptimeMs: node.clock.nowMs() - node.startedAtMs,
      dataDir: config.dataDir ?? ''
    },
    network: peers === 0 ? 'isolated' : 'connected',
    ...(fault === undefined ? {} : { networkFault: fault.detail }),
    scope: config.network,
    addresses: host.addresses(),
    ...(host.reachability === undefined ? {} : { reachability: host.reachability.report() }),
    peers,
    routingTableSize: host.dht.routingTableSize(),
    dhtMode: host.dht.mode(),
    faultyRegistrars: node.registry.faulty(),
    modesOffered: [...REACHABILITY_MODES],
    agents: await Promise.all(node.agents.list().map((agent) => agentView(node, agent))),
    sessions: node.sessions.list().length,
    store: await node.storeState(),
    queueDamaged: node.queue.damaged,
    outbox: outboxUsage(node),
    friendRequests: node.friends.waiting(),
    keeping: (await node.mail.held()).map(({ audience, ...rest }) => ({ did: eidToDid(toEid(fromHex(audience))), ...rest })),
    ...(node.drainHeld === undefined ? {} : { drainHeld: node.drainHeld }),
    spaces: spaces.map(({ role, agent, name, expiresAtMs }) => ({ role, agent, name, expiresAtMs })),
    http: node.httpUrl === undefined ? undefined : { url: node.httpUrl },
    ops: node.opsUrl === undefined ? undefined : { url: node.opsUrl },
    bounds: boundsInForce(node),
    ...(near.length === 0 ? {} : { boundsNear: near })
  }
}

function boundsInForce({ config, queueBounds, todos }: RookeryNode): Record<string, number> {
  return {
    'queue.messagesMax': queueBounds.messagesMax,
    'queue.bytesMax': queueBounds.bytesMax,
    'queue.messagesPerPeerMax': queueBounds.messagesPerPeerMax,
    'queue.ttlMaxMs': queueBounds.ttlMaxMs,
    'delivery.drainPerSec': config.delivery.drainPerSec,
    attachmentsMax: ATTACHMENTS_MAX,
    connectionsMax: config.connectionsMax,
    sessionsMax: config.sessionsMax,
    ...contractBounds('sessions.contract', config.sessions.contract),
    ...Object.assign(
      {},
      ...Object.entries(config.sessions.contracts).map(([name, block]) => contractBounds(`sessions.contracts.${name}`, block))
    ),
    'discovery.queueMax': config.discovery.queueMax,
    'registry.bytesMax': config.registry.bytesMax,
    'registry.putsPerMinuteMax': config.registry.putsPerMinuteMax,
    registrarsMax: config.registrarsMax,
    agentsMax: AGENTS_MAX,
    grantsMax: GRANTS_MAX,
    'grants.sendBurst': config.grants.sendBurst,
    'grants.sendPerMin': config.grants.sendPerMin,
    friendRequestsMax: FRIENDS_PENDING_MAX,
    pushConfigsMax: PUSH_CONFIGS_MAX,
    'http.bodyBytesMax': config.http.bodyBytesMax,
    'tasks.leaseMs': config.tasks.leaseMs,
    'tasks.waitMaxMs': config.tasks.waitMaxMs,
    'tasks.openMax': todos.bounds.openMax,
    'tasks.openPerCallerMax': todos.bounds.openPerCallerMax,
    'tasks.historyMax': todos.bounds.historyMax,
    'tasks.todoBytesMax': todos.bounds.todoBytesMax,
    'tasks.keptMax': todos.bounds.keptMax,
    'tasks.keptBytesMax': todos.bounds.keptBytesMax,
    'tasks.keptPerCallerMax': todos.bounds.keptPerCallerMax,
    'tasks.keptBytesPerCallerMax': todos.bounds.keptBytesPerCallerMax,
    'tasks.retainMs': todos.bounds.retainMs,
    'control.requestBytesMax': CONTROL_BOUNDS.requestBytesMax,
    'control.callsMax': CONTROL_BOUNDS.callsMax
  }
}

/** The limits of an offered block; nothing where none is offered. */
function contractBounds(at: string, block: SfcBlock | 'off' | undefined): Record<string, number> {
  if (block === undefined || block === 'off') return {}
  const { site: _site, scopes: _scopes, region: _region, ...limits } = block
  return Object.fromEntries(Object.entries(limits).map(([name, value]) => [`${at}.${name}`, value]))
}

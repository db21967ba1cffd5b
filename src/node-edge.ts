import { fromHex } from '../protocol/bytes.ts'
import { type A2aEdge, type Around, createA2aEdge, type RemoteAgents } from './a2a/edge.ts'
import { createKeepAsleep, createKeepOpaque } from './a2a/keep-asleep.ts'
import type { LocalA2a } from './a2a/local-a2a.ts'
import { DEFAULT_HTTP_PORT } from './config/schema.ts'
import type { AgentWork } from './doors/agent-work.ts'
import { mcpRoutes } from './doors/mcp-door.ts'
import type { McpActions } from './doors/mcp-tools.ts'
import { workRoutes } from './doors/work-door.ts'
import type { NodeParts } from './node-parts.ts'
import { openOnAnyPort, openOnGivenPort, type PortMemory } from './node-ports.ts'

/** Open HTTP connections for all that is no stream of a task. */
const CONNECTIONS_BESIDE_STREAMS = 256

/** Opens a node's A2A edge: on the port that was set, else on the one it had last, else on a free one. @throws RookeryError `PORT_IN_USE` */
export async function openNodeEdge(
  parts: NodeParts,
  { local, remote, work, mcp, around }: { local: LocalA2a; remote: RemoteAgents; work: AgentWork; mcp: McpActions; around: Around },
  ports: PortMemory,
  signal?: AbortSignal
): Promise<A2aEdge> {
  const { config, agents, access, crypto, logger, clock, queue, outgoing, random, tracer } = parts
  const { http } = config
  const open = (port: number) =>
    createA2aEdge(
      {
        agents: {
          get: (hex) => agents.list().find((agent) => agent.eidHex === hex),
          defaultAgent: () => agents.default,
          formerly: (hex) => agents.ofAnyEid(fromHex(hex))
        },
        local,
        keep: createKeepAsleep({ outgoing, queue, tracer }),
        keepOpaque: createKeepOpaque({ queue, random }),
        authenticate: (token) => access.ofBearer(token),
        crypto,
        logger: logger.child('a2a'),
        remote,
        around,
        doors: [(host) => workRoutes(host, work), (host) => mcpRoutes(host, { work, actions: mcp, random })],
        refusals: { form: config.delivery.refusalForm, asleepRpcCode: config.delivery.asleepRpcCode }
      },
      {
        host: http.host,
        port,
        bodyBytesMax: http.bodyBytesMax,
        legacy: http.legacy ? 'on' : 'off',
        connectionsMax: CONNECTIONS_BESIDE_STREAMS + config.streams.nodeMax,
        ...(http.publicUrl === undefined ? {} : { publicUrl: http.publicUrl })
      }
    )
  const { port: byHand } = http
  if (byHand !== undefined) return await openOnGivenPort(clock, () => open(byHand), { signal })
  const remembered = await ports.get('http')
  const near = Array.from({ length: 10 }, (_, i) => DEFAULT_HTTP_PORT + i)
  const edge = await openOnAnyPort(remembered === undefined ? near : [remembered, ...near], open)
  await ports.remember('http', edge.port)
  return edge
}

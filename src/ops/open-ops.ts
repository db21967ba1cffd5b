import { DEFAULT_OPS_PORT } from '../config/schema.ts'
import { type DashboardParts, dashboardRoutes } from '../dashboard/dashboard-routes.ts'
import { openOnAnyPort, openOnGivenPort } from '../node-ports.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { healthOf } from './health.ts'
import { type NodeMetricsInit, nodeMetrics } from './metrics.ts'
import { type OpsRoute, type OpsServer, openOpsServer, sendJson, sendText } from './ops-server.ts'
import { watchedRoute } from './watches.ts'

/** Opens the operator's server of a node on the port that was set, else on the first free one from 4712 on. @throws RookeryError `PORT_IN_USE` */
export async function openOps(
  node: RookeryNode,
  { traffic, observed, logger, dashboard }: Omit<NodeMetricsInit, 'process'> & { dashboard?: DashboardParts } = {}
): Promise<OpsServer> {
  const { ops } = node.config
  const metrics = nodeMetrics(node, { process: 'included', traffic, observed, logger })
  const routes: OpsRoute[] = [
    {
      method: 'GET',
      path: '/healthz',
      async handle(_req, res) {
        const health = await healthOf(node)
        sendJson(res, health.live ? 200 : 503, { status: health.live ? 'ok' : 'failed', checks: health.checks })
      }
    },
    {
      method: 'GET',
      path: '/readyz',
      async handle(_req, res) {
        const health = await healthOf(node)
        sendJson(res, health.ready ? 200 : 503, { status: health.ready ? 'ok' : 'failed', checks: health.checks })
      }
    },
    {
      method: 'GET',
      path: '/metrics',
      handle: async (_req, res) => sendText(res, 200, await metrics.text(), metrics.contentType)
    },
    ...(dashboard === undefined || !ops.dashboard ? [] : dashboardRoutes(node, dashboard))
  ]
  const { clock } = node
  const watched = observed === undefined ? routes : routes.map((route) => watchedRoute(route, { clock, observed }))
  const open = (port: number) => openOpsServer({ logger: node.logger.child('ops') }, { host: ops.host, port, routes: watched })
  const server =
    ops.port === undefined
      ? await openOnAnyPort(
          Array.from({ length: 10 }, (_, i) => DEFAULT_OPS_PORT + i),
          open
        )
      : await openOnGivenPort(node.clock, () => open(ops.port as number), { signal: node.signal })
  node.closeFirst('operator server', 500, () => server.close())
  return server
}

import { exportQueue, findRecord, recordView } from '../delivery/queue-files.ts'
import { RookeryError } from '../errors.ts'
import { homeOf } from '../identity/agent.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import type { ControlContext, ControlHandlers } from './control-server.ts'
import { agentView } from './node-status.ts'

type DeliveryMethod =
  | 'mode.set'
  | 'agent.attach'
  | 'agent.renew'
  | 'agent.detach'
  | 'queue.show'
  | 'queue.drop'
  | 'queue.retry'
  | 'queue.export'

/** How agents can be reached, and what waits for them. */
export function deliveryHandlers(
  node: RookeryNode,
  options: (context: ControlContext) => PublishOptions
): Pick<ControlHandlers, DeliveryMethod> {
  const nameOf = (home: string) => node.agents.list().find((one) => homeOf(one) === home)?.name ?? home
  return {
    async 'mode.set'({ agent, ...change }, context) {
      const hosted = node.agents.get(agent)
      refuseStray(change)
      checkUntil(change.untilMs, node.clock.nowMs())
      await node.setMode(hosted, change, options(context))
      return await agentView(node, hosted)
    },
    async 'agent.attach'({ agent, leaseMs }) {
      const held = node.attachments.attach(node.agents.get(agent), { leaseMs })
      return { ...held, agent: nameOf(held.agent) }
    },
    async 'agent.renew'({ id, leaseMs }) {
      const held = node.attachments.renew(id, { leaseMs })
      return { ...held, agent: nameOf(held.agent) }
    },
    async 'agent.detach'({ id }) {
      return { id, detached: node.attachments.detach(id) }
    },
    async 'queue.show'({ agent, object }) {
      const hosted = node.agents.get(agent)
      return recordView(hosted, await findRecord(node.queue, hosted, object))
    },
    async 'queue.drop'({ agent, object: wanted, all }, context) {
      const hosted = node.agents.get(agent)
      const home = homeOf(hosted)
      if ((wanted === undefined) === (all === undefined)) {
        throw new RookeryError('PARAMS_INVALID', 'queue.drop: either one object or all', {
          kind: 'usage',
          field: 'object',
          remedy: 'name an object, or give --all'
        })
      }
      if (wanted !== undefined) {
        const record = await findRecord(node.queue, hosted, wanted)
        const isGone = !(await node.queue.drop(home, record.key))
        return isGone ? { dropped: 0, bytes: 0 } : { dropped: 1, bytes: record.object.length }
      }
      const total = { dropped: 0, bytes: 0 }
      for await (const { key, object } of node.queue.records(home)) {
        context.signal.throwIfAborted()
        if (!(await node.queue.drop(home, key))) continue
        total.dropped++
        total.bytes += object.length
      }
      return total
    },
    async 'queue.retry'({ agent }, context) {
      const hosted = node.agents.get(agent)
      if (node.reachability(hosted).state !== 'accepts') {
        throw new RookeryError('AGENT_ASLEEP', `${hosted.name} takes no work now, so nothing is handed over`, {
          kind: 'asleep',
          field: 'agent',
          value: hosted.name,
          remedy: 'wake it with `rookery wake`, or set another mode with `rookery mode set`'
        })
      }
      const restored = await node.queue.restore(homeOf(hosted))
      return { ...(await node.drain(hosted, options(context))), restored }
    },
    async 'queue.export'({ agent }) {
      return await exportQueue(node.queue, node.agents.get(agent), { dataDir: node.config.dataDir, nowMs: node.clock.nowMs() })
    }
  }
}

/** Members that the mode does not have would be dropped in silence. */
function refuseStray({ mode, window, untilMs }: { mode: string; window?: object | undefined; untilMs?: number | undefined }): void {
  const stray =
    window !== undefined && mode !== 'hourly_wake' ? 'window' : untilMs !== undefined && mode !== 'sleep' ? 'untilMs' : undefined
  if (stray === undefined) return
  throw new RookeryError('MODE_MEMBER', `${stray} goes with ${stray === 'window' ? 'hourly_wake' : 'sleep'} alone, not with ${mode}`, {
    kind: 'usage',
    field: stray,
    remedy: 'leave it out, or set the mode that it belongs to'
  })
}

/** @throws RookeryError `UNTIL_PAST` */
export function checkUntil(untilMs: number | undefined, nowMs: number): void {
  if (untilMs === undefined || untilMs > nowMs) return
  throw new RookeryError('UNTIL_PAST', 'the time to sleep until is past', {
    kind: 'usage',
    field: 'untilMs',
    value: untilMs,
    remedy: 'give a time to come, in milliseconds since 1970'
  })
}

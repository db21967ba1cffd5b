import { RookeryError } from '../errors.ts'
import { homeOf } from '../identity/agent.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { ControlHandlers } from './control-server.ts'
import type { PushResults } from './push-methods.ts'

/** What became of the notifications that callers asked for. */
export function pushHandlers(node: RookeryNode): Pick<ControlHandlers, keyof PushResults> {
  return {
    async 'push.list'({ state }) {
      const { delivered = 0, failed = 0, givenUp = 0 } = node.push?.counts() ?? {}
      const names = new Map(node.agents.list().map((agent) => [String(homeOf(agent)), agent.name]))
      const rows = (node.push?.all() ?? []).filter((row) => state === undefined || row.state === state)
      const configs = rows.map(({ id, taskId, owner, agent, url, state: now, place, attempts, nextAttemptAtMs, lastError }) => ({
        id,
        task: taskId,
        owner,
        agent: names.get(agent) ?? agent,
        url,
        state: now,
        told: place.n,
        attempts,
        ...(nextAttemptAtMs === undefined ? {} : { nextAttemptAtMs }),
        ...(lastError === undefined ? {} : { lastError })
      }))
      return { configs, enabled: node.push !== undefined, delivered, failed, givenUp }
    },
    async 'push.retry'({ task, id }) {
      if (node.push === undefined) {
        throw new RookeryError('PUSH_OFF', 'push notifications are off on this node', {
          kind: 'refused',
          field: 'push.enabled',
          value: false,
          remedy: 'set push.enabled and start the node anew'
        })
      }
      await node.push.retry(task, id)
      return { task, id }
    }
  }
}

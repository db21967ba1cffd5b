import type { SignIns } from '../dashboard/sign-ins.ts'
import { RookeryError } from '../errors.ts'
import { Vitals } from '../ops/vitals.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { version } from '../version.ts'
import type { ControlHandlers } from './control-server.ts'
import { agentView } from './node-status.ts'
import { type OperatorResults, type SessionLine, VITALS_SESSIONS_MAX } from './operator-methods.ts'

export interface OperatorParts {
  vitals?: Vitals
  /** who may use the dashboard; absent where none is served */
  signIns?: SignIns
}

/** How the node is just now, and the way into its dashboard. */
export function operatorHandlers(node: RookeryNode, parts: OperatorParts): Pick<ControlHandlers, keyof OperatorResults> {
  let own: Vitals | undefined
  const vitals = () => {
    own ??= parts.vitals ?? new Vitals(node)
    return own
  }
  return {
    async vitals() {
      const agents = await Promise.all(node.agents.list().map((agent) => agentView(node, agent)))
      return {
        node: { peer: node.peer, version, pid: process.pid },
        ...(await vitals().read()),
        agents: agents.map(({ name, mode, handler, reachable, queue: { messages, bytes } }) => ({
          name,
          mode,
          handler,
          now: reachable.now,
          queue: { messages, bytes }
        })),
        sessionList: sessionLines(node)
      }
    },
    async 'dashboard.open'() {
      if (parts.signIns === undefined || node.opsUrl === undefined) {
        throw new RookeryError('DASHBOARD_OFF', 'this node serves no dashboard', {
          kind: 'unavailable',
          field: node.config.ops.enabled ? 'ops.dashboard' : 'ops.enabled',
          value: false,
          remedy: 'set ops.enabled and ops.dashboard to true and restart the node'
        })
      }
      const { code, expiresAtMs } = parts.signIns.issue()
      return { url: `${node.opsUrl}/dashboard#${code}`, expiresAtMs }
    }
  }
}

function sessionLines(node: RookeryNode): SessionLine[] {
  return node.sessions
    .list()
    .sort((a, b) => b.activeAtMs - a.activeAtMs)
    .slice(0, VITALS_SESSIONS_MAX)
    .map(({ id, local, remote, state, transport, txSeq, rxSeq, unacked, resumes, openedAtMs, activeAtMs }) => ({
      id,
      local,
      remote,
      state,
      transport,
      txSeq,
      rxSeq,
      unacked,
      resumes,
      openedAtMs,
      activeAtMs
    }))
}

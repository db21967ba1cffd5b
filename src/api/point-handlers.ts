import type { RookeryNode } from '../rookery-node.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import type { ControlContext, ControlHandlers } from './control-server.ts'

type PointMethod = 'point.add' | 'point.remove' | 'point.list' | 'point.grant' | 'point.revoke' | 'point.show' | 'point.read'

/** Points of our agents, and those of others. */
export function pointHandlers(node: RookeryNode, options: (context: ControlContext) => PublishOptions): Pick<ControlHandlers, PointMethod> {
  const { points, agents } = node
  return {
    'point.add'({ agent, tag, access, value, trust }, context) {
      const trusted = (trust ?? []).map((did) => agents.eidOf(did))
      return points.register({ agent: agents.get(agent), tag, access, value, trust: trusted }, options(context))
    },
    async 'point.remove'({ agent, tag }, context) {
      await points.remove({ agent: agents.get(agent), tag }, options(context))
      return { tag }
    },
    'point.list': async () => points.list(),
    async 'point.grant'({ agent, tag, ttlMs }) {
      const expiresAtMs = node.clock.nowMs() + ttlMs
      const secret = await points.grant({ agent: agents.get(agent), tag }, { ttlMs })
      return { tag, grant: Buffer.from(secret).toString('base64url'), expiresAtMs }
    },
    async 'point.revoke'({ agent, tag, id }) {
      await points.revoke({ agent: agents.get(agent), tag }, id)
      return { tag, id }
    },
    'point.show': ({ did, tag }, context) => points.resolve({ eid: agents.eidOf(did), tag }, options(context)),
    async 'point.read'({ agent, did, tag, grant }, context) {
      const secret = grant === undefined ? {} : { grant: new Uint8Array(Buffer.from(grant, 'base64url')) }
      const value = await points.read({ from: agents.get(agent), eid: agents.eidOf(did), tag, ...secret }, options(context))
      return { did, tag, value }
    }
  }
}

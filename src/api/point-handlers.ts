import { RookeryError } from '../errors.ts'
import type { LocalPoints } from '../local/local-points.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import type { ControlContext, ControlHandlers } from './control-server.ts'

type PointMethod =
  | `localPoint.${'add' | 'remove' | 'list' | 'read'}`
  | 'point.add'
  | 'point.remove'
  | 'point.list'
  | 'point.grant'
  | 'point.revoke'
  | 'point.show'
  | 'point.read'

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
    'localPoint.add': async ({ agent, tag, access, value, trust }) => {
      const trusted = (trust ?? []).map((did) => agents.eidOf(did))
      return await local(node).register({ agent: agents.get(agent), tag, access, value, trust: trusted })
    },
    async 'localPoint.remove'({ agent, tag }) {
      await local(node).remove({ agent: agents.get(agent), tag })
      return { tag }
    },
    'localPoint.list': async () => local(node).list(),
    async 'localPoint.read'({ agent, did, tag }, context) {
      return { did, tag, value: await node.readLocalPoint(agents.get(agent), agents.eidOf(did), tag, options(context)) }
    },
    async 'point.read'({ agent, did, tag, grant }, context) {
      const secret = grant === undefined ? {} : { grant: new Uint8Array(Buffer.from(grant, 'base64url')) }
      const value = await points.read({ from: agents.get(agent), eid: agents.eidOf(did), tag, ...secret }, options(context))
      return { did, tag, value }
    }
  }
}

/** @throws RookeryError `LOCAL_POINTS_OFF` */
function local({ localPoints }: RookeryNode): LocalPoints {
  if (localPoints !== undefined) return localPoints
  throw new RookeryError('LOCAL_POINTS_OFF', 'this node has no points on the local link', {
    kind: 'config',
    field: 'localPoints.enabled',
    value: false,
    remedy: 'set localPoints: { enabled: true } in config.yaml and start the node again'
  })
}

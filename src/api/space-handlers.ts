import { eidToDid } from '../../protocol/identity/eid.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import type { ControlContext, ControlHandlers } from './control-server.ts'
import { CONTROL_BOUNDS } from './methods.ts'

type SpaceMethod =
  | 'space.announce'
  | 'space.update'
  | 'space.handover'
  | 'space.tombstone'
  | 'space.prune'
  | 'space.show'
  | 'space.trust'
  | 'space.join'
  | 'space.leave'
  | 'space.list'
  | 'find'

/** In the place of a DID: no one. */
const NOBODY = 'nobody'

/** Spaces that our agents curate or join, and searches. */
export function spaceHandlers(node: RookeryNode, options: (context: ControlContext) => PublishOptions): Pick<ControlHandlers, SpaceMethod> {
  const { spaces, agents } = node
  const eidOrNobody = (text: string) => (text === NOBODY ? NOBODY : agents.eidOf(text))
  return {
    'space.announce'({ name, agent, description, seeds, shards }, context) {
      const more = given({ description, seeds, shards })
      return spaces.announce({ name, curator: agents.get(agent), ...more }, options(context))
    },
    'space.update'({ name, agent, description, seeds }, context) {
      return spaces.update({ name, curator: agents.get(agent), ...given({ description, seeds }) }, options(context))
    },
    'space.handover'({ name, agent, to }, context) {
      return spaces.handOverTo({ name, curator: agents.get(agent), to: eidOrNobody(to) }, options(context))
    },
    async 'space.tombstone'({ name, agent }, context) {
      await spaces.tombstone({ name, curator: agents.get(agent) }, options(context))
      return { name }
    },
    'space.prune'({ name, agent, member, untilMs }, context) {
      return spaces.prune({ name, curator: agents.get(agent), member: agents.eidOf(member), ...given({ untilMs }) }, options(context))
    },
    'space.show': ({ name }, context) => spaces.show(name, options(context)),
    async 'space.trust'({ name, curator: text }) {
      const curator = eidOrNobody(text)
      await spaces.trust({ name, curator })
      return { name, ...(curator === NOBODY ? {} : { curator: eidToDid(curator) }) }
    },
    'space.join'({ name, agent, tags, listing }, context) {
      return spaces.join({ name, agent: agents.get(agent), ...given({ tags, listing }) }, options(context))
    },
    async 'space.leave'({ name, agent }, context) {
      await spaces.leave({ name, agent: agents.get(agent) }, options(context))
      return { name }
    },
    'space.list': () => spaces.list(),
    find({ name, tags, mode, limit, page }, context) {
      const inPages = page ?? (limit === undefined ? { size: CONTROL_BOUNDS.listMax } : undefined)
      const pages =
        inPages === undefined ? {} : { page: { size: inPages.size, ...('after' in inPages ? given({ after: inPages.after }) : {}) } }
      return spaces.find({ name, ...given({ tags, mode, limit }), ...pages }, options(context))
    }
  }
}

/** Without the members that are undefined. */
function given<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}

import { toString as bytesToString } from 'uint8arrays'
import { type Eid, eidFromDid } from '../../protocol/identity/eid.ts'
import type { EseValue } from '../../protocol/state/batch.ts'
import type { Group } from '../groups/groups.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { Json } from '../tasks/todo.ts'
import type { ControlHandlers } from './control-server.ts'
import type { GroupMemberState, GroupResults } from './group-methods.ts'
import type { StateEntry } from './state-methods.ts'

/** The control methods over groups. */
export function groupHandlers(node: RookeryNode): Pick<ControlHandlers, keyof GroupResults> {
  const find = (agent: string | undefined, group: string): Group => node.groups.get(node.agents.get(agent), group)
  const memberOf = (member: string): Eid => node.newestEid(node.agents.eidOf(member))
  return {
    async 'group.create'({ agent, name }) {
      return (await node.groups.create(node.agents.get(agent), { name })).view()
    },
    async 'group.invite'({ agent, group, member, history }) {
      const found = find(agent, group)
      await found.invite(memberOf(member), history === undefined ? {} : { history })
      return found.view()
    },
    async 'group.remove'({ agent, group, member }) {
      const found = find(agent, group)
      await found.remove(memberOf(member))
      return found.view()
    },
    async 'group.leave'({ agent, group }) {
      const found = find(agent, group)
      await found.leave()
      return { id: found.id }
    },
    'group.list': async ({ agent }) => node.groups.list(agent === undefined ? undefined : node.agents.get(agent)).map((one) => one.view()),
    'group.show': async ({ agent, group, key }) => {
      const found = find(agent, group)
      return { ...found.view(), states: found.members().map((did) => stateOf(found, did, key)) }
    },
    async 'group.set'({ agent, group, key, value }, { signal }) {
      const found = find(agent, group)
      if (value === undefined) await found.delete(key, { signal })
      else await found.set(key, value as EseValue, { signal })
      return found.view()
    }
  }
}

function stateOf(group: Group, did: string, key: string | undefined): GroupMemberState {
  const of = eidFromDid(did)
  const values = key === undefined ? group.state(of) : new Map([[key, group.get(key, of)]])
  const entries: StateEntry[] = []
  for (const [name, value] of values) if (value !== undefined) entries.push(entryOf(name, value))
  return { did, entries }
}

function entryOf(key: string, value: EseValue): StateEntry {
  return value instanceof Uint8Array ? { key, base64: bytesToString(value, 'base64pad') } : { key, value: value as Json }
}

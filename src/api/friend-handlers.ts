import { fromHex } from '../../protocol/bytes.ts'
import { type Eid, type EidHex, eidFromDid, eidHex, eidToDid, eid as toEid } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { FriendRow } from '../friends/friend-rows.ts'
import { homeOf } from '../identity/agent.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { ControlHandlers } from './control-server.ts'
import type { FriendResults, FriendView } from './friend-methods.ts'

const WAIT_DEFAULT_MS = 10_000

/** Friend requests, ours and of others; the owner's answers to them (TD-06). */
export function friendHandlers(node: RookeryNode): Pick<ControlHandlers, keyof FriendResults> {
  const { friends } = node
  const view = (row: FriendRow) => friendView(node, row)
  const at = (agent: string | undefined, did: string) => ({
    home: homeOf(node.agents.get(agent)),
    peer: node.rootOf(eidHex(foreign(node, did)))
  })
  const of = (home: EidHex, peer: EidHex) => friends.list().filter((row) => row.agent === home && row.peer === peer)
  return {
    async 'friends.request'({ agent, did, waitMs = WAIT_DEFAULT_MS, ...asked }, { signal, progress }) {
      const row = await friends.request(node.agents.get(agent), foreign(node, did), asked)
      progress('asking')
      const patience = new AbortController()
      const cancel = node.clock.after(waitMs, () => patience.abort())
      try {
        return view(await friends.answered(row, AbortSignal.any([signal, patience.signal])))
      } finally {
        cancel()
      }
    },
    async 'friends.list'({ agent }) {
      const home = agent === undefined ? undefined : homeOf(node.agents.get(agent))
      const rows = friends.list().filter((row) => home === undefined || row.agent === home)
      const waiting = rows.filter(({ direction, state }) => direction === 'in' && state === 'pending').length
      return { friends: rows.map(view), waiting, busy: friends.busy }
    },
    async 'friends.show'({ agent, did }) {
      const { home, peer } = at(agent, did)
      const rows = of(home, peer)
      if (rows.length === 0) throw unknown(did)
      return {
        friends: rows.map((row) => ({ ...view(row), ...(row.grant?.credential === undefined ? {} : { credential: row.grant.credential }) }))
      }
    },
    async 'friends.approve'({ agent, did, verbs, ttlMs }) {
      const { home, peer } = at(agent, did)
      return view((await friends.approve(home, peer, { verbs, ttlMs })).row)
    },
    async 'friends.deny'({ agent, did }) {
      const { home, peer } = at(agent, did)
      return view(await friends.deny(home, peer))
    },
    async 'friends.remove'({ agent, did }) {
      const { home, peer } = at(agent, did)
      return { removed: (await friends.remove(home, peer)).map(view) }
    }
  }
}

/** @throws RookeryError `FRIEND_INVALID`; ProtocolError `DID_INVALID` */
function foreign(node: RookeryNode, did: string): Eid {
  const eid = eidFromDid(did)
  if (node.agents.ofAnyEid(eid) === undefined) return eid
  throw new RookeryError('FRIEND_INVALID', 'agents of one node need no grant of each other', {
    kind: 'usage',
    field: 'did',
    value: did,
    remedy: 'name an agent of another node'
  })
}

function friendView(node: RookeryNode, row: FriendRow): FriendView {
  const { direction, agent, peer, name, note, verbs, state, grant, createdAtMs, changedAtMs, untold } = row
  return {
    direction,
    agent: node.agents.list().find((one) => homeOf(one) === agent)?.name ?? agent,
    did: eidToDid(node.newestEid(toEid(fromHex(peer)))),
    name,
    note,
    verbs,
    state,
    ...(grant === undefined ? {} : { grant: { id: grant.id, verbs: grant.verbs, untilMs: grant.untilMs } }),
    createdAtMs,
    changedAtMs,
    told: untold !== true
  }
}

function unknown(did: string): RookeryError {
  return new RookeryError('FRIEND_UNKNOWN', 'neither asked the other', {
    kind: 'notFound',
    field: 'did',
    value: did.slice(0, 80),
    remedy: 'list requests with `rookery friends list`'
  })
}

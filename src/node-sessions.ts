import { fromHex } from '../protocol/bytes.ts'
import type { Reachability } from '../protocol/delivery/reachability.ts'
import type { Eid, EidHex } from '../protocol/identity/eid.ts'
import type { LocalA2a } from './a2a/local-a2a.ts'
import { serveA2a } from './a2a/pss-binding.ts'
import { serveKeeper } from './delivery/keeper-service.ts'
import { serveMailbox } from './delivery/mailbox-service.ts'
import { homeOf, type LocalAgent } from './identity/agent.ts'
import type { NodeParts } from './node-parts.ts'

/** Serves what a node offers inside every session of its agents: A2A, their points, and the mailbox of those asleep. */
export function serveSessions(
  { sessions, queue, crypto, clock, logger, agents, successions, points, localPoints, keeper, access, friends, tracer }: NodeParts,
  { local, reachability, drain }: { local: LocalA2a; reachability: (agent: LocalAgent) => Reachability; drain: (agent: LocalAgent) => void }
): void {
  const rootOf = (hex: EidHex) => successions.rootOf(hex)
  sessions.onSession((session) => {
    serveA2a(session, { local, clock, logger: logger.child('a2a'), tracer, principal: (agent, remote) => access.ofPeer(agent, remote) })
    friends.serve(session)
    const identities = () => [session.remote, ...successions.predecessors(session.remote)]
    points.serve(session, identities, (tag) => localPoints?.answer(session, identities(), tag) ?? { status: 'unknown' })
    serveMailbox(session, {
      queue,
      crypto,
      clock,
      logger: logger.child('mailbox'),
      agent: (hex) => agents.ofAnyEid(fromHex(hex)),
      rootOf,
      maySend: (agent, depositor) => access.maySend(homeOf(agent), depositor),
      slotOf: (agent, depositor) => access.slotOf(homeOf(agent), depositor),
      ...(keeper === undefined ? {} : { keeper }),
      onStored: (agent) => {
        if (reachability(agent).state === 'accepts') drain(agent)
      }
    })
    if (keeper === undefined) return
    const all = (peer: Eid) => [peer, ...successions.predecessors(peer)]
    serveKeeper(session, { keeper, crypto, clock, logger: logger.child('keeper'), identities: all, successions })
  })
}

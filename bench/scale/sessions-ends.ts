/** The other ends of the sessions that sessions.ts opens: hosts with agents that answer what is sent to them, in a process of their own. */
import { eid, eidFromDid } from '../../protocol/identity/eid.ts'
import { errorJson } from '../../src/api/error-json.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import { withoutConnectionLimits } from '../changed-host.ts'
import { CHANNEL, ECHO, LIVE, newAgent, ours } from '../endpoints.ts'
import { serveChild } from './child.ts'

/** A host of the other ends, and its agents. */
export interface EndsHost {
  address: PeerAddress
  dids: string[]
}

const hosts: Awaited<ReturnType<typeof ours>>[] = []

async function open({ agents }: { agents: number }): Promise<EndsHost> {
  const theirs = Array.from({ length: agents }, newAgent)
  const one = await ours(theirs, { change: withoutConnectionLimits })
  one.sessions.onSession((session) =>
    session.onChannel(CHANNEL, async ({ kind, payload }) => {
      if (kind === LIVE && payload[0] === ECHO) await session.send(CHANNEL, LIVE, payload)
    })
  )
  hosts.push(one)
  return { address: { peer: one.host.peer, addrs: one.host.addresses() }, dids: theirs.map(({ did }) => did) }
}

/** A new caller asks the node for a session. @returns what it was refused with */
async function call({ did, address }: { did: string; address: PeerAddress }): Promise<unknown> {
  const caller = newAgent()
  const { host, sessions } = await ours([caller])
  try {
    await sessions.open(caller, eid(eidFromDid(did)), address)
    return undefined
  } catch (error) {
    return errorJson(error)
  } finally {
    await sessions.stop()
    await host.stop()
  }
}

serveChild({
  open,
  call,
  connected: () => hosts.reduce((sum, { sessions }) => sum + sessions.held().sessions, 0)
})

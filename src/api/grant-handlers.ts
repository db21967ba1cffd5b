import { fromHex } from '../../protocol/bytes.ts'
import { eidFromDid, eidHex, eidToDid, eid as toEid } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { GrantRow, SendLimits } from '../grants/grant.ts'
import { GRANTS_MAX } from '../grants/grants.ts'
import { homeOf } from '../identity/agent.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { ControlHandlers } from './control-server.ts'
import type { GrantResults, GrantView } from './grant-methods.ts'

/** Vended endpoints by the owner's word (TD-06): whoever may open the control socket is the owner. */
export function grantHandlers(node: RookeryNode): Pick<ControlHandlers, keyof GrantResults> {
  const { grants, sendBuckets, access } = node
  return {
    async 'grant.create'({ agent, name, for: holder, verbs, queues, ttlMs = node.config.grants.ttlMs, burst, perMin, replace }) {
      const hosted = node.agents.get(agent)
      const { grant, credential = '' } = await grants.create({
        agent: homeOf(hosted),
        name,
        verbs,
        queues,
        ttlMs,
        replace,
        ...(holder === undefined ? {} : { peer: node.rootOf(eidHex(foreign(node, holder))) }),
        ...(burst === undefined && perMin === undefined ? {} : { limits: limitsOf(burst, perMin) })
      })
      const url = node.agentUrl(hosted)
      return { ...grantView(node, grant), credential, ...(url === undefined ? {} : { url }) }
    },
    async 'grant.list'({ agent, all }) {
      const home = agent === undefined ? undefined : homeOf(node.agents.get(agent))
      const inForce = grants.list().filter((grant) => grants.state(grant) === 'in-force')
      return {
        grants: (all === true ? grants.list() : inForce)
          .filter((grant) => home === undefined || grant.agent === home)
          .map((grant) => grantView(node, grant)),
        inForce: inForce.length,
        max: GRANTS_MAX,
        limits: sendBuckets.limits,
        counts: { ...sendBuckets.counts(), withoutGrant: access.refused }
      }
    },
    'grant.show': async ({ id }) => grantView(node, found(node, id)),
    'grant.revoke': async ({ id }) => grantView(node, await grants.revoke(found(node, id).id)),
    'grant.tune': async ({ id, burst, perMin }) => grantView(node, await grants.tune(found(node, id).id, limitsOf(burst, perMin)))
  }
}

function limitsOf(burst: number | undefined, perMin: number | undefined): Partial<SendLimits> {
  return { ...(burst === undefined ? {} : { burst }), ...(perMin === undefined ? {} : { perMin }) }
}

/** Our own agents need none. @throws RookeryError `GRANT_INVALID`; ProtocolError `DID_INVALID` */
function foreign(node: RookeryNode, did: string): Uint8Array & ReturnType<typeof eidFromDid> {
  const eid = eidFromDid(did)
  if (node.agents.ofAnyEid(eid) === undefined) return eid
  throw new RookeryError('GRANT_INVALID', 'an agent of this node needs no grant: its own token does', {
    kind: 'usage',
    field: 'for',
    value: did,
    remedy: 'name an agent of another node'
  })
}

export function grantView(node: RookeryNode, grant: GrantRow): GrantView {
  const { id, name, agent, verbs, queues, peer, hash, limits = {}, origin, createdAtMs, expiresAtMs, revokedAtMs } = grant
  return {
    id,
    name,
    agent: node.agents.list().find((one) => homeOf(one) === agent)?.name ?? agent,
    state: node.grants.state(grant),
    verbs,
    ...(queues === undefined ? {} : { queues }),
    ...(peer === undefined ? {} : { for: eidToDid(node.newestEid(toEid(fromHex(peer)))) }),
    bearer: hash !== undefined,
    limits: node.sendBuckets.limitsOf(id),
    ownLimits: limits,
    origin,
    createdAtMs,
    expiresAtMs,
    ...(revokedAtMs === undefined ? {} : { revokedAtMs })
  }
}

/** @throws RookeryError `GRANT_UNKNOWN`, `GRANT_AMBIGUOUS` */
function found(node: RookeryNode, prefix: string): GrantRow {
  const matches = node.grants.list().filter(({ id }) => id.startsWith(prefix))
  if (matches.length === 1) return matches[0] as GrantRow
  const isUnknown = matches.length === 0
  throw new RookeryError(
    isUnknown ? 'GRANT_UNKNOWN' : 'GRANT_AMBIGUOUS',
    isUnknown ? `no grant has the id ${prefix}` : `${matches.length} grants begin with ${prefix}`,
    {
      kind: isUnknown ? 'notFound' : 'usage',
      field: 'id',
      value: prefix,
      remedy: isUnknown ? 'list them with `rookery grant list --all`' : 'give more digits of the one that is meant'
    }
  )
}

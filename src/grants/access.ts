import { fromHex } from '../../protocol/bytes.ts'
import { type EidHex, eidHex, eid as toEid } from '../../protocol/identity/eid.ts'
import { A2aError, grantEnded } from '../a2a/a2a-error.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Successions } from '../identity/successions.ts'
import type { Logger } from '../platform/logger.ts'
import type { JsonObject } from '../tasks/todo.ts'
import type { GrantRow } from './grant.ts'
import type { Grants } from './grants.ts'
import { type GrantVerb, ownerPrincipal, type VerifiedPrincipal } from './principal.ts'
import type { SendBuckets } from './send-buckets.ts'

/** Whether agents of other nodes need a grant to do anything at all with ours (TD-07). */
export type PeerAccess = 'required' | 'anyone'

export interface AccessComponents {
  grants: Grants
  buckets: SendBuckets
  agents: { byToken(text: string): LocalAgent | undefined; ofAnyEid(eid: Uint8Array): LocalAgent | undefined }
  successions: Pick<Successions, 'rootOf' | 'predecessors'>
  logger: Logger
}

/** No principal is called so. */
export const STRANGERS_SLOT = 'strangers'
/** Longest bearer credential that is looked at. */
export const CREDENTIAL_CHARS_MAX = 512

const VERB_OF: Readonly<Record<string, GrantVerb>> = {
  SendMessage: 'send',
  SendStreamingMessage: 'send',
  GetTask: 'read',
  ListTasks: 'read',
  SubscribeToTask: 'read',
  GetExtendedAgentCard: 'read',
  CancelTask: 'cancel',
  CreateTaskPushNotificationConfig: 'push',
  GetTaskPushNotificationConfig: 'push',
  ListTaskPushNotificationConfigs: 'push',
  DeleteTaskPushNotificationConfig: 'push'
}

/** What a call of A2A needs: a send that brings a webhook along needs both. */
export function verbsOf(method: string, params: JsonObject): GrantVerb[] {
  const verb = VERB_OF[method]
  if (verb === undefined) return ['send']
  const { configuration } = params
  const bringsWebhook = verb === 'send' && isRecord(configuration) && isRecord(configuration.taskPushNotificationConfig)
  return bringsWebhook ? [verb, 'push'] : [verb]
}

/** A message that names no task may make one: it costs a token of its grant's bucket (G-58). */
export function makesTask(method: string, params: JsonObject): boolean {
  return VERB_OF[method] === 'send' && isRecord(params.message) && params.message.taskId === undefined
}

/**
 * Who asks, and whether they may: the one answer for HTTP, sessions, the mailbox, MCP and the library (TD-03 … TD-05, TD-35). Nothing here makes, widens or prolongs
 * a grant (TD-02).
 */
export class Access {
  readonly #c: AccessComponents
  readonly #peers: () => PeerAccess
  /** refusals for want of a grant since the start */
  refused = 0

  constructor(components: AccessComponents, { peers }: { peers: () => PeerAccess }) {
    this.#c = components
    this.#peers = peers
  }

  /** Whose bearer credential it is: an agent's token, or a grant in force. */
  ofBearer(text: string): VerifiedPrincipal | undefined {
    if (text.length > CREDENTIAL_CHARS_MAX) return undefined
    const grant = this.#c.grants.ofCredential(text)
    if (grant !== undefined) return this.#ofGrant(grant)
    const agent = this.#c.agents.byToken(text)
    return agent === undefined ? undefined : ownerPrincipal(agent)
  }

  /** The EID that a session proved, with its grant for the agent where there is one; a peer that rotated keeps what it had. */
  ofPeer(agent: EidHex, remote: EidHex): VerifiedPrincipal {
    const { successions } = this.#c
    const root = successions.rootOf(remote)
    const grant = this.#grantOf(agent, remote)
    if (grant !== undefined && this.#c.grants.state(grant) === 'in-force')
      return { ...this.#ofGrant(grant), id: `eid:${root}`, eid: remote }
    return { kind: 'peer', id: `eid:${root}`, eid: remote, name: remote }
  }

  /** What a queue counts messages of a remote EID against (G-13): its grant where it has one, else the one slot that all strangers share; fresh EIDs are free. */
  slotOf(agent: EidHex, remote: EidHex): string {
    if (this.#c.agents.ofAnyEid(fromHex(remote)) !== undefined) return `eid:${this.#c.successions.rootOf(remote)}`
    const { kind, id } = this.ofPeer(agent, remote)
    return kind === 'peer' ? STRANGERS_SLOT : id
  }

  #grantOf(agent: EidHex, remote: EidHex): GrantRow | undefined {
    const { grants, successions } = this.#c
    const direct = grants.ofPeer(agent, successions.rootOf(remote)) ?? grants.ofPeer(agent, remote)
    if (direct !== undefined) return direct
    for (const before of successions.predecessors(toEid(fromHex(remote)))) {
      const grant = grants.ofPeer(agent, eidHex(before))
      if (grant !== undefined) return grant
    }
    return undefined
  }

  #ofGrant(grant: GrantRow): VerifiedPrincipal {
    const { id, agent, verbs, queues, peer, name } = grant
    const ended = this.#c.grants.ended(grant)
    return {
      kind: 'grant',
      id: peer === undefined ? `grant:${id}` : `eid:${this.#c.successions.rootOf(peer)}`,
      eid: peer ?? agent,
      name,
      grant: { id, agent, verbs, ended, ...(queues === undefined ? {} : { queues }) }
    }
  }

  /**
   * Whether the principal may do this with this agent, now.
   * @param asked.agent - what the agent's things are filed under
   * @param asked.queue - the named queue that work shall go into, where the caller names one; see {@link queueOf}
   * @throws A2aError `UNAUTHENTICATED` (the grant has ended), `PERMISSION_DENIED`
   */
  authorize(principal: VerifiedPrincipal, asked: { agent: EidHex; verb: GrantVerb; queue?: string | undefined }): void {
    const refusal = this.#refusal(principal, asked)
    if (refusal === undefined) return
    this.refused++
    this.#c.logger.debug({ principal: principal.name, verb: asked.verb, cause: refusal.metadata.cause }, 'refused for want of a grant')
    throw refusal
  }

  #refusal(
    { kind, grant, eid }: VerifiedPrincipal,
    { agent, verb, queue }: { agent: EidHex; verb: GrantVerb; queue?: string | undefined }
  ): A2aError | undefined {
    switch (kind) {
      case 'owner':
        return undefined
      case 'peer':
        if (this.#peers() === 'anyone' && this.#grantOf(agent, eid)?.revokedAtMs === undefined) return undefined
        return denied(
          'NO_GRANT',
          'this agent takes work of those alone that its owner granted it: send a friend request, and wait for the approval'
        )
      case 'grant':
        if (grant === undefined) throw new TypeError('a principal of kind grant without its grant')
        if (grant.ended.aborted) return grantEnded()
        if (grant.agent !== agent) return denied('GRANT_SCOPE', 'the grant is for another agent')
        if (!grant.verbs.includes(verb)) return denied('GRANT_SCOPE', `the grant does not allow "${verb}"`, { verb })
        if (queue === undefined || grant.queues === undefined || grant.queues.includes(queue)) return undefined
        return denied('GRANT_SCOPE', 'the grant is for another queue', { queue })
    }
  }

  /**
   * Takes a token of the grant's bucket for a task that is about to be made; principals without a grant have none (TD-19).
   * @returns what gives it back, for a message that turns out to have come before
   * @throws A2aError `SEND_RATE_LIMITED`
   */
  takeToken(principal: VerifiedPrincipal): () => void {
    const { grant } = principal
    if (grant === undefined) return () => {}
    const { buckets, logger } = this.#c
    const waitSec = buckets.take(grant.id)
    if (waitSec === 0) return () => buckets.giveBack(grant.id)
    const { burst, perMin } = buckets.limitsOf(grant.id)
    logger.warn(
      { event: 'grant-rate-limited', grant: grant.id, name: principal.name, burst, perMin, waitSec },
      'a grant makes tasks too fast'
    )
    throw new A2aError('SEND_RATE_LIMITED', `this grant makes at most ${burst} tasks at once and ${perMin} a minute`, {
      retryAfterSec: waitSec,
      metadata: { cause: 'GRANT_RATE', burst: String(burst), perMin: String(perMin) }
    })
  }

  /** The queue that work of this stored principal goes into: the first that its grant is bound to (TD-04). */
  queueOf(agent: LocalAgent, principal: string): string | undefined {
    const { grants } = this.#c
    const id = /^grant:([0-9a-f]{16})$/.exec(principal)?.[1]
    const peer = /^eid:([0-9a-f]{64})$/.exec(principal)?.[1]
    const grant = id !== undefined ? grants.get(id) : peer !== undefined ? this.#grantOf(homeOf(agent), peer as EidHex) : undefined
    return grant?.queues?.[0]
  }

  /** Whether a message of this issuer may become a task of the agent, as it is handed over (G-13): what its session would be asked. */
  maySend(agent: EidHex, issuer: EidHex): boolean {
    return this.#refusal(this.ofPeer(agent, issuer), { agent, verb: 'send' }) === undefined
  }

  /** The same for what a grant left in the queue, by the principal that is stored with it. */
  maySendStill(agent: LocalAgent, principal: string): boolean {
    const id = /^grant:([0-9a-f]{16})$/.exec(principal)?.[1]
    const grant = id === undefined ? undefined : this.#c.grants.get(id)
    if (id === undefined) {
      const peer = /^eid:([0-9a-f]{64})$/.exec(principal)?.[1]
      return peer !== undefined && (this.#c.agents.ofAnyEid(fromHex(peer)) !== undefined || this.maySend(homeOf(agent), peer as EidHex))
    }
    return (
      grant !== undefined && grant.agent === homeOf(agent) && this.#c.grants.state(grant) === 'in-force' && grant.verbs.includes('send')
    )
  }
}

function denied(cause: string, message: string, more: Record<string, string> = {}): A2aError {
  return new A2aError('PERMISSION_DENIED', message, { metadata: { cause, ...more } })
}

function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

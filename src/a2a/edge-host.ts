import { type Eid, type EidHex, eidFromDid, eidHex } from '../../protocol/identity/eid.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { A2aError, toA2aError } from './a2a-error.ts'
import { checkBearer } from './bearer.ts'
import type { A2aEdgeComponents, A2aEdgeSettings, RemoteAgents } from './edge.ts'
import type { Exchange } from './http-exchange.ts'

/** What the edge lends its doors: who a path names, who asks, and how much may be at work. */
export class EdgeHost {
  readonly components: A2aEdgeComponents
  readonly settings: A2aEdgeSettings
  readonly #publicUrl: () => string
  readonly #onIdle: () => void
  readonly #isStopping: () => boolean
  #working = 0
  #streaming = 0

  constructor(
    components: A2aEdgeComponents,
    settings: A2aEdgeSettings,
    edge: { publicUrl: () => string; onIdle: () => void; isStopping: () => boolean }
  ) {
    this.components = components
    this.settings = settings
    this.#publicUrl = edge.publicUrl
    this.#onIdle = edge.onIdle
    this.#isStopping = edge.isStopping
  }

  /** what the cards name, without a slash at the end */
  get publicUrl(): string {
    return this.#publicUrl()
  }

  get clock(): Clock {
    return this.components.clock ?? systemClock
  }

  get isWorking(): boolean {
    return this.#working > 0 || this.#streaming > 0
  }

  /** @throws A2aError `AGENT_UNKNOWN` */
  defaultAgent(): LocalAgent {
    const agent = this.components.agents.defaultAgent()
    if (agent === undefined) throw new A2aError('AGENT_UNKNOWN', 'this node has no agent: add one with `rookery agent add`')
    return agent
  }

  /** Whom the path means; without a did the default agent. @throws A2aError `AGENT_UNKNOWN` */
  targetOf({ did }: Exchange): Eid {
    if (did === undefined) return this.defaultAgent().eid
    try {
      return eidFromDid(did)
    } catch (cause) {
      throw new A2aError('AGENT_UNKNOWN', 'the path names no did:key of an Ed25519 key (did:key:z6Mk…)', {
        metadata: { field: 'did' },
        cause
      })
    }
  }

  /** @throws A2aError `AGENT_ROTATED` for a former EID of ours: it names the new one and does nothing */
  agentAt(target: Eid): LocalAgent | undefined {
    const { agents } = this.components
    const name = eidHex(target)
    const found = agents.get(name)
    const now = found === undefined ? agents.formerly?.(name) : undefined
    if (now === undefined) return found
    throw new A2aError('AGENT_ROTATED', `this agent goes by another identity now: ${now.did}`, { metadata: { did: now.did } })
  }

  /** Whether the path names an agent of ours that takes no work now; what it names else is judged later. */
  sleeps(exchange: Exchange): boolean {
    try {
      const agent = this.components.agents.get(eidHex(this.targetOf(exchange)))
      return agent !== undefined && this.components.local.reachability(agent).state === 'asleep'
    } catch {
      return false
    }
  }

  /**
   * Whose credential the request shows. The body of a stranger, and of who holds a grant for another agent than the path names, is not read.
   * @throws A2aError `UNAUTHENTICATED`, `PERMISSION_DENIED`
   */
  authenticated(exchange: Exchange): VerifiedPrincipal {
    const principal = checkBearer(exchange.header('authorization'), this.components.authenticate)
    if (principal.grant !== undefined && !this.#isHomeOf(exchange, principal.grant.agent)) throw otherAgent()
    return principal
  }

  #isHomeOf(exchange: Exchange, home: EidHex): boolean {
    const { agents } = this.components
    const name = eidHex(this.targetOf(exchange))
    const agent = agents.get(name) ?? agents.formerly?.(name)
    return agent !== undefined && homeOf(agent) === home
  }

  /** What a call to an agent of another node goes out by: in the name of one of our agents alone. @throws A2aError `AGENT_UNKNOWN`, `PERMISSION_DENIED` */
  remoteFor({ owner }: VerifiedPrincipal): { remote: RemoteAgents; from: LocalAgent } {
    const { remote } = this.components
    if (owner === undefined) throw otherAgent()
    if (remote === undefined) throw new A2aError('AGENT_UNKNOWN', 'no such agent on this node')
    return { remote, from: owner }
  }

  /** @throws A2aError `RATE_LIMITED`; or what `work` throws */
  async atWork(work: () => Promise<void>): Promise<void> {
    const { requestsMax } = this.settings
    if (this.#working >= requestsMax) {
      throw new A2aError('RATE_LIMITED', `${requestsMax} requests are at work already`, { retryAfterSec: 1 })
    }
    this.#working++
    try {
      await work()
    } finally {
      this.#working--
      this.#onIdle()
    }
  }

  /** An answer that goes on: bounded by the streams' own caps. */
  async streaming(work: () => Promise<void>): Promise<void> {
    this.#streaming++
    try {
      await work()
    } catch (err) {
      this.components.logger.error({ err }, 'a stream could not be written')
    } finally {
      this.#streaming--
      this.#onIdle()
    }
  }

  /** In the words of A2A; what is our own fault goes into the log. */
  logged(err: unknown): A2aError {
    const error = toA2aError(err)
    const isOurs = error.reason === 'INTERNAL_ERROR' || error.reason === 'STORE_FAILED'
    const isStop = error.cause === undefined && this.#isStopping()
    if (isOurs && !isStop) {
      this.components.logger.error({ err: error.cause ?? err }, 'an A2A request failed')
    }
    return error
  }
}

function otherAgent(): A2aError {
  return new A2aError('PERMISSION_DENIED', 'the grant is for another agent', { metadata: { cause: 'GRANT_SCOPE' } })
}

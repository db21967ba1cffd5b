import { equals } from '../protocol/bytes.ts'
import { eidHex, eidToDid } from '../protocol/identity/eid.ts'
import type { AgentPublishing } from './agent-publishing.ts'
import { RookeryError } from './errors.ts'
import type { LocalAgent } from './identity/agent.ts'
import type { HostedAgent } from './identity/hosted-agent.ts'
import type { NodeParts } from './node-parts.ts'
import type { Logger } from './platform/logger.ts'
import type { PublishOptions } from './spaces/spaces.ts'

/** The secret of a former EID is kept no longer (protocol/README.md §6). */
export const RETIRING_MS_MAX = 86_400_000

export interface RotationReport {
  /** did:key that the agent had, and that it has now */
  old: string
  did: string
  /** former identities that some session still goes by */
  unacknowledged: number
}

/** Our agents' changes of EID (protocol/README.md §1, §6): told to the peers, what was published moved, the old secret destroyed in the end. */
export class AgentRotations {
  readonly #parts: NodeParts
  readonly #log: Logger
  readonly #publishing: AgentPublishing
  readonly #signal: AbortSignal
  /** former EIDs of our agents whose records are withdrawn; as many as are retiring */
  readonly #moved = new Set<string>()

  /** @param signal - fires when the node stops */
  constructor(parts: NodeParts, publishing: AgentPublishing, signal: AbortSignal) {
    this.#parts = parts
    this.#log = parts.logger.child('node')
    this.#publishing = publishing
    this.#signal = signal
  }

  async rotate(agent: HostedAgent, options: PublishOptions = {}): Promise<RotationReport> {
    const { agents, sessions } = this.#parts
    const { old } = agents.rotate(agent)
    await sessions.rotated(agent)
    options.onProgress?.('moving what was published')
    await this.#publishing.patiently(this.#moveRecords(agent))
    return { old: eidToDid(old), did: agent.did, unacknowledged: sessions.unsettled(agent).length }
  }

  /** What an earlier run began. */
  goOn(agent: HostedAgent): void {
    if (!isRetiring(agent)) return
    this.#parts.sessions.rotated(agent).catch((error: unknown) => {
      if (!this.#signal.aborted) this.#log.warn({ agent: agent.name, err: error }, 'a rotation could not be told to every session')
    })
    void this.#moveRecords(agent)
  }

  /** The old names' records are withdrawn or handed over, the new locator published. What fails is tried again by the maintenance. */
  async #moveRecords(agent: HostedAgent): Promise<void> {
    const published = this.#publishing.publish(agent)
    for (const { eid: old, retiring } of agent.former) {
      const name = eidHex(old)
      const before = retiring === undefined || this.#moved.has(name) ? undefined : agent.as(old)
      if (before === undefined) continue
      this.#moved.add(name)
      try {
        if (this.#parts.publishing === 'automatic') {
          await this.#withdrawLocator(before)
          await this.#parts.mailRecords.withdraw(before, { signal: this.#signal })
          await this.#parts.spaces.handOver(before, agent, { signal: this.#signal })
          await this.#parts.points.handOver(before, agent, { signal: this.#signal })
        }
      } catch (error) {
        this.#moved.delete(name)
        if (!this.#signal.aborted)
          this.#log.warn({ agent: agent.name, err: error }, 'what a former identity published is not withdrawn yet')
      }
    }
    await published
    this.retire(agent)
  }

  async #withdrawLocator(before: LocalAgent): Promise<void> {
    try {
      await this.#parts.locators.withdraw(before, { signal: this.#signal })
    } catch (error) {
      if (!(error instanceof RookeryError && error.code === 'AGENT_WITHDRAWN')) throw error // an earlier run did it
    }
  }

  /** Secrets of former EIDs that nobody needs any more are destroyed, on disk and in memory. */
  retire(agent: LocalAgent): void {
    const hosted = this.#parts.agents.byEid(agent.eid)
    if (hosted === undefined || !isRetiring(hosted)) return
    const open = this.#parts.sessions.unsettled(hosted)
    const oldest = hosted.former.findIndex(({ eid: one }) => open.some((other) => equals(one, other)))
    const nowMs = this.#parts.clock.nowMs()
    const destroyed = this.#parts.agents.retire(hosted, (former) => {
      if (Math.abs(nowMs - former.rotatedAtMs) >= RETIRING_MS_MAX) return true
      const isSettled = oldest < 0 || hosted.former.indexOf(former) < oldest
      return isSettled && this.#moved.has(eidHex(former.eid))
    })
    if (destroyed === 0) return
    this.#log.info({ agent: hosted.name, destroyed }, 'secrets of former identities are destroyed')
    this.#parts.sessions
      .rotated(hosted)
      .catch((error: unknown) => this.#log.debug({ err: error }, 'a rotation could not be told to every session'))
  }

  /** What could not be moved before is tried again. */
  async maintain(): Promise<void> {
    for (const agent of this.#parts.agents.list()) if (isRetiring(agent)) await this.#moveRecords(agent)
  }
}

function isRetiring(agent: HostedAgent): boolean {
  return agent.former.some(({ retiring }) => retiring !== undefined)
}

import { equals } from '../../protocol/bytes.ts'
import type { Signer } from '../../protocol/crypto/provider.ts'
import { type Eid, eidHex } from '../../protocol/identity/eid.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { DurableSession } from './durable-session.ts'
import { type PairKey, pairKey } from './session-index.ts'
import type { SessionAgents } from './settings.ts'

/** Our agents under every EID that they have or had. */
export class OwnIdentities {
  readonly #agents: SessionAgents

  constructor(agents: SessionAgents) {
    this.#agents = agents
  }

  agentOf(eid: Eid): LocalAgent | undefined {
    return this.#agents.byEid(eid) ?? this.#agents.ofAnyEid?.(eid)
  }

  pairOf(local: Eid, remote: Eid): PairKey {
    const agent = this.agentOf(local)
    return pairKey(agent === undefined ? eidHex(local) : homeOf(agent), remote)
  }

  /** Undefined once its secret is gone. */
  signer(eid: Eid): Signer | undefined {
    return this.#agents.byEid(eid)?.signer ?? this.#agents.ofAnyEid?.(eid)?.signerOf(eid)
  }

  /** As the agent is, then as it was, back to what the peer surely knows; without those whose secrets are gone. */
  signersOf({ local, record }: DurableSession): Signer[] {
    const signers = [local.signer]
    if (equals(local.eid, record.local)) return signers
    const rotating = this.#agents.ofAnyEid?.(local.eid)
    for (const { eid } of [...(rotating?.former ?? [])].reverse()) {
      const signer = rotating?.signerOf(eid)
      if (signer !== undefined) signers.push(signer)
      if (equals(eid, record.local)) break
    }
    return signers
  }

  /** What the agent has been since the EID that a peer knows, oldest first. */
  eidsSince(agent: LocalAgent, known: Eid): Eid[] {
    const former = this.#agents.ofAnyEid?.(agent.eid)?.former ?? []
    const from = former.findIndex(({ eid }) => equals(eid, known))
    return from < 0 ? [] : [...former.slice(from + 1).map(({ eid }) => eid), agent.eid]
  }

  /** The certificates that lead from the EID that a peer knows to the agent's own. */
  certificatesSince(agent: LocalAgent, known: Eid): Uint8Array[] {
    const former = this.#agents.ofAnyEid?.(agent.eid)?.former ?? []
    const from = former.findIndex(({ eid }) => equals(eid, known))
    return former.slice(from).flatMap(({ retiring }) => (retiring === undefined ? [] : [retiring.certificate]))
  }

  /** What a caller may mean. */
  all(): Iterable<Signer> {
    return this.#agents.identities?.() ?? this.#agents.list().map(({ signer }) => signer)
  }
}

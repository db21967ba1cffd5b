import type { EidHex } from '../../protocol/identity/eid.ts'
import { eidFromDid, eidHex } from '../../protocol/identity/eid.ts'
import type { LocalAgent } from '../identity/agent.ts'

/** One of the owner's rules: messages of these issuers may have lasting effects when they come out of the queue (OD-40, G-19). */
export interface ApprovalRule {
  name: string
  /** local name; absent: every agent of the node */
  agent?: string | undefined
  /** did:key of each issuer */
  from: readonly string[]
}

/** What a task that the queue made must wait for: the owner, nothing (it can do no lasting harm), or nothing more, since a rule approved it. */
export type Approval = 'needed' | 'none' | { by: string }

/** The owner's rules as a function of agent and verified issuer. An issuer that rotated is known by the EID it had first as well. */
export function approvalPolicy(
  rules: readonly ApprovalRule[],
  { rootOf }: { rootOf: (eidHex: EidHex) => EidHex }
): (agent: LocalAgent, issuer: EidHex) => { by: string } | undefined {
  const known = rules.map(({ name, agent, from }) => ({ name, agent, from: new Set(from.map((did) => eidHex(eidFromDid(did)))) }))
  return (agent, issuer) => {
    const rule = known.find((one) => (one.agent ?? agent.name) === agent.name && (one.from.has(issuer) || one.from.has(rootOf(issuer))))
    return rule === undefined ? undefined : { by: `policy:${rule.name}` }
  }
}

/** As {@link approvalPolicy}, over rules that the owner may change while the node runs. */
export function currentPolicy(
  rules: () => readonly ApprovalRule[],
  components: { rootOf: (eidHex: EidHex) => EidHex }
): ReturnType<typeof approvalPolicy> {
  let of = rules()
  let policy = approvalPolicy(of, components)
  return (agent, issuer) => {
    if (rules() !== of) {
      of = rules()
      policy = approvalPolicy(of, components)
    }
    return policy(agent, issuer)
  }
}

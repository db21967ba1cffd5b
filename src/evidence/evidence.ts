import type { RebuttalKind } from '../../protocol/evidence/escrow.ts'
import type { Evidence, EvidenceKind } from '../../protocol/evidence/proof.ts'
import type { Eid, EidHex } from '../../protocol/identity/eid.ts'
import type { LocatorRecord } from '../../protocol/records/locator.ts'
import type { SessionPolicy } from '../sessions/settings.ts'

export type Standing = 'nominal' | 'challenged' | 'slashed'

/**
 * What became of a piece of evidence. `full`: this node keeps no further verdicts; `busy`: its sender has used up its minute; `unsigned`: this node
 * has no agent to accuse with.
 */
export type Verdict = 'challenged' | 'known' | 'rebutted' | 'full' | 'busy' | 'unsigned'

/** Everything that a node says of one identity that is not simply nominal. Times are Unix ms. */
export interface StandingView {
  did: string
  standing: Standing
  /** sessions are refused, by evidence or by this node's own experience */
  refused: boolean
  evidence?: {
    kind: EvidenceKind
    /** who signed the ticket that was believed first; its word counts for nothing */
    accuser: string
    /** found by this node, or told by another */
    origin: Origin
    challengedAtMs: number
    /** when the escrow ends, or ended */
    deadlineMs: number
    slashedAtMs?: number
  }
  /** whether the ledger was told; `due` while it is being told */
  ledger: 'none' | 'due' | 'told'
  /** this node's own ticket: none, not yet at the registrars, or published */
  ticket: 'none' | 'waiting' | 'published'
  /** this node's own experience, which proves nothing to others */
  distrusted?: { reason: string; untilMs: number }
  /** the owner had done with this identity before */
  retired?: { by: RebuttalKind; heldSinceMs: number }
}

/** Who brought the evidence: this node saw both items itself, or somebody's ticket came in. */
export type Origin = 'own' | 'told'

/** What registrars and the registry's client ask and tell (protocol/README.md §8): all synchronous, none of it waits. */
export interface RegistryEvidence {
  /** joins of this identity are dropped */
  refusesJoins(member: Eid): boolean
  /** a verified ticket arrived in a set or a listing */
  onTicket(record: Uint8Array): void
  /** a join arrived, of an identity that this node may know nothing about yet */
  onMember(member: Eid): void
  onEquivocation(pair: Evidence): void
}

/** What holders and readers of the DHT tell: records that passed every check, and two of them that contradict each other. */
export interface RecordEvidence {
  onLocator(record: LocatorRecord): void
  onEquivocation(pair: Evidence): void
}

/** What sessions ask and tell. */
export interface SessionEvidence {
  /** refuses callers that are challenged, slashed or distrusted */
  readonly policy: SessionPolicy
  /** @throws RookeryError `AGENT_REFUSED`: the same for calls to them */
  admit(eid: Eid): void
  /**
   * Two checkpoints of the peer that contradict each other. Gives the signed ticket for REVOCATION_PUBLISH at once, from what is held; storing and
   * publishing go on whatever the session does next.
   * @param options.firstSeenMs - when the earlier of the two arrived
   * @returns undefined when this node has no agent to sign with
   * @throws ProtocolError as `verifyEvidence`: what proves nothing is not published
   */
  onCheckpointPair(target: Eid, a: Uint8Array, b: Uint8Array, options?: { firstSeenMs?: number }): Uint8Array | undefined
  /** REVOCATION_PUBLISH came from a peer: its ticket is judged like any other. @throws ProtocolError */
  onRevocation(payload: Uint8Array, from: { peer: string }): Promise<Verdict>
  /** A rotation certificate came in an established session; `old` must be what the session proved, the session checks that. @throws ProtocolError */
  onRotation(certificate: Uint8Array): Promise<void>
  /** What proves nothing to others: a leak, a breach of contract, contradictions across epochs. Refused here for a day. */
  distrust(eid: Eid, reason: string): Promise<void>
}

/** The node's evidence: verdicts, tickets, the blacklist. */
export interface EvidenceService extends RegistryEvidence, RecordEvidence, SessionEvidence {
  standing(eid: Eid): Standing
  /** Evidence that this node found: judged, stored, acted upon, published. @throws ProtocolError as `verifyEvidence` */
  found(evidence: Evidence, options?: { firstSeenMs?: number; publish?: 'now' | 'unless-known' }): Promise<Verdict>
  /** A ticket that somebody else signed. @throws ProtocolError: an invalid one changes nothing */
  accept(record: Uint8Array, options?: { from?: string }): Promise<Verdict>
  /** Asks the registrars of the EID's tickets and judges what they serve. */
  check(eid: Eid, options?: { signal?: AbortSignal }): Promise<Standing>
  view(eid: Eid): StandingView
  /** All that are not nominal, refused or retired; at most `limit`. */
  list(options?: { limit?: number }): StandingView[]
  onStanding(listener: (eid: EidHex, standing: Standing) => void): void
  /** Resolves when nothing that was handed in is still being judged. */
  idle(): Promise<void>
  stop(): Promise<void>
}

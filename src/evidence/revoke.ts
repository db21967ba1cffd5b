import { ProtocolError } from '../../protocol/errors.ts'
import { encodeRevocation, REVOCATION_REASONS } from '../../protocol/evidence/revocation.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { SessionEvidence } from './evidence.ts'

/** What a forced teardown needs of a session. */
export interface RevocableSession {
  /** the EID that it proved */
  readonly remote: Eid
  /** Seals REVOCATION_PUBLISH, then destroys the session's keys and values; nothing of them is left when it returns. */
  revoke(payload: Uint8Array): Uint8Array
  send(frame: Uint8Array): Promise<void>
}

/**
 * The peer signed two checkpoints that contradict each other (protocol/README.md §6, REVOCATION): the ticket is built from what is held and the frame sealed,
 * the local session and its keys are destroyed, then the frame is sent; the ticket is stored and goes to the registry whatever the peer does.
 * @param pair - 185 bytes each; `firstSeenMs`: when the earlier arrived, Unix ms
 * @returns `unproven` when they prove nothing, or this node has no agent to accuse with: the session is as it was, and is closed by its owner
 */
export async function revokeByCheckpoints(
  evidence: SessionEvidence,
  session: RevocableSession,
  { a, b, firstSeenMs }: { a: Uint8Array; b: Uint8Array; firstSeenMs: number }
): Promise<'revoked' | 'unproven'> {
  let pom: Uint8Array | undefined
  try {
    pom = evidence.onCheckpointPair(session.remote, a, b, { firstSeenMs })
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error
  }
  if (pom === undefined) return 'unproven'
  const frame = session.revoke(encodeRevocation({ reason: REVOCATION_REASONS.sequence, pom }))
  try {
    await session.send(frame)
  } catch {
    // whether the accused hears of it changes nothing
  }
  return 'revoked'
}

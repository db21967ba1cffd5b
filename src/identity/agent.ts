import type { Signer } from '../../protocol/crypto/provider.ts'
import type { ReachabilityMode, WakeWindow } from '../../protocol/delivery/modes.ts'
import type { Did, Eid, EidHex } from '../../protocol/identity/eid.ts'

/** An agent shows no longer chain of rotations than this; others remember none longer. */
export const ROTATION_PROOFS_MAX = 8

/** What the owner set about an agent's reachability; persisted, published in locator, card and status. */
export interface AgentReachability {
  mode: ReachabilityMode
  window?: WakeWindow
  /** with `sleep --until`: when the agent means to be back, Unix ms */
  untilMs?: number
  /** `off`: nothing is kept in the modes that would (OD-09, OD-11); absent: it is */
  queueing?: 'off'
}

/** An agent that this node hosts: its EID, its keys and its settings. Secrets are used, never shown. */
export interface LocalAgent {
  readonly name: string
  readonly eid: Eid
  readonly eidHex: EidHex
  readonly did: Did
  /** the EID that the agent began with; its tasks, queue and settings are kept under it. Absent: it never rotated */
  readonly homeHex?: EidHex
  readonly description: string
  readonly signer: Signer
  /** of EIDs that it gave up and that somebody may still know it by alone; absent: none */
  retiringSigners?(): readonly Signer[]
  /** the X25519 key that senders seal to now, 32 bytes */
  readonly mailboxKey: Uint8Array
  /** certificates from an EID that it had to the one that it has, in order, at most `ROTATION_PROOFS_MAX` */
  rotationProofs?(): Uint8Array[]
  /** the secret of one of the last three mailbox keys, by `kid` = H(key)[0..8) in hex */
  mailboxSecret(kidHex: string): Uint8Array | undefined
  readonly reachability: AgentReachability
}

/** What an agent's own things are filed under, whatever EID it has now. */
export function homeOf({ homeHex, eidHex }: Pick<LocalAgent, 'homeHex' | 'eidHex'>): EidHex {
  return homeHex ?? eidHex
}

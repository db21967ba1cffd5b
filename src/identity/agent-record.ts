import type { Eid } from '../../protocol/identity/eid.ts'
import type { HandlerName } from '../api/methods.ts'

/** protocol/README.md §1: rotated weekly, the last three kept */
export const MAILBOX_KEYS_MAX = 3

export interface MailboxKey {
  /** X25519 secret, 32 bytes */
  secret: Uint8Array
  madeAtMs: number
}

/** EIDs that an agent had, the first and the newest; more rotations forget the second. */
export const FORMER_MAX = 64

/** An EID that the agent gave up. Its secret stays while somebody may still know the agent by it alone, at most 24 h (protocol/README.md §6). */
export interface FormerIdentity {
  eid: Eid
  rotatedAtMs: number
  /** once the secret is gone: to the EID that came next, for those who meet the agent only later */
  certificate?: Uint8Array
  retiring?: {
    /** Ed25519 seed, 32 bytes */
    seed: Uint8Array
    /** to the EID that came next */
    certificate: Uint8Array
  }
}

/** What is kept of an agent that this node hosts. */
export interface AgentRecord {
  name: string
  description: string
  handler: HandlerName
  createdAtMs: number
  /** Ed25519 seed of its EID, 32 bytes */
  seed: Uint8Array
  /** newest first, 1 to {@link MAILBOX_KEYS_MAX} */
  mailbox: MailboxKey[]
  /** oldest first, at most {@link FORMER_MAX} */
  formerly: FormerIdentity[]
}

/** Where agents are kept: files of a data directory, or memory for a node that leaves none. */
export interface AgentStorage {
  /** @throws RookeryError `KEY_FILE_INVALID` */
  load(): { record: AgentRecord; token: Uint8Array }[]
  save(record: AgentRecord): void
  /** Written before the record, so that an agent never stands without its token. */
  saveToken(name: string, token: Uint8Array): void
  tokenFile(name: string): string | undefined
}

/** Nothing on disk. */
export class AgentMemory implements AgentStorage {
  readonly #records: { record: AgentRecord; token: Uint8Array }[]

  constructor(records: { record: AgentRecord; token: Uint8Array }[] = []) {
    this.#records = records
  }

  load(): { record: AgentRecord; token: Uint8Array }[] {
    return this.#records
  }

  save(): void {}
  saveToken(): void {}
  tokenFile(): undefined {}
}

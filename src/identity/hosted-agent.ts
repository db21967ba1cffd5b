import { concat, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import { mailboxKid } from '../../protocol/delivery/object.ts'
import { type Did, type Eid, type EidHex, eid, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import type { HandlerName } from '../api/methods.ts'
import type { AgentReachability, LocalAgent } from './agent.ts'
import { type AgentRecord, MAILBOX_KEYS_MAX, type MailboxKey } from './agent-file.ts'

export const MAILBOX_ROTATE_MS = 7 * 86_400_000

/** {@link LocalAgent} over its record; what changes in its life is the reachability and the mailbox keys. */
export class HostedAgent implements LocalAgent {
  readonly name: string
  readonly eid: Eid
  readonly eidHex: EidHex
  readonly did: Did
  readonly description: string
  readonly handler: HandlerName
  readonly createdAtMs: number
  readonly signer: Signer
  readonly #crypto: CryptoProvider
  readonly #seed: Uint8Array
  #mailbox: readonly MailboxKey[]
  #mailboxPublic: Uint8Array
  #secrets: Map<string, Uint8Array>
  #reachability: AgentReachability

  constructor(crypto: CryptoProvider, record: AgentRecord, reachability: AgentReachability) {
    const publicKey = crypto.ed25519.publicKey(record.seed)
    this.name = record.name
    this.eid = eid(publicKey)
    this.eidHex = eidHex(this.eid)
    this.did = eidToDid(this.eid)
    this.description = record.description
    this.handler = record.handler
    this.createdAtMs = record.createdAtMs
    this.#crypto = crypto
    this.#seed = record.seed
    this.signer = { publicKey, sign: (message) => crypto.ed25519.sign(record.seed, message) }
    this.#mailbox = record.mailbox
    this.#mailboxPublic = publicKey
    this.#secrets = new Map()
    this.#useMailbox(record.mailbox)
    this.#reachability = reachability
  }

  get mailboxKey(): Uint8Array {
    return this.#mailboxPublic
  }

  mailboxSecret(kidHex: string): Uint8Array | undefined {
    return this.#secrets.get(kidHex)
  }

  get reachability(): AgentReachability {
    return this.#reachability
  }

  setReachability(next: AgentReachability): void {
    this.#reachability = next
  }

  /** The record with a fresh mailbox key where the newest is a week old; undefined where none is due. A clock that went back rotates nothing. */
  rotated(nowMs: number, secret: () => Uint8Array): AgentRecord | undefined {
    const newest = this.#mailbox[0]
    if (newest !== undefined && nowMs - newest.madeAtMs < MAILBOX_ROTATE_MS) return undefined
    return { ...this.record(), mailbox: [{ secret: secret(), madeAtMs: nowMs }, ...this.#mailbox].slice(0, MAILBOX_KEYS_MAX) }
  }

  /** Takes keys into use; call it once they are on disk. */
  useMailbox(keys: readonly MailboxKey[]): void {
    this.#useMailbox(keys)
  }

  #useMailbox(keys: readonly MailboxKey[]): void {
    this.#mailbox = keys
    this.#secrets = new Map()
    for (const key of keys) this.#secrets.set(toHex(mailboxKid(this.#crypto, this.#crypto.x25519.publicKey(key.secret))), key.secret)
    this.#mailboxPublic = this.#crypto.x25519.publicKey((keys[0] as MailboxKey).secret)
  }

  record(): AgentRecord {
    const { name, description, handler, createdAtMs } = this
    return { name, description, handler, createdAtMs, seed: this.#seed, mailbox: [...this.#mailbox] }
  }

  /** Secrets stay out of logs and JSON. */
  toJSON(): object {
    return { name: this.name, did: this.did }
  }
}

/** The name under which stores and logs know a token: its hash. */
export function tokenHash(crypto: CryptoProvider, tokenText: string): Uint8Array {
  return crypto.sha256(concat([new TextEncoder().encode('rookery/agent-token\0'), new TextEncoder().encode(tokenText)]))
}

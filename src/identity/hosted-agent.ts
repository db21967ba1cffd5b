import { concat, equals, toHex, wipe } from '../../protocol/bytes.ts'
import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import { mailboxKid } from '../../protocol/delivery/object.ts'
import { type Did, type Eid, type EidHex, eid, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import type { HandlerName } from '../api/methods.ts'
import { type AgentReachability, type LocalAgent, ROTATION_PROOFS_MAX } from './agent.ts'
import { type AgentRecord, type FormerIdentity, MAILBOX_KEYS_MAX, type MailboxKey } from './agent-record.ts'

export const MAILBOX_ROTATE_MS = 7 * 86_400_000

interface Identity {
  eid: Eid
  eidHex: EidHex
  did: Did
  signer: Signer
  seed: Uint8Array
}

function identityOf(crypto: CryptoProvider, seed: Uint8Array): Identity {
  const publicKey = crypto.ed25519.publicKey(seed)
  const own = eid(publicKey)
  return {
    eid: own,
    eidHex: eidHex(own),
    did: eidToDid(own),
    seed,
    signer: { publicKey, sign: (message) => crypto.ed25519.sign(seed, message) }
  }
}

/** {@link LocalAgent} over its record; what changes in its life is the EID, the reachability and the mailbox keys. */
export class HostedAgent implements LocalAgent {
  readonly name: string
  readonly description: string
  readonly handler: HandlerName
  readonly createdAtMs: number
  readonly homeHex: EidHex
  readonly #crypto: CryptoProvider
  #identity: Identity
  #former: readonly FormerIdentity[]
  #mailbox: readonly MailboxKey[]
  #mailboxPublic: Uint8Array
  #secrets: Map<string, Uint8Array>
  #reachability: AgentReachability

  constructor(crypto: CryptoProvider, record: AgentRecord, reachability: AgentReachability) {
    this.#identity = identityOf(crypto, record.seed)
    this.#former = record.formerly
    this.homeHex = eidHex(record.formerly[0]?.eid ?? this.#identity.eid)
    this.name = record.name
    this.description = record.description
    this.handler = record.handler
    this.createdAtMs = record.createdAtMs
    this.#crypto = crypto
    this.#mailbox = record.mailbox
    this.#mailboxPublic = this.#identity.signer.publicKey
    this.#secrets = new Map()
    this.#useMailbox(record.mailbox)
    this.#reachability = reachability
  }

  get eid(): Eid {
    return this.#identity.eid
  }

  get eidHex(): EidHex {
    return this.#identity.eidHex
  }

  get did(): Did {
    return this.#identity.did
  }

  get signer(): Signer {
    return this.#identity.signer
  }

  /** EIDs that it had before, oldest first. */
  get former(): readonly FormerIdentity[] {
    return this.#former
  }

  rotationProofs(): Uint8Array[] {
    const proofs: Uint8Array[] = []
    for (const { certificate, retiring } of this.#former.toReversed()) {
      const proof = retiring?.certificate ?? certificate
      if (proof === undefined || proofs.length >= ROTATION_PROOFS_MAX) break
      proofs.unshift(proof)
    }
    return proofs
  }

  /** Whether it has this EID, or had it. */
  isOrWas(one: Uint8Array): boolean {
    return equals(one, this.eid) || this.#former.some((former) => equals(former.eid, one))
  }

  /** Signs as it is now, or as what it was while that secret is kept. */
  signerOf(one: Uint8Array): Signer | undefined {
    if (equals(one, this.eid)) return this.signer
    const seed = this.#former.find((former) => equals(former.eid, one))?.retiring?.seed
    return seed === undefined ? undefined : identityOf(this.#crypto, seed).signer
  }

  /** The newest first. */
  retiringSigners(): readonly Signer[] {
    return this.#former
      .flatMap(({ retiring }) => (retiring === undefined ? [] : [identityOf(this.#crypto, retiring.seed).signer]))
      .reverse()
  }

  /** The agent as it was, to take back what it published; undefined once that secret is gone. */
  as(one: Eid): LocalAgent | undefined {
    const signer = this.signerOf(one)
    if (signer === undefined) return undefined
    const { name, description, mailboxKey, reachability, homeHex } = this
    const mailboxSecret = (kidHex: string) => this.mailboxSecret(kidHex)
    return {
      name,
      description,
      mailboxKey,
      reachability,
      homeHex,
      mailboxSecret,
      signer,
      eid: one,
      eidHex: eidHex(one),
      did: eidToDid(one)
    }
  }

  /** Takes another EID, or lets go of former secrets; call it once the record is on disk. Secrets that are no longer in it are overwritten. */
  becomes(record: AgentRecord): void {
    const kept = new Set(record.formerly.map(({ retiring }) => retiring?.seed))
    for (const { retiring } of this.#former) if (retiring !== undefined && !kept.has(retiring.seed)) wipe(retiring.seed)
    if (record.seed !== this.#identity.seed) this.#identity = identityOf(this.#crypto, record.seed)
    this.#former = record.formerly
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
    return { name, description, handler, createdAtMs, seed: this.#identity.seed, mailbox: [...this.#mailbox], formerly: [...this.#former] }
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

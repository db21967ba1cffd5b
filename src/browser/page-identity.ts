import { CborFields, decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { RookeryError } from '../errors.ts'
import { type AgentRecord, MAILBOX_KEYS_MAX, type MailboxKey } from '../identity/agent-record.ts'
import { HostedAgent } from '../identity/hosted-agent.ts'
import { type NodeKey, nodeKeyOf } from '../identity/peer-id.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { bytesCodec, type Store, type Table } from '../store/store.ts'

const ROW = 'page'
const TIME_MAX_MS = 8_640_000_000_000_000

interface Secrets {
  /** Ed25519 seed of the PeerId, 32 bytes */
  node: Uint8Array
  /** Ed25519 seed of the EID, 32 bytes */
  agent: Uint8Array
  createdAtMs: number
  mailbox: MailboxKey[]
}

interface Components {
  store: Store
  crypto: CryptoProvider
  clock: Clock
  random: Random
}

/**
 * The agent of a page and the key of its host, kept in the page's database; made at the first start. They are seeds, in clear, readable by every script
 * of the page's origin: docs/browser.md says why, and what follows.
 */
export class PageIdentity {
  readonly agent: HostedAgent
  readonly key: NodeKey
  readonly #c: Components
  readonly #table: Table<Uint8Array>
  readonly #node: Uint8Array

  private constructor(components: Components, table: Table<Uint8Array>, secrets: Secrets, agent: { name: string; description: string }) {
    this.#c = components
    this.#table = table
    this.#node = secrets.node
    this.key = nodeKeyOf(secrets.node, components.crypto)
    const { agent: seed, createdAtMs, mailbox } = secrets
    const record: AgentRecord = { ...agent, handler: 'none', createdAtMs, seed, mailbox, formerly: [] }
    // reached over what the page itself opened, and by sessions that go on when it is back
    this.agent = new HostedAgent(components.crypto, record, { mode: 'session' })
  }

  /** @throws RookeryError `IDENTITY_INVALID`, `STORE_FULL`, `STORE_WRITE_FAILED` */
  static async open(components: Components, agent: { name: string; description: string }): Promise<PageIdentity> {
    const { store, clock, random } = components
    const table = store.table('page-identity', bytesCodec)
    const held = await table.get(ROW)
    if (held !== undefined) return new PageIdentity(components, table, decoded(held), agent)
    const createdAtMs = clock.nowMs()
    const mailbox = [{ secret: random.bytes(32), madeAtMs: createdAtMs }]
    const secrets = { node: random.bytes(32), agent: random.bytes(32), createdAtMs, mailbox }
    await store.commit([table.put(ROW, encoded(secrets))])
    return new PageIdentity(components, table, secrets, agent)
  }

  /** A fresh mailbox key where the newest is a week old, stored before it is used. @returns whether there is one */
  async rotateMailboxKey(): Promise<boolean> {
    const { store, clock, random } = this.#c
    const next = this.agent.rotated(clock.nowMs(), () => random.bytes(32))
    if (next === undefined) return false
    const { seed: agent, createdAtMs, mailbox } = next
    await store.commit([this.#table.put(ROW, encoded({ node: this.#node, agent, createdAtMs, mailbox }))])
    this.agent.useMailbox(mailbox)
    return true
  }
}

function encoded({ node, agent, createdAtMs, mailbox }: Secrets): Uint8Array {
  return encodeCbor({
    v: 1,
    node,
    agent,
    created: createdAtMs,
    mailbox: mailbox.map(({ secret, madeAtMs }) => ({ secret, made: madeAtMs }))
  })
}

/** What cannot be read is refused: a page that made itself another identity would lose its contacts (F100). */
function decoded(bytes: Uint8Array): Secrets {
  try {
    const fields = new CborFields(decodeCbor(bytes), 'identity')
    fields.uint('v', { min: 1, max: 1 })
    const secrets = {
      node: fields.bytes('node', { length: 32 }),
      agent: fields.bytes('agent', { length: 32 }),
      createdAtMs: fields.uint('created', { max: TIME_MAX_MS }),
      mailbox: fields.list('mailbox', { min: 1, max: MAILBOX_KEYS_MAX }, (item) => {
        const key = new CborFields(item, 'identity.mailbox')
        return { secret: key.bytes('secret', { length: 32 }), madeAtMs: key.uint('made', { max: TIME_MAX_MS }) }
      })
    }
    fields.end()
    return secrets
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause
    throw new RookeryError('IDENTITY_INVALID', `the identity that this page kept cannot be used: ${cause.message}`, {
      kind: 'storage',
      field: 'store',
      remedy: 'give a `store` of another name to begin with a new identity; the old one is left as it is',
      cause
    })
  }
}

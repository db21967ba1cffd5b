import { equals, fromHex, toHex } from '../../protocol/bytes.ts'
import { CborFields, decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { DEPOSIT_OBJECT_BYTES_MAX } from '../../protocol/delivery/mailbox.ts'
import { OBJECT_LIFE_MAX_MS, OBJECT_OVERHEAD_BYTES_MAX, objectIdOf, sealObject } from '../../protocol/delivery/object.ts'
import { type Eid, type EidHex, eidHex, eid as eidOf } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { bytesCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import type { Removal } from './asleep-queue.ts'

/** Objects kept for resending, and their bytes; at either bound new messages are refused, none is forgotten early. */
export const OUTGOING_OBJECTS_MAX = 1_000
export const OUTGOING_BYTES_MAX = 64 * 1_048_576

export interface OutgoingObject {
  /** store key, `<issuer>/<audience>/<object id>` in hex */
  key: string
  object: Uint8Array
  expiresAtMs: number
  /** the keeper's signed receipt, once there is one */
  receipt: Uint8Array | undefined
  /** sealed before: these are the bytes of then */
  again: boolean
}

/** What an object says of itself. */
export interface ObjectFacts {
  issuer: EidHex
  objectId: string
  expiresAtMs: number
}

/** @param facts - of an object that was sealed just now; of one that was kept its own bytes tell */
type UseSealed<T> = (
  sealed: OutgoingObject,
  ops: readonly WriteOp[],
  facts: ObjectFacts | undefined
) => Promise<{ value: T; kept: boolean }>

interface Kept {
  digest: Uint8Array
  object: Uint8Array
  expiresAtMs: number
  receipt: Uint8Array | undefined
}

export interface OutgoingInit {
  objectsMax?: number
  bytesMax?: number
}

/**
 * Objects that our agents sealed, by (issuer, audience, messageId), until they end: sealing draws a fresh key each time, so a message sent
 * again must be the bytes of the first time, or its keeper would see a conflict.
 */
export class OutgoingObjects {
  readonly #store: Store
  readonly #crypto: CryptoProvider
  readonly #clock: Clock
  readonly #random: Random
  readonly #objectsMax: number
  readonly #bytesMax: number
  readonly #table: Table<Uint8Array>
  readonly #sizes = new Map<string, number>()
  readonly #sealing = new Map<string, Promise<unknown>>()
  #bytes = 0

  private constructor(components: { store: Store; crypto: CryptoProvider; clock: Clock; random: Random }, init: OutgoingInit) {
    this.#store = components.store
    this.#crypto = components.crypto
    this.#clock = components.clock
    this.#random = components.random
    this.#objectsMax = init.objectsMax ?? OUTGOING_OBJECTS_MAX
    this.#bytesMax = init.bytesMax ?? OUTGOING_BYTES_MAX
    this.#table = components.store.table('outgoing', bytesCodec)
  }

  static async open(
    components: { store: Store; crypto: CryptoProvider; clock: Clock; random: Random },
    init: OutgoingInit = {}
  ): Promise<OutgoingObjects> {
    const outgoing = new OutgoingObjects(components, init)
    for await (const [key, row] of outgoing.#table.entries()) outgoing.#count(key, row.length)
    return outgoing
  }

  usage(): { objects: number; bytes: number; objectsMax: number; bytesMax: number } {
    return { objects: this.#sizes.size, bytes: this.#bytes, objectsMax: this.#objectsMax, bytesMax: this.#bytesMax }
  }

  /**
   * Seals and keeps, synced; or gives back what was kept.
   * @param input.ttlMs - default and at most 6 days
   * @param input.content - what the messageId stands for, where it is not all of the plaintext: the same messageId with the same content is the same message
   * @throws RookeryError `MESSAGE_ID_REUSED`, `MESSAGE_TOO_LARGE`, `OUTGOING_FULL`, `STORE_WRITE_FAILED`
   * @throws ProtocolError `KEY_INVALID`, `LENGTH` for a mailbox key that is none
   */
  async seal(input: {
    from: LocalAgent
    audience: Eid
    mailboxKey: Uint8Array
    messageId: string
    purpose: string
    plaintext: Uint8Array
    content?: Uint8Array
    ttlMs?: number
  }): Promise<OutgoingObject> {
    return await this.sealInto(input, async (sealed, ops) => {
      await this.#store.commit(ops)
      return { value: sealed, kept: true }
    })
  }

  /**
   * As {@link seal}, the row being written by `use`, in one batch with what becomes of the object: one sync less where both lie in this store.
   * @param use - commits `ops` (none where the row is there already) and says whether it did; else nothing is kept
   */
  async sealInto<T>(input: Parameters<OutgoingObjects['seal']>[0], use: UseSealed<T>): Promise<T> {
    const id = objectIdOf(this.#crypto, eidOf(fromHex(homeOf(input.from))), input.audience, input.messageId)
    const key = `${homeOf(input.from)}/${eidHex(input.audience)}/${toHex(id)}`
    for (let other = this.#sealing.get(key); other !== undefined; other = this.#sealing.get(key)) await other.catch(() => undefined)
    const sealing = this.#seal(key, id, input, use)
    this.#sealing.set(key, sealing)
    try {
      return await sealing
    } finally {
      this.#sealing.delete(key)
    }
  }

  async #seal<T>(
    key: string,
    id: ReturnType<typeof objectIdOf>,
    { from, audience, mailboxKey, messageId, purpose, plaintext, content = plaintext, ttlMs }: Parameters<OutgoingObjects['seal']>[0],
    use: UseSealed<T>
  ): Promise<T> {
    const nowMs = this.#clock.nowMs()
    const digest = this.#crypto.sha256(content)
    const kept = this.#sizes.has(key) ? await this.#read(key) : undefined
    if (kept !== undefined && kept.expiresAtMs > nowMs) {
      if (!equals(kept.digest, digest)) {
        throw new RookeryError('MESSAGE_ID_REUSED', `message "${messageId.slice(0, 64)}" was sent before with other content`, {
          kind: 'conflict',
          field: 'messageId',
          remedy: 'give every message an id of its own'
        })
      }
      const { object, expiresAtMs, receipt } = kept
      return (await use({ key, object, expiresAtMs, receipt, again: true }, [], undefined)).value
    }
    const size = plaintext.length + OBJECT_OVERHEAD_BYTES_MAX
    if (size > DEPOSIT_OBJECT_BYTES_MAX) {
      throw new RookeryError('MESSAGE_TOO_LARGE', `the message is ${plaintext.length} bytes and fits no mailbox`, {
        kind: 'refused',
        data: { bytesMax: DEPOSIT_OBJECT_BYTES_MAX - OBJECT_OVERHEAD_BYTES_MAX }
      })
    }
    if (!this.#fits(size)) await this.prune()
    if (!this.#fits(size)) {
      throw new RookeryError('OUTGOING_FULL', `${this.#sizes.size} sealed messages (${this.#bytes} bytes) are kept for resending`, {
        kind: 'unavailable',
        remedy: 'wait until some are delivered or end'
      })
    }
    // Reserved before the first await that follows, at its largest size, so that seals at the same time cannot pass the bound.
    this.#count(key, size)
    try {
      const expiresAtMs = nowMs + Math.min(ttlMs ?? OBJECT_LIFE_MAX_MS, OBJECT_LIFE_MAX_MS)
      const { signer } = from
      const object = await sealObject(this.#crypto, {
        signer,
        audience,
        mailboxKey,
        id,
        purpose,
        issuedAtMs: nowMs,
        expiresAtMs,
        plaintext,
        ephemeralSecret: this.#random.bytes(32)
      })
      const row = encode({ digest, object, expiresAtMs, receipt: undefined })
      const facts = { issuer: eidHex(eidOf(signer.publicKey)), objectId: toHex(id), expiresAtMs }
      const used = await use({ key, object, expiresAtMs, receipt: undefined, again: false }, [this.#table.put(key, row)], facts)
      if (used.kept) this.#count(key, row.length)
      else this.#forget(key)
      return used.value
    } catch (error) {
      this.#forget(key)
      throw error
    }
  }

  /**
   * Keeps a keeper's receipt beside its object.
   * @returns false where the object is no longer kept
   */
  async keepReceipt(key: string, receipt: Uint8Array): Promise<boolean> {
    const kept = await this.#read(key)
    if (kept === undefined) return false
    const row = encode({ ...kept, receipt })
    await this.#store.commit([this.#table.put(key, row)])
    this.#count(key, row.length)
    return true
  }

  /** For the batch that takes an object out of a queue of this very store: from then on its name is remembered elsewhere, and the copy serves nobody. */
  removal({ issuer, audience, objectId }: { issuer: string; audience: string; objectId: string }): Removal {
    const key = `${issuer}/${audience}/${objectId}`
    if (!this.#sizes.has(key)) return { ops: [], done: () => {} }
    return { ops: [this.#table.del(key)], done: () => this.#forget(key) }
  }

  /** Drops one by its key. */
  async drop(key: string): Promise<void> {
    const [issuer = '', audience = '', objectId = ''] = key.split('/')
    const removal = this.removal({ issuer, audience, objectId })
    await this.#store.commit(removal.ops)
    removal.done()
  }

  async get(key: string): Promise<OutgoingObject | undefined> {
    const kept = await this.#read(key)
    return kept === undefined ? undefined : { key, object: kept.object, expiresAtMs: kept.expiresAtMs, receipt: kept.receipt, again: true }
  }

  /** Drops what has ended. */
  async prune(): Promise<number> {
    const nowMs = this.#clock.nowMs()
    const ended: string[] = []
    for await (const [key, row] of this.#table.entries()) {
      const kept = decode(row)
      if (kept === undefined || kept.expiresAtMs <= nowMs) ended.push(key)
    }
    await this.#store.commit(ended.map((key) => this.#table.del(key)))
    for (const key of ended) this.#forget(key)
    return ended.length
  }

  async #read(key: string): Promise<Kept | undefined> {
    const row = await this.#table.get(key)
    return row === undefined ? undefined : decode(row)
  }

  #fits(size: number): boolean {
    return this.#sizes.size < this.#objectsMax && this.#bytes + size <= this.#bytesMax
  }

  #count(key: string, size: number): void {
    this.#forget(key)
    this.#sizes.set(key, size)
    this.#bytes += size
  }

  #forget(key: string): void {
    this.#bytes -= this.#sizes.get(key) ?? 0
    this.#sizes.delete(key)
  }
}

function encode(kept: Kept): Uint8Array {
  return encodeCbor({ v: 1, digest: kept.digest, object: kept.object, exp: kept.expiresAtMs, receipt: kept.receipt })
}

function decode(row: Uint8Array): Kept | undefined {
  try {
    const fields = new CborFields(decodeCbor(row), 'outgoing')
    fields.uint('v', { min: 1, max: 1 })
    const kept: Kept = {
      digest: fields.bytes('digest', { length: 32 }),
      object: fields.bytes('object', { max: DEPOSIT_OBJECT_BYTES_MAX }),
      expiresAtMs: fields.uint('exp'),
      receipt: fields.optional('receipt', (name) => fields.bytes(name, { max: 512 }))
    }
    fields.end()
    return kept
  } catch {
    return undefined
  }
}

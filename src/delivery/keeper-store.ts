import { toHex } from '../../protocol/bytes.ts'
import { CborFields, type CborValue } from '../../protocol/cbor.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { QueueBounds } from '../../protocol/delivery/bounds.ts'
import { CONFIRMATION_BYTES_MAX, type Confirmation } from '../../protocol/delivery/confirmation.ts'
import { grantedBounds, ROTATIONS_MAX } from '../../protocol/delivery/keeper-messages.ts'
import type { ObjectId } from '../../protocol/delivery/object.ts'
import { type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { decodeRecord, RECORD_BYTES_MAX } from '../../protocol/records/envelope.ts'
import { type MailRecord, mailType, selectMail } from '../../protocol/records/mail.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import { cborCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import type { QueueAnswer, QueueRecord } from './asleep-queue.ts'
import type { ClockGuard } from './clock-guard.ts'
import { LevelAsleepQueue } from './level-asleep-queue.ts'

/** An audience that does not renew is kept for no longer than this: what it has is handed out still, nothing new is taken. */
export const KEEPER_LEASE_MS = 14 * 86_400_000
/** Confirmations that wait for the issuers to ask; at the bound a release is taken all the same, and its issuers hear it from the audience. */
export const CONFIRMATIONS_MAX = 20_000

export interface KeeperInit {
  /** whom this node keeps for: the owner's opt-in (G-18) */
  mayKeepFor: (audience: EidHex) => boolean
  bounds: QueueBounds
  homeOf: (audience: EidHex) => EidHex
  /** an audience handed over a newer mail record of its own, which is on disk by now */
  onMail?: (home: EidHex, record: MailRecord) => void
}

interface Engagement {
  bounds: QueueBounds
  untilMs: number
  /** the audience's own, put again while it lives */
  mail?: MailRecord | undefined
  /** certificates that the audience showed, verified */
  rotations?: readonly Uint8Array[] | undefined
}

/** Mail held for agents of other nodes: sealed objects by audience, in order of arrival, each on disk before its receipt is signed (protocol/README.md §7). */
export class KeeperStore {
  readonly #store: Store
  readonly #guard: ClockGuard
  readonly #init: KeeperInit
  readonly #queue: LevelAsleepQueue
  readonly #rows: Table<CborValue>
  readonly #confirmed: Table<CborValue>
  readonly #ends: Table<CborValue>
  /** by the audience's home; as many as the owner's list lets in */
  readonly #engaged = new Map<EidHex, Engagement>()
  readonly #locks = new KeyedLock()
  #confirmations = 0

  private constructor(
    components: { store: Store; clockGuard: ClockGuard },
    init: KeeperInit,
    queue: LevelAsleepQueue,
    engaged: Map<EidHex, Engagement>
  ) {
    this.#store = components.store
    this.#guard = components.clockGuard
    this.#init = init
    this.#queue = queue
    this.#engaged = engaged
    this.#rows = components.store.table('keeper-for', cborCodec())
    this.#confirmed = components.store.table('keeper-confirmed', cborCodec())
    this.#ends = components.store.table('keeper-confirmed-ends', cborCodec())
  }

  static async open(
    components: { store: Store; crypto: CryptoProvider; clockGuard: ClockGuard; logger: Logger },
    init: KeeperInit
  ): Promise<KeeperStore> {
    const engaged = new Map<EidHex, Engagement>()
    const none: QueueBounds = { messagesMax: 0, bytesMax: 0, messagesPerPeerMax: 0, ttlMaxMs: 0 }
    const queue = await LevelAsleepQueue.open(components, {
      bounds: (audience) => engaged.get(audience)?.bounds ?? none,
      homeOf: init.homeOf,
      tables: { rows: 'kept-mail', damaged: 'kept-damaged' }
    })
    const keeper = new KeeperStore(components, init, queue, engaged)
    for await (const [home, row] of keeper.#rows.entries()) {
      try {
        engaged.set(home as EidHex, readEngagement(row))
      } catch (error) {
        // it engages us again when it comes by; what it has here is handed out all the same
        components.logger.warn({ err: error, audience: home.slice(0, 16) }, 'an engagement cannot be read and counts as ended')
      }
    }
    for await (const _ of keeper.#ends.keys()) keeper.#confirmations++
    return keeper
  }

  /** What is held for whom, for the owner. */
  async usage(): Promise<{ audience: EidHex; messages: number; bytes: number; bounds: QueueBounds; untilMs: number }[]> {
    return await Promise.all(
      [...this.#engaged].map(async ([audience, { untilMs }]) => ({ audience, ...(await this.#queue.usage(audience)), untilMs }))
    )
  }

  /** Whether the owner lets this node keep for an audience (G-18). */
  mayEngage(audience: EidHex): boolean {
    return this.#init.mayKeepFor(audience)
  }

  /**
   * Engages this node for who asks, or renews; synced. Of two mail records the one that wins by their numbers stays.
   * @param mail - verified, of the audience
   * @returns undefined where the owner does not keep for it
   * @throws RookeryError `STORE_WRITE_FAILED`
   */
  async engage(
    audience: EidHex,
    asked: QueueBounds,
    { mail, rotations = [] }: { mail?: MailRecord | undefined; rotations?: readonly Uint8Array[] } = {}
  ): Promise<Engagement | undefined> {
    if (!this.#init.mayKeepFor(audience)) return undefined
    const home = this.#init.homeOf(audience)
    const held = this.#engaged.get(home)?.mail
    const engagement: Engagement = {
      bounds: grantedBounds(asked, this.#init.bounds),
      untilMs: this.#guard.now() + KEEPER_LEASE_MS,
      mail: newerMail(held, mail),
      ...(rotations.length === 0 ? {} : { rotations })
    }
    const { messagesMax: n, bytesMax: bytes, messagesPerPeerMax: peer, ttlMaxMs: ttl } = engagement.bounds
    const row = {
      ...{ n, bytes, peer, ttl, until: engagement.untilMs },
      ...(engagement.mail === undefined ? {} : { mail: engagement.mail.bytes }),
      ...(rotations.length === 0 ? {} : { rots: [...rotations] })
    }
    await this.#store.commit([this.#rows.put(home, row)])
    this.#engaged.set(home, engagement)
    if (engagement.mail !== undefined && engagement.mail !== held) this.#init.onMail?.(home, engagement.mail)
    return engagement
  }

  /** Certificates from EIDs that an audience had. */
  rotationsOf(audience: EidHex): Uint8Array[] {
    return [...(this.#engaged.get(this.#init.homeOf(audience))?.rotations ?? [])]
  }

  /** Mail records of those that engaged this node, by home; to be put again. */
  mailRecords(): [EidHex, MailRecord][] {
    return [...this.#engaged].flatMap(([home, { mail }]): [EidHex, MailRecord][] => (mail === undefined ? [] : [[home, mail]]))
  }

  /** Whether a deposit for this audience may be taken now: it asked for it, lately, and the owner still lets it. */
  keepsFor(audience: EidHex): boolean {
    const engagement = this.#engaged.get(this.#init.homeOf(audience))
    return engagement !== undefined && engagement.untilMs > this.#guard.now() && this.#init.mayKeepFor(audience)
  }

  /** @throws what {@link LevelAsleepQueue.enqueue} throws */
  async deposit(input: { audience: EidHex; principal: string; object: Uint8Array }): Promise<QueueAnswer> {
    return await this.#queue.enqueue(input)
  }

  /** In order of arrival, behind the cursor; without what has ended. */
  async *held(audience: EidHex, afterSequence: number): AsyncGenerator<{ record: QueueRecord; sequence: number }> {
    const home = this.#init.homeOf(audience)
    const nowMs = this.#guard.now()
    for await (const record of this.#queue.records(home, { afterKey: `${home}/${afterSequence.toString(16).padStart(14, '0')}` })) {
      if (record.expiresAtMs > nowMs) yield { record, sequence: Number.parseInt(record.key.slice(-14), 16) }
    }
  }

  /**
   * Lets go of what the audience confirms and keeps its word for the issuer, in one synced batch. A confirmation of other bytes than those held, or of nothing
   * held, changes nothing; save that `handled` takes the place of the `delivered` that was said of the same bytes before.
   * @param confirmed - verified, each by the audience that asks
   * @returns how many objects left
   */
  async release(audience: EidHex, confirmed: readonly { confirmation: Confirmation; bytes: Uint8Array }[]): Promise<number> {
    return await this.#locks.run(this.#init.homeOf(audience), async () => {
      const ops: WriteOp[] = []
      const done: (() => void)[] = []
      const names = new Set<string>()
      let kept = 0
      for (const { confirmation, bytes } of confirmed) {
        const issuer = eidHex(confirmation.issuer)
        const objectId = toHex(confirmation.id)
        const held = this.#queue.find(audience, { issuer, objectId })
        const name = `${issuer}/${objectId}`
        if (names.has(name)) continue
        if (held === undefined && confirmation.state === 'handled') {
          const said = await this.#said(name)
          if (said?.hash !== toHex(confirmation.objectHash) || said.state !== 'delivered') continue
          names.add(name)
          ops.push(this.#confirmed.put(name, { ...said.row, state: 'handled', conf: bytes }))
          continue
        }
        if (held === undefined || held.hash !== toHex(confirmation.objectHash)) continue
        names.add(name)
        const removal = this.#queue.removal(held)
        ops.push(...removal.ops)
        done.push(removal.done)
        if (this.#confirmations + kept >= CONFIRMATIONS_MAX) continue
        const end = held.expiresAtMs.toString(16).padStart(14, '0')
        const row = { end: held.expiresAtMs, hash: held.hash, state: confirmation.state, conf: bytes }
        ops.push(this.#confirmed.put(name, row), this.#ends.put(`${end}/${name}`, 0))
        kept++
      }
      await this.#store.commit(ops)
      this.#confirmations += kept
      for (const one of done) one()
      return done.length
    })
  }

  /** What is kept of an audience's word. */
  async #said(name: string): Promise<{ hash: string; state: string; row: Record<string, CborValue> } | undefined> {
    const row = await this.#confirmed.get(name)
    if (row === undefined) return undefined
    const fields = new CborFields(row, 'keeper-confirmed')
    return {
      hash: fields.text('hash', { bytesMax: 64 }),
      state: fields.text('state', { bytesMax: 16 }),
      row: row as Record<string, CborValue>
    }
  }

  /** What became of objects that the asker issued: those still held, and the audience's word on those that are not. */
  async tell(issuer: EidHex, audience: EidHex, ids: readonly ObjectId[]): Promise<{ held: ObjectId[]; confirmations: Uint8Array[] }> {
    const held: ObjectId[] = []
    const confirmations: Uint8Array[] = []
    const nowMs = this.#guard.now()
    for (const id of ids) {
      const objectId = toHex(id)
      const record = this.#queue.find(audience, { issuer, objectId })
      if (record !== undefined && record.expiresAtMs > nowMs) {
        held.push(id)
        continue
      }
      const row = await this.#confirmed.get(`${issuer}/${objectId}`)
      if (row !== undefined) confirmations.push(readConfirmed(row))
    }
    return { held, confirmations }
  }

  /** Drops what has ended: objects, and words that no issuer can want any more. */
  async sweep(): Promise<void> {
    await this.#queue.sweep()
    const now = this.#guard.settledMs().toString(16).padStart(14, '0')
    const ended: string[] = []
    for await (const key of this.#ends.keys({ lt: now })) ended.push(key)
    await this.#store.commit(ended.flatMap((key) => [this.#ends.del(key), this.#confirmed.del(key.slice(15))]))
    this.#confirmations = Math.max(0, this.#confirmations - ended.length)
  }
}

function readEngagement(row: CborValue): Engagement {
  const fields = new CborFields(row, 'keeper-for')
  return {
    bounds: {
      messagesMax: fields.uint('n'),
      bytesMax: fields.uint('bytes'),
      messagesPerPeerMax: fields.uint('peer'),
      ttlMaxMs: fields.uint('ttl')
    },
    untilMs: fields.uint('until'),
    mail: fields.optional('mail', (name) => decodeRecord(mailType, fields.bytes(name, { max: RECORD_BYTES_MAX }))),
    rotations: fields.optional('rots', (name) => fields.list(name, { max: ROTATIONS_MAX }, (item) => item as Uint8Array))
  }
}

/** A rotated audience's record is of its new EID: it takes the place of the old one's. */
function newerMail(held: MailRecord | undefined, offered: MailRecord | undefined): MailRecord | undefined {
  if (held === undefined || offered === undefined) return offered ?? held
  const isSame = eidHex(held.payload.eid) === eidHex(offered.payload.eid)
  return isSame && selectMail(held, offered).winner === 'held' ? held : offered
}

function readConfirmed(row: CborValue): Uint8Array {
  return new CborFields(row, 'keeper-confirmed').bytes('conf', { max: CONFIRMATION_BYTES_MAX })
}

import { fromHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { OBJECT_LIFE_MAX_MS } from '../../protocol/delivery/object.ts'
import { mailKey } from '../../protocol/discovery/dht-key.ts'
import { type Eid, type EidHex, eidFromDid, eidHex, eid as eidOf, eidToDid } from '../../protocol/identity/eid.ts'
import { buildRecord, decodeRecord, recordExpiresAtMs, recordIsAhead } from '../../protocol/records/envelope.ts'
import { LOCATOR_KEEPERS_MAX } from '../../protocol/records/locator.ts'
import { MAIL_TTL_SEC, type Mail, type MailRecord, mailTombstone, mailType } from '../../protocol/records/mail.ts'
import { RookeryError } from '../errors.ts'
import type { RecordEvidence } from '../evidence/evidence.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { bytesCodec, jsonCodec, type Store, type Table } from '../store/store.ts'
import { dhtRecords } from './dht-records.ts'
import { type Refreshed, Refresher } from './refresher.ts'
import { SeenRecords } from './seen-records.ts'
import { SequenceBook } from './sequence-book.ts'
import type { Locators, PublishOptions } from './spaces.ts'

/** The same bytes are put again so often, by the agent's node and by each keeper: holders come and go faster than a week. */
export const MAIL_PUT_MS = 6 * 3_600_000
/** What a look-up brought is good for so long without another. */
const LOOKED_UP_MS = 3_600_000
/** Keepers that an agent had before; at the bound the one whose mail ends first is forgotten. */
export const FORMER_KEEPERS_MAX = 16

export interface MailRecordsComponents {
  host: Host
  store: Store
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  locators: Pick<Locators, 'resolve'>
  agents: (eidHex: EidHex) => LocalAgent | undefined
  /** who holds mail for an agent of ours while this host is away */
  keepers: (agent: LocalAgent) => readonly Eid[]
  /** whether the network may hear of an agent at all */
  isPublic: (agent: LocalAgent) => boolean
  evidence?: Pick<RecordEvidence, 'onEquivocation'>
}

/** What a message for an agent that is away is sealed to, and who takes it. */
export interface Mailbox {
  mailboxKey: Uint8Array
  keepers: Eid[]
  /** the record that says so */
  by: 'locator' | 'mail'
}

/**
 * `mail` records (protocol/README.md §3): those of our agents, signed and kept alive while the node runs; those of agents that engaged us, put again as they
 * are; and those of others, looked up when nobody can say any more where an agent is.
 */
export class MailRecords {
  readonly #c: MailRecordsComponents
  readonly #refresher: Refresher
  readonly #sequences: SequenceBook
  readonly #table: Table<Uint8Array>
  readonly #formerTable: Table<number>
  readonly #seen: SeenRecords<'mail', Mail>
  /** what our own agents published last; as many as there are agents */
  readonly #own = new Map<EidHex, MailRecord>()
  /** `<home>/<keeper>` to when the last object that it may hold ends, Unix ms */
  readonly #former = new Map<string, number>()
  /** the highest generation of ours found in the network; asked once in a run */
  readonly #highest = new Map<EidHex, number>()
  readonly #locks = new KeyedLock()

  private constructor(components: MailRecordsComponents, seen: SeenRecords<'mail', Mail>) {
    const { store, clock } = components
    this.#c = components
    this.#refresher = new Refresher(components)
    this.#sequences = new SequenceBook(store, clock)
    this.#table = store.table('own-mail', bytesCodec)
    this.#formerTable = store.table('former-keepers', jsonCodec<number>())
    this.#seen = seen
  }

  /** Takes up what an earlier run published. */
  static async open(components: MailRecordsComponents): Promise<MailRecords> {
    const logger = components.logger.child('mail-records')
    const records = new MailRecords({ ...components, logger }, await SeenRecords.mail(components.store, logger))
    for await (const [name, bytes] of records.#table.entries()) {
      try {
        const record = decodeRecord(mailType, bytes)
        records.#own.set(name as EidHex, record)
        records.#keep(record, 'none')
      } catch (error) {
        logger.warn({ err: error, agent: name.slice(0, 16) }, 'a mail record of ours cannot be read and is signed anew')
      }
    }
    for await (const [name, untilMs] of records.#formerTable.entries()) records.#former.set(name, untilMs)
    return records
  }

  /** Signs and stores what the agent is now, where it has keepers or had some; refreshed while the node runs. */
  async publish(agent: LocalAgent, options: PublishOptions = {}): Promise<void> {
    if (!this.#c.isPublic(agent)) return
    const held = this.#own.get(agent.eidHex)
    const nowMs = this.#c.clock.nowMs()
    const isLive = held !== undefined && held.payload.gone !== true && recordExpiresAtMs(held) > nowMs && !recordIsAhead(held, nowMs)
    if (this.#keepers(agent).length === 0 && !isLive) return
    const record = isLive && this.#isCurrent(agent, held) ? held : await this.#sign(agent, options.signal)
    await this.#putAndKeep(record, options.signal)
  }

  /** Tombstone, where there is anything to end. */
  async withdraw(agent: LocalAgent, options: PublishOptions = {}): Promise<void> {
    const held = this.#own.get(agent.eidHex)
    if (held === undefined || held.payload.gone === true) return
    const record = await this.#signGone(agent, held, options.signal)
    await this.#putAndKeep(record, options.signal)
  }

  /** The record that a keeper of the agent is to put again; undefined where there is none. */
  published(agent: LocalAgent): Uint8Array | undefined {
    const record = this.#own.get(agent.eidHex)
    return record === undefined || record.payload.gone === true ? undefined : record.bytes
  }

  /** Keepers that earlier records of the agent named: senders may have used those until they ended, and what they sent waits there. */
  former(agent: LocalAgent): Eid[] {
    const nowMs = this.#c.clock.nowMs()
    const now = new Set(this.#keepers(agent).map(eidHex))
    return [...this.#former]
      .filter(([name, untilMs]) => name.startsWith(`${homeOf(agent)}/`) && untilMs > nowMs && !now.has(name.slice(65) as EidHex))
      .map(([name]) => eidOf(fromHex(name.slice(65))))
  }

  /**
   * Puts another agent's record again while it lives, as its keeper. A later call for the same name replaces it.
   * @param name - one an audience, so that their number is the keeper's
   * @param record - verified by the caller
   */
  keepAlive(name: string, record: MailRecord): void {
    const put = async (signal: AbortSignal): Promise<Refreshed> => {
      const isOver = recordExpiresAtMs(record) <= this.#c.clock.nowMs()
      if (isOver) return { signedAtMs: record.payload.ts * 1_000, coverage: 'full', next: 'forget' }
      return { signedAtMs: record.payload.ts * 1_000, coverage: await this.#put(record, signal) }
    }
    this.#refresher.keep(`for:${name}`, {
      ttlMs: MAIL_TTL_SEC * 1_000,
      putMs: MAIL_PUT_MS,
      signedAtMs: record.payload.ts * 1_000,
      coverage: 'none',
      sign: put,
      put
    })
  }

  /**
   * By the agent's locator, or where the network has none any more, by its mail record.
   * @throws RookeryError `AGENT_UNKNOWN`, `AGENT_NOT_SERVED`, `AGENT_WITHDRAWN`, `AGENT_ROTATED`
   */
  async mailbox(eid: Eid, options: PublishOptions = {}): Promise<Mailbox> {
    let unknown: RookeryError
    try {
      const { mailboxKey, keepers } = await this.#c.locators.resolve(eid, options)
      return { mailboxKey, keepers: (keepers ?? []).map((did) => eidFromDid(did)), by: 'locator' }
    } catch (error) {
      if (!(error instanceof RookeryError) || (error.code !== 'AGENT_UNKNOWN' && error.code !== 'AGENT_NOT_SERVED')) throw error
      unknown = error
    }
    const { clock } = this.#c
    const cached = this.#seen.get(eid)
    if (cached === undefined || cached.seenAtMs + LOOKED_UP_MS <= clock.nowMs()) await this.#lookUp(eid, options.signal)
    const record = this.#seen.live(eid, clock.nowMs())?.payload
    if (record === undefined || record.gone === true) throw unknown
    return { mailboxKey: record.mbox, keepers: [...record.keepers], by: 'mail' }
  }

  idle(): Promise<void> {
    return this.#refresher.idle()
  }

  async stop(): Promise<void> {
    await this.#refresher.stop()
  }

  async #lookUp(eid: Eid, signal: AbortSignal | undefined): Promise<void> {
    const { crypto, clock, host, logger, evidence } = this.#c
    for await (const record of dhtRecords({ dht: host.dht, crypto, clock }, mailKey(eid), signal)) {
      if (record.kind !== 'mail' || (await this.#seen.offer(record, clock.nowMs())) !== 'equivocation') continue
      const held = this.#seen.get(eid)?.record.bytes
      if (held !== undefined) evidence?.onEquivocation({ target: eid, kind: 'mail', a: held, b: record.bytes })
      logger.warn({ agent: eidToDid(eid), gen: record.payload.gen }, 'an agent signed two mail records of one generation')
    }
  }

  #keepers(agent: LocalAgent): Eid[] {
    return this.#c
      .keepers(agent)
      .filter((one) => eidHex(one) !== agent.eidHex)
      .slice(0, LOCATOR_KEEPERS_MAX)
  }

  #isCurrent(agent: LocalAgent, { payload }: MailRecord): boolean {
    return (
      payload.keepers.map(eidHex).join() === this.#keepers(agent).map(eidHex).join() &&
      payload.mbox.every((byte, i) => byte === agent.mailboxKey[i])
    )
  }

  /** A new generation of the agent as it is now, on disk before anyone sees it. */
  #sign(agent: LocalAgent, signal: AbortSignal | undefined): Promise<MailRecord> {
    return this.#locks.run(agent.eidHex, async () => {
      const held = this.#own.get(agent.eidHex)
      if (held?.payload.gone === true) throw withdrawn(agent)
      const gen = await this.#number(agent, signal)
      if (held !== undefined) await this.#wasKeptBy(agent, held)
      const ts = this.#nowSec()
      const payload: Mail = {
        eid: agent.eid,
        mbox: agent.mailboxKey,
        keepers: this.#keepers(agent),
        gen,
        ts,
        exp: ts + MAIL_TTL_SEC
      }
      return await this.#save(buildRecord(this.#c.crypto, mailType, payload, agent.signer))
    })
  }

  #signGone(agent: LocalAgent, held: MailRecord, signal: AbortSignal | undefined): Promise<MailRecord> {
    return this.#locks.run(agent.eidHex, async () => {
      await this.#wasKeptBy(agent, held)
      const gen = await this.#number(agent, signal)
      const payload = mailTombstone(held.payload, { gen, nowSec: this.#nowSec() })
      return await this.#save(buildRecord(this.#c.crypto, mailType, payload, agent.signer))
    })
  }

  /** Above what the network holds of us. What is found there may name keepers that this disk knows nothing of: they are asked too. */
  async #number(agent: LocalAgent, signal: AbortSignal | undefined): Promise<number> {
    const { crypto, clock, host } = this.#c
    let highest = this.#highest.get(agent.eidHex)
    if (highest === undefined) {
      highest = -1
      for await (const record of dhtRecords({ dht: host.dht, crypto, clock }, mailKey(agent.eid), signal)) {
        if (record.kind !== 'mail') continue
        if (record.payload.gone === true) throw withdrawn(agent)
        highest = Math.max(highest, record.payload.gen)
        await this.#wasKeptBy(agent, record)
      }
      this.#highest.set(agent.eidHex, highest)
    }
    return await this.#sequences.next(`mail:${agent.eidHex}`, highest, signal)
  }

  /** Remembers whom a record of ours named, for as long as an object that was sealed by it may live. */
  async #wasKeptBy(agent: LocalAgent, record: MailRecord): Promise<void> {
    const nowMs = this.#c.clock.nowMs()
    const home = homeOf(agent)
    const untilMs = recordExpiresAtMs(record) + OBJECT_LIFE_MAX_MS
    const ops = [...this.#former].filter(([, endMs]) => endMs <= nowMs).map(([name]) => name)
    for (const name of ops) this.#former.delete(name)
    const puts = record.payload.keepers
      .map((keeper): [string, number] => [`${home}/${eidHex(keeper)}`, untilMs])
      .filter(([name, endMs]) => (this.#former.get(name) ?? 0) < endMs)
    for (const [name, endMs] of puts) this.#former.set(name, endMs)
    const mine = [...this.#former].filter(([name]) => name.startsWith(`${home}/`)).sort((a, b) => b[1] - a[1])
    for (const [name] of mine.slice(FORMER_KEEPERS_MAX)) {
      this.#former.delete(name)
      ops.push(name)
    }
    const gone = new Set(ops)
    await this.#c.store.commit([
      ...ops.map((name) => this.#formerTable.del(name)),
      ...puts.filter(([name]) => !gone.has(name)).map(([name, endMs]) => this.#formerTable.put(name, endMs))
    ])
  }

  async #save(record: MailRecord): Promise<MailRecord> {
    const name = eidHex(record.payload.eid)
    await this.#c.store.commit([this.#table.put(name, record.bytes)])
    this.#own.set(name, record)
    return record
  }

  async #putAndKeep(record: MailRecord, signal: AbortSignal | undefined): Promise<void> {
    this.#refresher.forget(eidHex(record.payload.eid))
    let coverage: 'full' | 'partial' = 'partial'
    try {
      coverage = await this.#put(record, signal)
    } finally {
      this.#keep(record, coverage)
    }
  }

  async #put(record: MailRecord, signal: AbortSignal | undefined): Promise<'full' | 'partial'> {
    try {
      const { stored, asked } = await this.#c.host.dht.put(
        mailKey(record.payload.eid),
        record.bytes,
        signal === undefined ? {} : { signal }
      )
      return asked > 1 && stored === asked ? 'full' : 'partial'
    } catch (error) {
      signal?.throwIfAborted()
      this.#c.logger.warn({ error }, 'the DHT did not take a mail record; it is put again')
      return 'partial'
    }
  }

  #keep(record: MailRecord, coverage: 'full' | 'partial' | 'none'): void {
    const name = eidHex(record.payload.eid)
    this.#refresher.keep(name, {
      ttlMs: MAIL_TTL_SEC * 1_000,
      putMs: MAIL_PUT_MS,
      signedAtMs: record.payload.ts * 1_000,
      coverage,
      sign: (signal) => this.#refresh(name, 'sign', signal),
      put: (signal) => this.#refresh(name, 'put', signal)
    })
  }

  async #refresh(name: EidHex, verb: 'sign' | 'put', signal: AbortSignal): Promise<Refreshed> {
    let record = this.#own.get(name)
    const agent = this.#c.agents(name)
    const isOver = record !== undefined && recordExpiresAtMs(record) <= this.#c.clock.nowMs()
    const gone = record?.payload.gone === true
    if (record === undefined || (isOver && gone) || (!gone && (agent === undefined || !this.#c.isPublic(agent)))) {
      return { signedAtMs: 0, coverage: 'full', next: 'forget' }
    }
    if (agent !== undefined && gone && recordIsAhead(record, this.#c.clock.nowMs())) record = await this.#signGone(agent, record, signal)
    if (agent !== undefined && !gone && (verb === 'sign' || isOver || !this.#isCurrent(agent, record))) {
      // Who has no keepers any more said so for a week; then there is nothing to say.
      if (this.#keepers(agent).length === 0 && record.payload.keepers.length === 0) {
        if (isOver) return { signedAtMs: 0, coverage: 'full', next: 'forget' }
      } else record = await this.#sign(agent, signal)
    }
    return { signedAtMs: record.payload.ts * 1_000, coverage: await this.#put(record, signal) }
  }

  #nowSec(): number {
    return Math.floor(this.#c.clock.nowMs() / 1_000)
  }
}

function withdrawn(agent: LocalAgent): RookeryError {
  return new RookeryError('AGENT_WITHDRAWN', `${agent.did} was withdrawn for good by its owner`, {
    kind: 'notFound',
    field: 'did',
    value: agent.did,
    remedy: 'give the agent a new identity with `rookery agent rotate`'
  })
}

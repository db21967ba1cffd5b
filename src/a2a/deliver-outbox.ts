import { fromHex, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { verifyConfirmation } from '../../protocol/delivery/confirmation.ts'
import { DEPOSIT_OBJECT_BYTES_MAX, type Receipt, verifyReceipt } from '../../protocol/delivery/mailbox.ts'
import { decodeObject, type GovernedObject, OBJECT_LIFE_MAX_MS } from '../../protocol/delivery/object.ts'
import { awaitsDelivery } from '../../protocol/delivery/outbox-state.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, type EidHex, eidHex, eid as eidOf } from '../../protocol/identity/eid.ts'
import { rotationsFrom } from '../../protocol/identity/rotation.ts'
import { mailboxChannelOf } from '../delivery/mailbox-channel.ts'
import { depositObject } from '../delivery/mailbox-client.ts'
import type { Outbox, OutboxEntry, OutboxEvidence } from '../delivery/outbox.ts'
import type { Attempted } from '../delivery/outbox-runner.ts'
import type { OutgoingObjects } from '../delivery/outgoing.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import type { Session } from '../sessions/session.ts'
import type { Mailbox, MailRecords } from '../spaces/mail-records.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { isObject } from './json-rpc.ts'
import { extensionsOf, sealSend } from './keep-asleep.ts'
import type { SendOutcome } from './send-message.ts'

/** No later attempt makes these good. */
const NEVER: ReadonlySet<string> = new Set([
  'MESSAGE_TOO_LARGE',
  'MESSAGE_ID_REUSED',
  'MESSAGE_EXPIRED',
  'AGENT_WITHDRAWN',
  'AGENT_REFUSED',
  'INVALID_PARAMS',
  'TASK_NOT_FOUND',
  'UNSUPPORTED_OPERATION',
  'CONTENT_TYPE_NOT_SUPPORTED'
])
/** The audience answered, so its keepers have nothing to do. */
const MET: ReadonlySet<string> = new Set([
  'RATE_LIMITED',
  'SEND_RATE_LIMITED',
  'PERMISSION_DENIED',
  'STORE_WRITE_FAILED',
  'UNAUTHENTICATED',
  'INTERNAL_ERROR'
])
const TERMINAL = new Set(['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'])
/** The audience is waited for so long, one keeper so long; the next has its turn whatever it does. A repetition does no harm. */
const AUDIENCE_MS = 15_000
const KEEPER_MS = 10_000
/** An agent of this very node needs none. */
const NO_RECEIPT = new Uint8Array()

interface Deposited {
  object: GovernedObject
  bytes: Uint8Array
}
type About = Pick<Receipt, 'objectHash' | 'id' | 'issuer' | 'audience'>
type SignedReceipt = OutboxEvidence['receipts'][number]

export interface DeliverComponents {
  outbox: Outbox
  outgoing: Pick<OutgoingObjects, 'seal' | 'get'>
  mailRecords: Pick<MailRecords, 'mailbox'>
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
  /** default: nothing is traced */
  tracer?: Tracer
  agent: (home: EidHex) => LocalAgent | undefined
  newest: (eid: Eid) => Eid
  /** as `rookery send` does, without waiting for the task */
  send: (input: { from: LocalAgent; to: Eid; message: JsonObject }, signal: AbortSignal) => Promise<SendOutcome>
  open: (from: LocalAgent, to: Eid, signal: AbortSignal) => Promise<Session>
}

/**
 * One attempt to deliver what an outbox holds, or to learn what became of it: the audience first, and where it is away its keepers. The message is sent as it
 * was before, with its messageId and, sealed, the very same bytes, so that nothing has its effect twice.
 */
export class OutboxDelivery {
  readonly #c: DeliverComponents
  readonly #copies: number

  /** @param copies - of how many of the audience's keepers a receipt is wanted */
  constructor(components: DeliverComponents, { copies }: { copies: number }) {
    this.#c = components
    this.#copies = copies
  }

  async attempt(entry: OutboxEntry, audience: 'try' | 'away', signal: AbortSignal): Promise<Attempted> {
    const { tracer = noTracer } = this.#c
    if (!tracer.isOn) return await this.#attempt(entry, audience, signal)
    const attributes = { 'rookery.outbox.id': entry.id }
    return await tracer.run('outbox attempt', { kind: 'producer', parent: entry.traceparent, attributes }, () =>
      this.#attempt(entry, audience, signal)
    )
  }

  async #attempt(entry: OutboxEntry, audience: 'try' | 'away', signal: AbortSignal): Promise<Attempted> {
    const from = this.#c.agent(entry.from)
    if (from === undefined) return { news: { name: 'refused', reason: 'SENDER_GONE' }, audience: 'met' }
    const to = this.#c.newest(eidOf(fromHex(entry.to)))
    const message = await this.#c.outbox.message(entry)
    let why = 'AGENT_UNREACHABLE'
    if (audience === 'try') {
      const live = await this.#live(entry, { from, to, message }, signal)
      if (live.audience === 'met') return live
      why = live.why ?? why
    }
    // What was delivered is nobody else's to keep; only the audience can say more of it, and those who kept it pass its word on.
    if (!awaitsDelivery(entry.state)) return { why, ...(await this.#since(entry, { from, to }, signal)), audience: 'away' }
    const kept = await this.#keepers(entry, { from, to, message }, signal)
    return { ...kept, audience: 'away', why }
  }

  async #live(entry: OutboxEntry, input: { from: LocalAgent; to: Eid; message: JsonObject }, signal: AbortSignal): Promise<Attempted> {
    const met = { audience: 'met' } as const
    try {
      // Sealed before anything else seals it, so that no copy outlives the sender's wish.
      if (entry.expiresAtMs - entry.acceptedAtMs < OBJECT_LIFE_MAX_MS) await this.#sealed(entry, input)
      const outcome = await within(this.#c.clock, AUDIENCE_MS, 'AUDIENCE_TIMEOUT', signal, (patience) => this.#c.send(input, patience))
      switch (outcome.outcome) {
        case 'task': {
          const { id, status } = outcome.task ?? {}
          const state = isObject(status) ? status.state : undefined
          const isOver = typeof state === 'string' && TERMINAL.has(state)
          return { ...met, news: { name: isOver ? 'handled' : 'delivered' }, ...(typeof id === 'string' ? { task: id.slice(0, 128) } : {}) }
        }
        case 'message':
          return { ...met, news: { name: 'handled' } }
        case 'queued': {
          const { receipts, untilMs } = await this.#withOwnNode(entry, input)
          return { ...met, ...later(outcome), news: { name: 'kept', by: receipts.length }, receipts, untilMs, why: 'AGENT_ASLEEP' }
        }
        case 'asleep':
          return { ...met, ...later(outcome), news: undefined, why: 'AGENT_ASLEEP' }
        case 'queue-full':
          return { ...met, ...later(outcome), news: undefined, why: 'QUEUE_FULL' }
      }
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof RookeryError)) throw error
      if (NEVER.has(error.code)) return { ...met, news: { name: 'refused', reason: error.code.slice(0, 64) } }
      return { audience: MET.has(error.code) ? 'met' : 'away', news: undefined, why: error.code }
    }
  }

  /** The audience's own node holds it, and signed so after its sync. */
  async #withOwnNode(entry: OutboxEntry, input: { from: LocalAgent; to: Eid; message: JsonObject }) {
    const keeper = eidHex(input.to)
    const { receipts } = await this.#c.outbox.evidence(entry)
    const { receipt, expiresAtMs } = await this.#sealed(entry, input)
    return {
      receipts: [...receipts.filter((one) => one.keeper !== keeper), { keeper, receipt: receipt ?? NO_RECEIPT }],
      untilMs: expiresAtMs
    }
  }

  async #sealed(entry: OutboxEntry, { from, to, message }: { from: LocalAgent; to: Eid; message: JsonObject }, known?: Mailbox) {
    const { mailRecords, outgoing, clock, tracer = noTracer } = this.#c
    const { mailboxKey } = known ?? (await mailRecords.mailbox(to))
    const ttlMs = Math.max(1, entry.expiresAtMs - clock.nowMs())
    const extensions = extensionsOf(message)
    return await sealSend(outgoing, { from, to, mailboxKey, params: { message }, extensions, ttlMs, traceparent: tracer.forPeers() })
  }

  async #keepers(entry: OutboxEntry, input: { from: LocalAgent; to: Eid; message: JsonObject }, signal: AbortSignal): Promise<Attempted> {
    const { mailRecords, crypto, clock, logger, newest } = this.#c
    const { from, to } = input
    const mailbox = await mailRecords.mailbox(to, { signal })
    const { keepers } = mailbox
    const none: Attempted = { news: undefined, audience: 'away' }
    if (keepers.length === 0) return none
    const sealed = await this.#sealed(entry, input, mailbox)
    const deposited = { object: decodeObject(sealed.object, { bytesMax: DEPOSIT_OBJECT_BYTES_MAX }), bytes: sealed.object }
    const before = (await this.#c.outbox.evidence(entry)).receipts
    const lasts = ({ keeper, receipt }: SignedReceipt) => isFor(crypto, receipt, eidOf(fromHex(keeper)), deposited, clock.nowMs())
    // The audience's own node signed too, if it took the message before it went away.
    const receipts = before.filter((one) => one.keeper === eidHex(to) && lasts(one))
    const own = receipts.length
    let why: string | undefined
    for (const keeper of keepers) {
      signal.throwIfAborted()
      const stands = { signed: before.find((one) => one.keeper === eidHex(keeper) && lasts(one)) }
      if (stands.signed === undefined && receipts.length - own >= this.#copies) continue
      try {
        const said = await within(clock, KEEPER_MS, 'KEEPER_TIMEOUT', signal, async (patience) => {
          const session = await this.#c.open(from, newest(keeper), patience)
          return await this.#withKeeper(session, { deposited, to, stands }, patience)
        })
        if ('news' in said) return { ...none, ...said, receipts: before }
        if ('receipt' in said) receipts.push({ keeper: eidHex(keeper), receipt: said.receipt })
        else why = said.why
      } catch (error) {
        signal.throwIfAborted()
        why = error instanceof RookeryError ? error.code : 'KEEPER_UNREACHABLE'
        logger.debug({ keeper: toHex(keeper).slice(0, 16), err: error }, 'a keeper did not take a message')
        // It signed that it holds the message until then; that it cannot be asked now takes nothing back.
        if (stands.signed !== undefined) receipts.push(stands.signed)
      }
    }
    if (receipts.length === 0 && entry.state.name !== 'kept') return { ...none, why }
    return { ...none, news: { name: 'kept', by: receipts.length }, receipts, untilMs: sealed.expiresAtMs, why }
  }

  /** Asks first: what was released is not to be kept again. */
  async #withKeeper(
    session: Session,
    { deposited, to, stands }: { deposited: Deposited; to: Eid; stands: { signed: SignedReceipt | undefined } },
    signal: AbortSignal
  ): Promise<Pick<Attempted, 'news' | 'confirmation'> | { receipt: Uint8Array } | { why: string }> {
    const { crypto, clock, logger } = this.#c
    const { object, bytes } = deposited
    const word = await this.#ask(session, { ...object, objectHash: crypto.sha256(bytes) }, to, signal)
    if (typeof word !== 'string') return word
    if (stands.signed !== undefined && word === 'held') return stands.signed
    if (stands.signed !== undefined)
      logger.warn({ keeper: eidHex(session.remote).slice(0, 16) }, 'a keeper no longer has what it signed for')
    stands.signed = undefined
    const answer = await depositObject(session, deposited.bytes, { crypto, clock, signal })
    return answer.status === 'stored' ? { receipt: answer.receipt } : { why: answer.refusal.code.toUpperCase().replaceAll('-', '_') }
  }

  /** What the keepers of a delivered message know of it by now: that it was handled, or nothing new. */
  async #since(
    entry: OutboxEntry,
    { from, to }: { from: LocalAgent; to: Eid },
    signal: AbortSignal
  ): Promise<{ news: Attempted['news']; confirmation?: Uint8Array | undefined }> {
    const { crypto, clock, logger, newest } = this.#c
    for (const { keeper, receipt } of (await this.#c.outbox.evidence(entry)).receipts) {
      signal.throwIfAborted()
      if (keeper === eidHex(to) || receipt.length === 0) continue
      try {
        const about = verifyReceipt(crypto, receipt, { keeper: eidOf(fromHex(keeper)) })
        const word = await within(clock, KEEPER_MS, 'KEEPER_TIMEOUT', signal, async (patience) => {
          const session = await this.#c.open(from, newest(eidOf(fromHex(keeper))), patience)
          return await this.#ask(session, about, to, patience)
        })
        if (typeof word !== 'string' && word.news?.name === 'handled') return word
      } catch (error) {
        signal.throwIfAborted()
        logger.debug({ keeper: keeper.slice(0, 16), err: error }, 'a keeper could not be asked what became of a message')
      }
    }
    return { news: undefined }
  }

  /** @returns the audience's signed word, or whether the keeper has the object; a word that does not stand is none */
  async #ask(
    session: Session,
    about: About,
    to: Eid,
    signal: AbortSignal
  ): Promise<{ news: Attempted['news']; confirmation: Uint8Array } | 'held' | 'unknown'> {
    const { crypto, clock, newest, logger } = this.#c
    const answer = await mailboxChannelOf(session, clock).ask({ type: 'ask', audience: about.audience, ids: [about.id] }, { signal })
    if (answer.type === 'refusal') return 'unknown'
    for (const confirmation of answer.confirmations) {
      try {
        const became = new Set(rotationsFrom(crypto, about.audience, answer.rotations ?? []).map(eidHex))
        const isAudience = (by: Eid, audience: Eid) =>
          [audience, to, newest(audience)].some((one) => eidHex(one) === eidHex(by)) || became.has(eidHex(by))
        const said = verifyConfirmation(crypto, confirmation, { isAudience, about })
        const news = said.state === 'refused' ? ({ name: 'refused', reason: said.reason ?? 'REFUSED' } as const) : { name: said.state }
        return { news, confirmation }
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error
        logger.warn({ keeper: eidHex(session.remote).slice(0, 16), code: error.code }, 'a keeper showed a confirmation that does not stand')
      }
    }
    return answer.held.some((id) => toHex(id) === toHex(about.id)) ? 'held' : 'unknown'
  }
}

function isFor(crypto: CryptoProvider, receipt: Uint8Array, keeper: Eid, deposited: Deposited, nowMs: number): boolean {
  try {
    return verifyReceipt(crypto, receipt, { keeper, deposited }).storedUntilMs > nowMs
  } catch (error) {
    if (error instanceof ProtocolError) return false
    throw error
  }
}

function later({ asleep }: SendOutcome): { retryAfterMs?: number } {
  return asleep?.retryAfterSec === undefined ? {} : { retryAfterMs: asleep.retryAfterSec * 1_000 }
}

/** Runs `work` under a signal that ends it after `ms`, or with the whole. */
async function within<T>(
  clock: Clock,
  ms: number,
  code: string,
  whole: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const late = new AbortController()
  const cancel = clock.after(ms, () => late.abort(new RookeryError(code, `no answer came within ${ms} ms`, { kind: 'timeout' })))
  try {
    return await work(AbortSignal.any([whole, late.signal]))
  } finally {
    cancel()
  }
}

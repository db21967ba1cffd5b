import { KEEPER_REQUESTS, type KeeperAnswer, type KeeperRequest } from '../../protocol/delivery/keeper-messages.ts'
import {
  decodeMailboxMessage,
  encodeMailboxMessage,
  MAILBOX_CHANNEL,
  MAILBOX_KIND,
  type MailboxMessage
} from '../../protocol/delivery/mailbox.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Inbound, Session } from '../sessions/session.ts'
import { contractLimit } from '../sessions/session-errors.ts'
import { holdStored } from './stored-under-contract.ts'

/** Deposits of ours that wait for an answer; above it the next is refused here. */
export const DEPOSITS_PENDING_MAX = 256
/** Answers under way to the peer; above it we take no further deposit until one is acknowledged. */
export const ANSWERS_PENDING_MAX = 64
export const DEPOSIT_TIMEOUT_MS = 30_000

type Refusal = Extract<MailboxMessage, { type: 'refusal' }>
export type MailboxAnswer = Extract<MailboxMessage, { type: 'receipt' }> | Refusal
type AnyAnswer = Exclude<MailboxMessage, { type: 'deposit' | KeeperRequest['type'] }>
type Answer = Omit<Extract<MailboxMessage, { type: 'receipt' }>, 'request'> | Omit<Refusal, 'request'>
export type DepositHandler = (object: Uint8Array) => Promise<Answer>
export type KeeperHandler = (request: KeeperRequest) => Promise<KeeperAnswer | Omit<Refusal, 'request'>>

/** What answers what. */
const ANSWER_OF = { deposit: 'receipt', keep: 'kept', fetch: 'page', release: 'released', ask: 'told' } as const
type AnswerTo<R extends KeeperRequest> = Extract<KeeperAnswer, { type: (typeof ANSWER_OF)[R['type']] }>

interface Pending {
  readonly bytes: Uint8Array
  /** the peer has the deposit: if its process went meanwhile, only the same bytes again bring the receipt */
  acknowledged: boolean
  readonly expects: AnyAnswer['type']
  resolve(answer: AnyAnswer): void
  reject(error: unknown): void
}

const channels = new WeakMap<Session, MailboxChannel>()

/** The one mailbox channel of a session: both roles share it. */
export function mailboxChannelOf(session: Session, clock: Clock): MailboxChannel {
  let channel = channels.get(session)
  if (channel === undefined) {
    channel = new MailboxChannel(session, clock)
    channels.set(session, channel)
  }
  return channel
}

/** Requests and answers over channel 2: deposits go out by number, answers come back by it. */
export class MailboxChannel {
  readonly #session: Session
  readonly #clock: Clock
  readonly #pending = new Map<number, Pending>()
  readonly #answers = new Set<Promise<void>>()
  #handler: DepositHandler | undefined
  #keeper: KeeperHandler | undefined
  #nextRequest: number | undefined
  #ended: { reason: string } | undefined
  /** items that were no mailbox message, or answers nobody waits for */
  ignored = 0

  constructor(session: Session, clock: Clock) {
    this.#session = session
    this.#clock = clock
    session.onChannel(MAILBOX_CHANNEL, (item) => this.#take(item))
    session.onResumed?.(() => this.#sendAgain())
    void session.closed.then((ended) => {
      this.#ended = ended
      for (const pending of this.#pending.values()) pending.reject(lost(ended.reason))
      this.#pending.clear()
    })
  }

  serve(handler: DepositHandler): void {
    this.#handler = handler
  }

  serveKeeper(handler: KeeperHandler): void {
    this.#keeper = handler
  }

  /**
   * @throws RookeryError `DEPOSITS_PENDING`, `RECEIPT_TIMEOUT`, `SESSION_LOST` (for the last two the outcome is unknown: send the same bytes
   * again), `CONTRACT_LIMIT`, what the session's `send` throws; or the signal's reason
   */
  async deposit(
    object: Uint8Array,
    { signal, timeoutMs = DEPOSIT_TIMEOUT_MS }: { signal?: AbortSignal; timeoutMs?: number } = {}
  ): Promise<MailboxAnswer> {
    const room = holdStored(this.#session, 'sent', object, this.#clock)
    if (room.breach !== undefined) throw contractLimit(room.breach)
    const answer = await this.#exchange({ type: 'deposit', object }, { signal, timeoutMs })
    if (answer.type === 'refusal') room.release()
    return answer as MailboxAnswer
  }

  /**
   * Asks the keeper at the other end.
   * @throws as {@link deposit}; RookeryError `ANSWER_INVALID` for an answer to something else
   */
  async ask<R extends KeeperRequest>(
    request: R,
    { signal, timeoutMs = DEPOSIT_TIMEOUT_MS }: { signal?: AbortSignal | undefined; timeoutMs?: number } = {}
  ): Promise<AnswerTo<R> | Refusal> {
    return (await this.#exchange(request, { signal, timeoutMs })) as AnswerTo<R> | Refusal
  }

  async #exchange(
    message: KeeperRequest | { type: 'deposit'; object: Uint8Array },
    { signal, timeoutMs }: { signal: AbortSignal | undefined; timeoutMs: number }
  ): Promise<AnyAnswer> {
    signal?.throwIfAborted()
    if (this.#ended !== undefined) throw lost(this.#ended.reason)
    if (this.#pending.size >= DEPOSITS_PENDING_MAX) {
      throw new RookeryError('DEPOSITS_PENDING', `${DEPOSITS_PENDING_MAX} deposits wait for an answer of this peer`, {
        kind: 'unavailable',
        remedy: 'wait for them, then send again'
      })
    }
    const request = this.#request()
    const bytes = encodeMailboxMessage({ ...message, request })
    const { promise, resolve, reject } = Promise.withResolvers<AnyAnswer>()
    const pending: Pending = { bytes, acknowledged: false, expects: ANSWER_OF[message.type], resolve, reject }
    this.#pending.set(request, pending)
    const aborted = () => reject(signal?.reason)
    signal?.addEventListener('abort', aborted, { once: true })
    const cancel = this.#clock.after(timeoutMs, () =>
      reject(
        new RookeryError('RECEIPT_TIMEOUT', `no ${message.type === 'deposit' ? 'receipt' : 'answer'} came within ${timeoutMs} ms`, {
          kind: 'timeout',
          remedy: 'send the same message again: the same bytes get the same receipt'
        })
      )
    )
    this.#session.send(MAILBOX_CHANNEL, MAILBOX_KIND, bytes, signal === undefined ? {} : { signal }).then(() => {
      pending.acknowledged = true
    }, reject)
    try {
      return await promise
    } finally {
      cancel()
      signal?.removeEventListener('abort', aborted)
      this.#pending.delete(request)
    }
  }

  /** Numbers go on above those of an earlier process, whose answers may still come: every deposit is a transaction. */
  #request(): number {
    const from = this.#nextRequest ?? (Number(BigInt(this.#session.info().txSeq ?? 0) % 0xffff_fffen) || 0) + 1
    this.#nextRequest = from === 0xffff_ffff ? 1 : from + 1
    return from
  }

  #sendAgain(): void {
    for (const { bytes, acknowledged } of this.#pending.values()) {
      if (acknowledged) this.#session.send(MAILBOX_CHANNEL, MAILBOX_KIND, bytes).catch(() => undefined)
    }
  }

  async #take({ kind, payload }: Inbound): Promise<void> {
    if (kind !== MAILBOX_KIND) return this.#ignore()
    let message: MailboxMessage
    try {
      message = decodeMailboxMessage(payload)
    } catch (error) {
      if (error instanceof ProtocolError) return this.#ignore()
      throw error
    }
    if (isAnswer(message)) {
      const pending = this.#pending.get(message.request)
      if (pending === undefined) return this.#ignore()
      if (message.type === 'refusal' || message.type === pending.expects) return pending.resolve(message)
      return pending.reject(answerInvalid(pending.expects, message.type))
    }
    if (this.#answers.size >= ANSWERS_PENDING_MAX) await Promise.race(this.#answers)
    if (message.type !== 'deposit') {
      const { request, ...asked } = message
      return this.#answer({ ...(await (this.#keeper?.(asked) ?? this.#notKeeping())), request })
    }
    const room = holdStored(this.#session, 'received', message.object, this.#clock)
    if (room.breach !== undefined) {
      this.#session.breach(room.breach)
      return await new Promise<never>(() => {}) // nothing of it is stored, so it is never acknowledged
    }
    const answer: Answer = await (this.#handler?.(message.object) ?? this.#notKeeping())
    if (answer.type === 'refusal') room.release()
    this.#answer({ ...answer, request: message.request })
  }

  #notKeeping(): Omit<Refusal, 'request'> {
    return { type: 'refusal', code: 'not-keeping', nowMs: this.#clock.nowMs() }
  }

  /** Not awaited by the item's handler: its effect is synced, and the peer may be waiting in a handler of its own. */
  #answer(answer: AnyAnswer): void {
    const sent: Promise<void> = this.#session
      .send(MAILBOX_CHANNEL, MAILBOX_KIND, encodeMailboxMessage(answer))
      .catch(() => undefined) // a lost answer is asked for again with the same bytes
      .finally(() => this.#answers.delete(sent))
    this.#answers.add(sent)
  }

  #ignore(): void {
    this.ignored++
  }
}

function isAnswer(message: MailboxMessage): message is AnyAnswer {
  return message.type !== 'deposit' && !KEEPER_REQUESTS.some((type) => type === message.type)
}

function answerInvalid(expected: string, type: string): RookeryError {
  return new RookeryError('ANSWER_INVALID', `the peer answered "${type}" where "${expected}" is due`, {
    kind: 'refused',
    remedy: 'nothing is taken from it; ask again, or ask another keeper'
  })
}

function lost(reason: string): RookeryError {
  return new RookeryError('SESSION_LOST', `the session ended before the receipt came: ${reason}`, {
    kind: 'unavailable',
    remedy: 'send the same message again: the same bytes get the same receipt'
  })
}

import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { DEPOSIT_OBJECT_BYTES_MAX } from '../../protocol/delivery/mailbox.ts'
import { readRefusal } from '../../protocol/delivery/refusals.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, eidHex } from '../../protocol/identity/eid.ts'
import { depositObject } from '../delivery/mailbox-client.ts'
import type { OutgoingObjects } from '../delivery/outgoing.ts'
import { refusalOfMailbox } from '../delivery/queue-refusal.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import type { Session, SessionManager } from '../sessions/session.ts'
import type { Locators, LocatorView } from '../spaces/spaces.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import { cardFromJson } from './agent-card.ts'
import { DeliveryRefused, isSend } from './delivery-refused.ts'
import type { Activated, RemoteAgents } from './edge.ts'
import { isObject } from './json-rpc.ts'
import { sealSend } from './keep-asleep.ts'
import { BLOCKING_WAIT_DEFAULT_MS } from './operations.ts'
import type { A2aMethod, StreamMethod } from './params.ts'
import { type A2aChannel, a2aChannelOf, RemoteRefusal } from './pss-binding.ts'
import { isLoss, resumingStream } from './resuming-stream.ts'
import { A2A_VERSION, type ServiceParameters } from './service-parameters.ts'
import type { TaskStream } from './task-stream.ts'
import { TokenBucket } from './token-bucket.ts'

export interface RemoteAgentsComponents {
  locators: Pick<Locators, 'resolve'>
  sessions: Pick<SessionManager, 'open'>
  outgoing: Pick<OutgoingObjects, 'seal' | 'keepReceipt'>
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
  /** default: nothing is traced */
  tracer?: Tracer
}

export interface RemoteAgentsSettings {
  /** to find the agent and open a session */
  openTimeoutMs: number
  /** to answer what does not wait for a task */
  answerTimeoutMs: number
  /** to answer a blocking send */
  blockingTimeoutMs: number
  /** how long a remote card is served without asking again */
  cardAgeMs: number
}

export const REMOTE_DEFAULTS: RemoteAgentsSettings = {
  openTimeoutMs: 20_000,
  answerTimeoutMs: 30_000,
  blockingTimeoutMs: BLOCKING_WAIT_DEFAULT_MS + 30_000,
  cardAgeMs: 60_000
}

type StreamRequest = { method: StreamMethod; params: JsonObject; parameters: ServiceParameters }

/** Cards that askers without a token may make this node fetch from elsewhere: so many at once, then so many a second; above it 429. */
export const ANYONES_CARD_FETCHES = { burst: 30, perSec: 1 }
/** Cards of remote agents kept; the oldest goes first. */
const CARDS_MAX = 256

/** Calls agents of other nodes in the name of ours: locator, session, A2A over it; asleep: seal, keep, deposit. */
export function createRemoteAgents(components: RemoteAgentsComponents, settings: Partial<RemoteAgentsSettings> = {}): RemoteAgents {
  return new SessionAgents(components, { ...REMOTE_DEFAULTS, ...settings })
}

class SessionAgents implements RemoteAgents {
  readonly #components: RemoteAgentsComponents
  readonly #settings: RemoteAgentsSettings
  readonly #anyonesFetches: TokenBucket
  readonly #cards = new Map<string, { card: Promise<JsonObject>; untilMs: number }>()

  constructor(components: RemoteAgentsComponents, settings: RemoteAgentsSettings) {
    this.#components = components
    this.#settings = settings
    this.#anyonesFetches = new TokenBucket(components.clock, ANYONES_CARD_FETCHES)
  }

  /**
   * A peer that restarted or moved since its locator was read, or whose session broke under the request, is asked once more through its newest
   * locator: every method here may be repeated, a send because its messageId runs once.
   */
  async call(
    from: LocalAgent,
    to: Eid,
    request: { method: A2aMethod; params: JsonObject; parameters: ServiceParameters },
    { signal, activated }: { signal: AbortSignal; activated?: Activated | undefined }
  ): Promise<Json> {
    return await this.#traced(request.method, () =>
      this.#ask({ from, to, request, signal }, (session) => this.#request(session, request, signal, activated))
    )
  }

  async stream(
    from: LocalAgent,
    to: Eid,
    request: { method: StreamMethod; params: JsonObject; parameters: ServiceParameters },
    { signal, lastEventId, activated }: { signal: AbortSignal; lastEventId?: string | undefined; activated?: Activated | undefined }
  ): Promise<TaskStream> {
    const { parameters } = request
    const open = async (asked: StreamRequest, after: string | undefined, over: AbortSignal) =>
      await this.#ask({ from, to, request: asked, signal: over }, (session) =>
        this.#onSession(session, (channel) =>
          channel.stream(asked.method, asked.params, {
            parameters,
            timeoutMs: this.#settings.answerTimeoutMs,
            signal: over,
            lastEventId: after,
            activated
          })
        )
      )
    const leaving = new AbortController()
    const over = AbortSignal.any([signal, leaving.signal])
    return resumingStream(await this.#traced(request.method, () => open(request, lastEventId, over)), {
      clock: this.#components.clock,
      over,
      leave: () => leaving.abort(new DOMException('the reader left', 'AbortError')),
      lastEventId,
      subscribe: (id, after) => open({ method: 'SubscribeToTask', params: { id }, parameters }, after, over),
      read: async (id) => await this.call(from, to, { method: 'GetTask', params: { id, historyLength: 0 }, parameters }, { signal: over })
    })
  }

  /** One span for finding the agent, the session and the answer; of a stream up to its first event. */
  async #traced<T>(method: A2aMethod, work: () => Promise<T>): Promise<T> {
    const { tracer = noTracer } = this.#components
    if (!tracer.isOn) return await work()
    const attributes = { 'rpc.system': 'a2a', 'rpc.method': method, 'rookery.door': 'a2a-pss' }
    return await tracer.run('A2A call', { kind: 'client', parent: tracer.current(), attributes }, work)
  }

  /** @param ask - what is done with a session; called a second time where the first was lost */
  async #ask<T>(
    call: {
      from: LocalAgent
      to: Eid
      request: { method: A2aMethod; params: JsonObject; parameters: ServiceParameters }
      signal: AbortSignal
    },
    ask: (session: Session) => Promise<T>
  ): Promise<T> {
    const { to, signal } = call
    const locator = await this.#locate(to, signal)
    try {
      return await this.#askAt(locator, call, ask)
    } catch (err) {
      if (!(err instanceof A2aError) || signal.aborted) throw err
      if (err.reason !== 'AGENT_UNREACHABLE' && !isLoss(err)) throw err
      const newest = await this.#components.locators.resolve(to, { signal, fresh: true }).catch(() => locator)
      if (err.reason === 'AGENT_UNREACHABLE' && newest.gen === locator.gen) throw err
      return await this.#askAt(newest, call, ask).catch((again) => {
        // Nothing was sent the second time, so what became of the first stays unknown.
        throw isLoss(err) && again instanceof A2aError && again.reason === 'AGENT_UNREACHABLE' ? err : again
      })
    }
  }

  async #askAt<T>(
    locator: LocatorView,
    {
      from,
      to,
      request,
      signal
    }: {
      from: LocalAgent
      to: Eid
      request: { method: A2aMethod; params: JsonObject; parameters: ServiceParameters }
      signal: AbortSignal
    },
    ask: (session: Session) => Promise<T>
  ): Promise<T> {
    const { method, params } = request
    const session = await this.#open(from, to, locator, signal)
    try {
      return await ask(session)
    } catch (err) {
      if (!(err instanceof RemoteRefusal)) throw err
      const asleep = readRefusal({ body: err.error, request: { method } })
      if (asleep?.token === 'agent_asleep') {
        if (!asleep.deposits || !isSend(method)) {
          throw new DeliveryRefused({ reason: 'asleep', queued: false, retryAfterSec: asleep.retryAfterSec })
        }
        const { extensions } = request.parameters
        throw await this.#deposit({ from, to, locator, session, params, extensions, retryAfterSec: asleep.retryAfterSec, signal })
      }
      throw err.toA2aError()
    }
  }

  async card(from: LocalAgent, to: Eid, { signal, asker }: { signal: AbortSignal; asker: 'local-agent' | 'anyone' }): Promise<JsonObject> {
    const key = `${from.eidHex}/${eidHex(to)}`
    const nowMs = this.#components.clock.monotonicMs()
    let held = this.#cards.get(key)
    if (held === undefined || held.untilMs <= nowMs) {
      const retryAfterSec = asker === 'anyone' ? this.#anyonesFetches.take() : 0
      if (retryAfterSec > 0) {
        throw new A2aError('RATE_LIMITED', 'too many cards of other nodes were asked for; the token of a local agent lifts this bound', {
          retryAfterSec
        })
      }
      held = { card: this.#fetchCard(from, to), untilMs: nowMs + this.#settings.cardAgeMs }
      this.#cards.delete(key)
      if (this.#cards.size >= CARDS_MAX) this.#cards.delete(this.#cards.keys().next().value as string)
      this.#cards.set(key, held)
      const fetched = held
      fetched.card.catch(() => {
        if (this.#cards.get(key) === fetched) this.#cards.delete(key)
      })
    }
    return await untilAborted(held.card, signal)
  }

  /** Shared by all who ask at the same time, so it outlives each of them. */
  async #fetchCard(from: LocalAgent, to: Eid): Promise<JsonObject> {
    const parameters = { version: A2A_VERSION, extensions: [] }
    const signal = new AbortController().signal
    try {
      const session = await this.#open(from, to, await this.#locate(to, signal), signal)
      const card = await this.#request(session, { method: 'GetExtendedAgentCard', params: {}, parameters }, signal)
      if (!isObject(card)) throw new A2aError('INTERNAL_ERROR', 'the agent sent a card that is none')
      cardFromJson(card)
      return card
    } catch (err) {
      throw err instanceof RemoteRefusal ? err.toA2aError() : err
    }
  }

  /** @throws A2aError `AGENT_UNREACHABLE` */
  async #locate(to: Eid, signal: AbortSignal): Promise<LocatorView> {
    return await this.#limited(signal, 'find the agent', (limited) => this.#components.locators.resolve(to, { signal: limited }))
  }

  async #open(from: LocalAgent, to: Eid, locator: LocatorView, signal: AbortSignal): Promise<Session> {
    return await this.#limited(signal, 'open a session with the agent', (limited) =>
      this.#components.sessions.open(from, to, locator.address, { signal: limited })
    )
  }

  async #limited<T>(signal: AbortSignal, what: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock } = this.#components
    const { openTimeoutMs } = this.#settings
    const timeout = new AbortController()
    const cancel = clock.after(openTimeoutMs, () =>
      timeout.abort(new A2aError('AGENT_UNREACHABLE', `could not ${what} within ${openTimeoutMs} ms; nothing was sent`, { status: 504 }))
    )
    const limited = AbortSignal.any([signal, timeout.signal])
    try {
      return await untilAborted(work(limited), limited)
    } catch (err) {
      throw unreachable(err, what)
    } finally {
      cancel()
    }
  }

  async #request(
    session: Session,
    request: { method: A2aMethod; params: JsonObject; parameters: ServiceParameters },
    signal: AbortSignal,
    activated?: Activated
  ): Promise<Json> {
    const { blockingTimeoutMs, answerTimeoutMs } = this.#settings
    const configuration = request.params.configuration
    const blocking = isSend(request.method) && !(isObject(configuration) && configuration.returnImmediately === true)
    return await this.#onSession(session, (channel) =>
      channel.request(request.method, request.params, {
        parameters: request.parameters,
        timeoutMs: blocking ? blockingTimeoutMs : answerTimeoutMs,
        signal,
        activated
      })
    )
  }

  async #onSession<T>(session: Session, work: (channel: A2aChannel) => Promise<T>): Promise<T> {
    try {
      return await work(a2aChannelOf(session, this.#components))
    } catch (err) {
      if (err instanceof RookeryError && err.code === 'SESSION_CLOSED') throw unreachable(err, 'use the session')
      throw err
    }
  }

  /** Stored means: sealed and synced here, and a receipt that the agent's node signed after its own sync. */
  async #deposit(input: {
    from: LocalAgent
    to: Eid
    locator: LocatorView
    session: Session
    params: JsonObject
    extensions: readonly string[]
    retryAfterSec: number | undefined
    signal: AbortSignal
  }): Promise<DeliveryRefused> {
    const { outgoing, crypto, clock, logger, tracer = noTracer } = this.#components
    const { from, to, locator, session, params, extensions, retryAfterSec, signal } = input
    try {
      const { mailboxKey } = locator
      const sealed = await sealSend(outgoing, { from, to, mailboxKey, params, extensions, traceparent: tracer.forPeers() })
      const answer = await depositObject(session, sealed.object, { crypto, clock, signal })
      if (answer.status === 'refused') {
        return new DeliveryRefused(refusalOfMailbox(answer.refusal, { objectBytesMax: DEPOSIT_OBJECT_BYTES_MAX }))
      }
      await outgoing.keepReceipt(sealed.key, answer.receipt).catch((err) => logger.warn({ err }, 'a receipt could not be kept'))
      return new DeliveryRefused({ reason: 'asleep', queued: true, retryAfterSec })
    } catch (err) {
      if (err instanceof RookeryError && err.kind === 'storage') return new DeliveryRefused({ reason: 'store-failed' })
      if (err instanceof RookeryError && ['RECEIPT_TIMEOUT', 'SESSION_LOST', 'SESSION_CLOSED', 'RECEIPT_INVALID'].includes(err.code)) {
        throw new A2aError('OUTCOME_UNKNOWN', `the agent sleeps, and no valid receipt came: ${err.message}`, {
          metadata: { outcome: 'unknown', queued: 'unknown', remedy: 'send the same messageId again: the same object is deposited once' },
          cause: err
        })
      }
      if (err instanceof ProtocolError) throw new A2aError('INTERNAL_ERROR', 'the agent names a mailbox key that is none', { cause: err })
      throw err
    }
  }
}

/** What keeps us from an agent, before anything was sent to it. */
function unreachable(err: unknown, what: string): unknown {
  if (!(err instanceof RookeryError)) return err
  if (err.code === 'AGENT_UNKNOWN') return new A2aError('AGENT_UNKNOWN', err.message, { cause: err })
  return new A2aError('AGENT_UNREACHABLE', `could not ${what}; nothing was sent: ${err.message}`, {
    metadata: { cause: err.code, ...(typeof err.data?.reason === 'string' ? { detail: err.data.reason } : {}) },
    status: err.kind === 'timeout' ? 504 : 502,
    cause: err
  })
}

function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason)
    if (signal.aborted) aborted()
    else signal.addEventListener('abort', aborted, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', aborted))
  })
}

import { fromUtf8, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { decodeObject, type GovernedObject, openObject, PURPOSE_A2A_MESSAGE, verifyObject } from '../../protocol/delivery/object.ts'
import { sealedExtensions, sealedTraceparent } from '../../protocol/delivery/sealed-request.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { type ErrorKind, RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import type { Store, WriteOp } from '../store/store.ts'
import type { JsonObject, TodoCreate, Todos } from '../tasks/todo.ts'
import type { Approval } from './approval-policy.ts'
import type { DrainableQueue, DrainEvent, DrainReport, QueueRecord } from './asleep-queue.ts'
import type { ClockGuard } from './clock-guard.ts'
import type { ReplayCache } from './replay-cache.ts'

/** Effects a second when an agent wakes, so that a full queue does not fall on it at once. */
export const DRAIN_PER_SEC_DEFAULT = 200
/** Records whose batches may share a sync; each is still one batch of its own, all of it or none, in order. */
export const DRAIN_BATCH_MAX = 32
/** Events kept for a report; a caller that wants every one passes `onEvent`. */
export const DRAIN_EVENTS_MAX = 1_000
/** Kinds of refusal by the task store that no later try can mend. */
const MESSAGE_FAULTS: readonly ErrorKind[] = ['usage', 'conflict', 'notFound']
/** What a drain can act on; records of any other purpose wait for a processor that knows them (OD-38). */
export const KNOWN_PURPOSES: readonly string[] = [PURPOSE_A2A_MESSAGE]

export interface DrainComponents {
  queue: DrainableQueue
  replay: ReplayCache
  clockGuard: ClockGuard
  todos: Pick<Todos, 'create'>
  store: Store
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
  /** default: nothing is traced */
  tracer?: Tracer
}

export interface DrainInit {
  /** what the agent takes now, whatever it took when the record came (OD-34); default: every known purpose */
  allowsPurpose?: (agent: LocalAgent, purpose: string) => boolean
  /**
   * Whether work made of this message may run by itself. `none` only where no skill that it may reach has a consequential effect, `{by}` where a
   * rule of the owner approves it; default: always `needed` (OD-40).
   */
  approvalFor?: (agent: LocalAgent, message: JsonObject, issuer: EidHex) => Approval
  /** whether this principal may still make work for the agent (TD-07, OD-34); default: yes */
  maySend?: (agent: LocalAgent, principal: string) => boolean
  /** the named queue that this principal's work goes into (TD-04); default: the agent's only one */
  queueOf?: (agent: LocalAgent, principal: string) => string | undefined
  /**
   * Under which contract a message is executed that waited since then, or why it is not any more (G-70); default: under none
   * @param request - `extensions`: what its sender activates
   */
  underContract?: (
    agent: LocalAgent,
    request: { message: JsonObject; extensions: readonly string[] },
    sinceMs: number
  ) => Pick<TodoCreate, 'execution' | 'dedupKey' | 'refused'>
  perSecMax?: number
  /** default {@link DRAIN_BATCH_MAX} */
  batchMax?: number
  /** the EID that an issuer was first known by here; default: the one it has */
  rootOf?: (eidHex: EidHex) => EidHex
  /** whether one of our own agents signed an object; default: none did */
  isOwn?: (issuer: Eid) => boolean
  /** whether an object may name this audience; default: the agent's EID alone */
  isAudience?: (agent: LocalAgent, audience: Eid) => boolean
}

export interface DrainOptions {
  signal?: AbortSignal
  onEvent?: (event: DrainEvent) => void
}

type Verdict = Omit<DrainEvent, 'key' | 'objectId'>

/** A record that was looked at, and what is to be done with it. */
type Examined =
  | { to: 'wait'; record: QueueRecord; verdict: Verdict }
  | { to: 'discard'; record: QueueRecord; verdict: Verdict }
  | {
      to: 'accept'
      record: QueueRecord
      object: GovernedObject
      message: JsonObject
      extensions: readonly string[]
      traceparent: string | undefined
      nowMs: number
    }

/**
 * Hands over what waited for an agent, in order of arrival, each record validated again at the clock of now: time, audience, signature,
 * key, purpose, replay (OD-33 … OD-36). What fails is discarded and holds up nothing; what is accepted leaves the queue, enters the replay
 * cache and becomes a Todo in one synced commit (G-15: effectively once).
 */
export class Drain {
  readonly #components: DrainComponents
  readonly #init: Required<DrainInit>
  /** one drain an agent: a second call joins the first */
  readonly #running = new Map<EidHex, Promise<DrainReport>>()
  /** who was asked for again while its drain ran: what came after its last look is looked for once more */
  readonly #again = new Set<EidHex>()

  constructor(components: DrainComponents, init: DrainInit = {}) {
    this.#components = components
    this.#init = {
      allowsPurpose: init.allowsPurpose ?? (() => true),
      approvalFor: init.approvalFor ?? (() => 'needed'),
      rootOf: init.rootOf ?? ((hex) => hex),
      isAudience: init.isAudience ?? (() => false),
      isOwn: init.isOwn ?? (() => false),
      underContract: init.underContract ?? (() => ({})),
      maySend: init.maySend ?? (() => true),
      queueOf: init.queueOf ?? (() => undefined),
      perSecMax: init.perSecMax ?? DRAIN_PER_SEC_DEFAULT,
      batchMax: init.batchMax ?? DRAIN_BATCH_MAX
    }
  }

  /** Whether one is under way for this agent. */
  isRunning(agent: LocalAgent): boolean {
    return this.#running.has(homeOf(agent))
  }

  /**
   * @returns what became of each record; `held` and nothing done while the clock reads too early (G-10)
   * @throws RookeryError `STORE_WRITE_FAILED`: what was not committed is still queued; or the signal's reason, between two records
   */
  drain(agent: LocalAgent, options: DrainOptions = {}): Promise<DrainReport> {
    const running = this.#running.get(homeOf(agent))
    if (running !== undefined) {
      this.#again.add(homeOf(agent))
      return running
    }
    const drain: Promise<DrainReport> = this.#drain(agent, options).finally(() => {
      if (this.#running.get(homeOf(agent)) === drain) this.#running.delete(homeOf(agent))
    })
    this.#running.set(homeOf(agent), drain)
    return drain
  }

  async #drain(agent: LocalAgent, { signal, onEvent }: DrainOptions): Promise<DrainReport> {
    const { queue, clockGuard, logger } = this.#components
    const report: DrainReport = { accepted: 0, discarded: 0, waiting: 0, events: [] }
    const held = clockGuard.held()
    if (held !== undefined) {
      logger.warn({ agent: agent.name }, `the drain is held: ${held}`)
      return { ...report, held }
    }
    await clockGuard.persist()
    await this.#components.replay.prune(clockGuard.settledMs())
    const pace = this.#pace()
    let batch: Examined[] = []
    const flush = async () => {
      const verdicts = await this.#settleAll(agent, batch)
      const records = batch.map(({ record }) => record)
      batch = []
      let accepted = 0
      for (const [i, { key, objectId }] of records.entries()) {
        const settled = verdicts[i] as PromiseSettledResult<Verdict>
        if (settled.status === 'rejected') throw settled.reason
        const event: DrainEvent = { key, objectId, ...settled.value }
        if (event.outcome === 'accepted') accepted++
        else if (event.outcome === 'waits') report.waiting++
        else report.discarded++
        if (report.events.length < DRAIN_EVENTS_MAX) report.events.push(event)
        onEvent?.(event)
      }
      report.accepted += accepted
      await pace.took(accepted, signal)
    }
    let afterKey: string | undefined
    for (let seen = 1; seen > 0 || this.#again.has(homeOf(agent)); ) {
      seen = 0
      this.#again.delete(homeOf(agent))
      for await (const record of queue.records(homeOf(agent), afterKey === undefined ? {} : { afterKey })) {
        signal?.throwIfAborted()
        seen++
        afterKey = record.key
        batch.push(await this.#examine(agent, record))
        if (batch.length >= Math.min(this.#init.batchMax, pace.left())) await flush()
      }
      await flush()
    }
    // In one step with the last look at who asked again: whoever asks from here on starts a drain of its own.
    this.#running.delete(homeOf(agent))
    return report
  }

  /** What becomes of several, written in their order: each batch has its place before the next is made, and those that wait share a sync. */
  async #settleAll(agent: LocalAgent, batch: readonly Examined[]): Promise<PromiseSettledResult<Verdict>[]> {
    const verdicts: Promise<Verdict>[] = []
    for (const examined of batch) {
      const issued = Promise.withResolvers<void>()
      const verdict = this.#settle(agent, examined, issued.resolve)
      verdicts.push(verdict)
      const ended = verdict.then(
        () => undefined,
        () => undefined
      )
      await Promise.race([issued.promise, ended])
    }
    return await Promise.allSettled(verdicts)
  }

  /** Validates a record at the clock of now; writes nothing. */
  async #examine(agent: LocalAgent, record: QueueRecord): Promise<Examined> {
    const nowMs = this.#components.clockGuard.now()
    if (record.expiresAtMs <= nowMs) return this.#ended(record, record.expiresAtMs)
    if (record.kind === 'opaque') return { record, to: 'wait', verdict: { outcome: 'waits' } }
    let endMs = record.expiresAtMs
    try {
      const object = decodeObject(record.object, { bytesMax: record.object.length })
      endMs = object.expiresAtMs
      verifyObject(this.#components.crypto, object, {
        nowMs,
        audience: this.#init.isAudience(agent, object.audience) ? object.audience : agent.eid
      })
      if (!KNOWN_PURPOSES.includes(object.purpose)) return { record, to: 'wait', verdict: { outcome: 'waits', reason: 'OBJECT_PURPOSE' } }
      const plaintext = await openObject(
        this.#components.crypto,
        object,
        (kidHex) => agent.mailboxSecret(kidHex),
        (purpose) => this.#init.allowsPurpose(agent, purpose)
      )
      const { tracer = noTracer } = this.#components
      const traceparent = tracer.isOn ? this.#traceparentOf(object, sealedTraceparent(plaintext)) : undefined
      return { record, to: 'accept', object, message: messageOf(plaintext), extensions: sealedExtensions(plaintext), traceparent, nowMs }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      // Only our own clock, stepped back within the allowed skew, can make a stored object one of the future: time mends it.
      if (error.code === 'OBJECT_FUTURE') return { record, to: 'wait', verdict: { outcome: 'waits', reason: error.code } }
      if (error.code === 'OBJECT_EXPIRED') return this.#ended(record, endMs)
      return { record, to: 'discard', verdict: { outcome: 'invalid', reason: error.code } }
    }
  }

  /** By a clock that has just jumped ahead it is neither handed over nor thrown away: time tells which clock was right. */
  #ended(record: QueueRecord, endMs: number): Examined {
    const verdict = { reason: 'OBJECT_EXPIRED' } as const
    if (endMs > this.#components.clockGuard.settledMs()) return { record, to: 'wait', verdict: { outcome: 'waits', ...verdict } }
    return { record, to: 'discard', verdict: { outcome: 'expired', ...verdict } }
  }

  async #settle(agent: LocalAgent, examined: Examined, issued: () => void): Promise<Verdict> {
    if (examined.to === 'wait') return examined.verdict
    if (examined.to === 'discard') return this.#discard(examined.record, examined.verdict, issued)
    const { tracer = noTracer } = this.#components
    if (!tracer.isOn) return await this.#accept(agent, examined, issued)
    const { traceparent: parent, record } = examined
    const init = { kind: 'consumer', parent, parentFrom: 'elsewhere', startMs: record.enqueuedAtMs } as const
    return await tracer.run('asleep queue', init, async (span) => {
      const verdict = await this.#accept(agent, examined, issued)
      span.set({ 'rookery.queue.outcome': verdict.outcome })
      return verdict
    })
  }

  /** What one of our own agents sealed is a span of this node; what came from elsewhere is followed where the settings say so. */
  #traceparentOf({ issuer }: GovernedObject, text: string | undefined): string | undefined {
    const { tracer = noTracer } = this.#components
    return this.#init.isOwn(issuer) ? text : tracer.fromPeers(text)
  }

  async #accept(agent: LocalAgent, examined: Examined & { to: 'accept' }, issued: () => void): Promise<Verdict> {
    const { record, object, message, extensions, nowMs } = examined
    const { queue, replay, clockGuard, todos, store, logger } = this.#components
    const issuer = eidHex(object.issuer)
    // What an agent sealed to itself it sealed for the holder of a grant, or for itself: the record says which, and is this node's own word.
    const caller = this.#init.isAudience(agent, object.issuer) ? record.principal : `eid:${this.#init.rootOf(issuer)}`
    if (!this.#init.maySend(agent, caller)) return this.#discard(record, { outcome: 'invalid', reason: 'NO_GRANT' }, issued)
    const claim = await replay.claim(issuer, toHex(object.id), object.expiresAtMs, nowMs)
    if (claim === 'seen') return this.#discard(record, { outcome: 'replayed', reason: 'OBJECT_REPLAYED' }, issued)
    if (claim === 'full') return { outcome: 'waits', reason: 'REPLAY_CACHE_FULL' }
    if (claim === 'beyond') return this.#discard(record, { outcome: 'invalid', reason: 'OBJECT_LIFETIME' }, issued)
    const removal = queue.removal(record)
    const clockOps = clockGuard.ops()
    const alongside = noticed([...removal.ops, ...claim.ops, ...clockOps], issued)
    const done = () => {
      removal.done()
      claim.done()
      clockGuard.written(clockOps)
    }
    try {
      const toQueue = this.#init.queueOf(agent, caller)
      const { todo, created } = await todos.create({
        agent: homeOf(agent),
        caller: { id: caller, eid: issuer },
        message,
        door: 'asleep-queue',
        ...(toQueue === undefined ? {} : { queue: toQueue }),
        alongside,
        ...approvalOf(this.#init.approvalFor(agent, message, issuer)),
        ...this.#init.underContract(agent, { message, extensions }, record.enqueuedAtMs)
      })
      // The same message came in by another door before: it has had its effect, so only the record and the name are left to write.
      if (!created) await store.commit(alongside)
      done()
      // A message that names a task is appended to it, which creates nothing either.
      if (created || typeof message.taskId === 'string') return { outcome: 'accepted', todo: todo.id }
      return { outcome: 'replayed', reason: 'TODO_EXISTS', todo: todo.id }
    } catch (error) {
      claim.abandon()
      if (error instanceof RookeryError && error.kind === 'storage') throw error
      // Only what is wrong with the message itself discards it; a limit reached or a fault of ours leaves it, and lets later ones pass.
      if (error instanceof RookeryError && MESSAGE_FAULTS.includes(error.kind)) {
        return this.#discard(record, { outcome: 'invalid', reason: error.code }, issued)
      }
      const reason = error instanceof RookeryError ? error.code : 'INTERNAL'
      logger.error({ error, agent: agent.name, key: record.key }, 'a queued message could not become a task and waits')
      return { outcome: 'waits', reason }
    }
  }

  async #discard(record: QueueRecord, verdict: Verdict, issued: () => void): Promise<Verdict> {
    const removal = this.#components.queue.removal(record)
    await this.#components.store.commit(noticed(removal.ops, issued))
    removal.done()
    return verdict
  }

  /** After every `perSecMax` effects, waits for the second they began in to pass. */
  #pace(): { left(): number; took(count: number, signal: AbortSignal | undefined): Promise<void> } {
    const { clock } = this.#components
    let startedMs = clock.monotonicMs()
    let effects = 0
    return {
      left: () => this.#init.perSecMax - effects,
      took: async (count, signal) => {
        effects += count
        if (effects < this.#init.perSecMax) return
        const restMs = startedMs + 1_000 - clock.monotonicMs()
        if (restMs > 0) await clock.sleep(restMs, signal === undefined ? {} : { signal })
        startedMs = clock.monotonicMs()
        effects = 0
      }
    }
  }
}

/** The same, and `issued` is called once their batch has its place before all later ones. */
function noticed(ops: readonly WriteOp[], issued: () => void): WriteOp[] {
  return ops.map((op, i) => (i === 0 ? { ...op, onQueued: issued } : op))
}

function approvalOf(approval: Approval): Pick<TodoCreate, 'approval' | 'approvedBy'> {
  if (approval === 'none') return {}
  return approval === 'needed' ? { approval } : { approval: 'given', approvedBy: approval.by }
}

/**
 * The A2A Message inside `{"method":"SendMessage","params":{"message":…}}`. Its finer rules are the task store's.
 * @throws ProtocolError `UTF8_INVALID`, `FIELD_INVALID`
 */
function messageOf(plaintext: Uint8Array): JsonObject {
  let request: unknown
  try {
    request = JSON.parse(fromUtf8(plaintext))
  } catch (cause) {
    if (cause instanceof ProtocolError) throw cause
    throw new ProtocolError('FIELD_INVALID', 'the sealed request is not JSON', { cause, field: 'plaintext' })
  }
  const { method, params } = asObject(request, 'plaintext')
  if (method !== 'SendMessage' && method !== 'SendStreamingMessage') {
    throw new ProtocolError('FIELD_INVALID', 'the sealed request is no SendMessage', { field: 'plaintext.method' })
  }
  const message = asObject(asObject(params, 'plaintext.params').message, 'plaintext.params.message')
  const { messageId, role, parts } = message
  if (typeof messageId !== 'string' || messageId.length === 0 || role !== 'ROLE_USER' || !Array.isArray(parts) || parts.length === 0) {
    throw new ProtocolError('FIELD_INVALID', 'the sealed message lacks its id, role or parts', { field: 'plaintext.params.message' })
  }
  return message
}

function asObject(value: unknown, field: string): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError('FIELD_INVALID', `${field} is not an object`, { field })
  }
  return value as JsonObject
}

import { equals } from '../../protocol/bytes.ts'
import type { Signer } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { NO_BLOCK } from '../../protocol/session/contract-policy.ts'
import type { OwnExchange } from '../../protocol/session/crossing.ts'
import { type SfcBlock, sfcShortfall } from '../../protocol/session/sfc.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PeerAddress } from '../net/host.ts'
import { withSignal } from '../platform/with-signal.ts'
import type { Crossings } from './crossings.ts'
import { Deadline } from './deadline.ts'
import type { DurableSession } from './durable-session.ts'
import { discard, type Epochs } from './epochs.ts'
import { initiate, newFlags, type ResumePurpose } from './initiate.ts'
import type { ManagerState } from './manager-state.ts'
import type { SessionOpenOptions } from './session.ts'
import { nodeStopping, openingFailed, sessionError } from './session-errors.ts'
import type { PairKey } from './session-index.ts'
import type { SessionShelf } from './session-shelf.ts'
import { PSS_PROTOCOL } from './settings.ts'

/** What an exchange of ours is for. */
interface Purpose {
  address: PeerAddress
  held: DurableSession | undefined
  resume: ResumePurpose | undefined
  wants: Wants
}

/** What a caller needs of a session. */
interface Wants {
  /** a contract that grants at least this */
  needs: Partial<SfcBlock> | undefined
  /** an ESE pair of its own */
  exclusive: boolean | undefined
}

const NOTHING: Wants = { needs: undefined, exclusive: undefined }

/** An exchange of ours before READY. */
export interface Opening {
  readonly promise: Promise<DurableSession>
  readonly exchange: OwnExchange
  /** the peer's exchange stands: this one is wiped, and whoever waits gets the peer's session */
  yield(): void
}

/** The exchange of an opening that is under way now. */
interface Turn {
  giveWay: () => void
}

/** Our own exchanges: one at a time for each pair of agents. */
export class Openings {
  readonly #m: ManagerState
  readonly #shelf: SessionShelf
  readonly #epochs: Epochs
  readonly #crossings: Crossings
  /** at most sessionsMax */
  readonly #open = new Map<PairKey, Opening>()

  constructor(state: ManagerState, shelf: SessionShelf, epochs: Epochs, crossings: Crossings) {
    this.#m = state
    this.#shelf = shelf
    this.#epochs = epochs
    this.#crossings = crossings
  }

  get size(): number {
    return this.#open.size
  }

  get #groups(): 'named' | 'none' {
    return this.#m.components.ready?.groups === undefined ? 'none' : 'named'
  }

  of(pair: PairKey): Opening | undefined {
    return this.#open.get(pair)
  }

  async open(
    from: LocalAgent,
    to: Eid,
    address: PeerAddress,
    { signal, contract, exclusive }: SessionOpenOptions = {}
  ): Promise<DurableSession> {
    signal?.throwIfAborted()
    if (this.#m.isStopping) throw nodeStopping()
    if (equals(from.eid, to)) {
      throw sessionError('SESSION_REFUSED', 'a session joins two agents that differ', { field: 'to', data: { reason: 'self' } })
    }
    this.#m.components.evidence?.admit(to)
    const pair = this.#m.own.pairOf(from.eid, to)
    const wants: Wants = { needs: contract, exclusive }
    for (;;) {
      const session = await this.#shelf.heldBy(pair)
      if (session?.state === 'established') return fitting(session, wants)
      if (session?.state === 'closing') {
        await withSignal(session.closed, signal) // it flushes and says goodbye first
        continue
      }
      if (session?.isOver === true) continue
      if (session?.contractIsOver === true) {
        await session.finish('contract', undefined, undefined)
        continue
      }
      if (session !== undefined) fitting(session, wants)
      const opening = this.#open.get(pair) ?? this.start(pair, from, to, address, session, wants)
      try {
        return fitting(await withSignal(opening.promise, signal), wants)
      } catch (error) {
        if (session === undefined || !session.isOver) throw error // else it was forgotten or has diverged: a new one takes its place
      }
    }
  }

  /** @throws RookeryError `SESSION_BUSY` above what this node holds */
  start(pair: PairKey, from: LocalAgent, to: Eid, address: PeerAddress, held?: DurableSession, wants: Wants = NOTHING): Opening {
    if (this.#m.byCookies.size + this.#open.size >= this.#m.sessionsMaxOwn) throw this.#full()
    if (held === undefined && this.#m.index.size >= this.#m.storedMaxOwn) throw this.#fullOnDisk()
    const resume = held === undefined ? undefined : purposeOf(held)
    const turn: Turn = { giveWay: () => {} }
    const opening: Opening = {
      exchange: { resumeId: resume?.sid, flags: resume?.flags ?? newFlags({ ...wants, groups: this.#groups }), readyAtMs: undefined },
      promise: this.#run(pair, from, to, { address, held, resume, wants }, turn).finally(() => this.#open.delete(pair)),
      yield: () => turn.giveWay()
    }
    opening.promise.catch(() => {}) // a caller whose own signal fired no longer waits for it
    this.#open.set(pair, opening)
    return opening
  }

  /** Ours, or the peer's where that one stands; once more where the peer's then does not come about. */
  async #run(pair: PairKey, from: LocalAgent, to: Eid, what: Purpose, turn: Turn): Promise<DurableSession> {
    for (let isFirst = true; ; isFirst = false) {
      const theirs = this.#crossings.next(pair)
      const deadline = new Deadline(this.#m.components.clock, this.#m.stopping.signal)
      const given = Promise.withResolvers<'gave-way'>()
      turn.giveWay = () => {
        given.resolve('gave-way')
        deadline.abort(new ProtocolError('OUT_OF_ORDER', "the peer's exchange takes the place of ours"))
      }
      try {
        const own = this.#exchange(from, to, what, deadline)
        own.catch(() => {})
        const winner = await Promise.race([own, given.promise])
        return winner === 'gave-way' ? await theirs.session : winner
      } catch (error) {
        if (!isFirst || !isSuperseded(error)) throw error
        // the peer held on to a session that we no longer have: after 10 s it lets it go (protocol/README.md §6, "Both open or resume at once")
        const session = await theirs.session.catch(() => undefined)
        if (session !== undefined) return session
      } finally {
        deadline.dispose()
        theirs.dispose()
      }
    }
  }

  /** As the agent is now; a session whose peer may not know that yet is tried under the older EIDs next (protocol/README.md §6). */
  async #exchange(from: LocalAgent, to: Eid, what: Purpose, deadline: Deadline): Promise<DurableSession> {
    const { held } = what
    let failure: unknown
    for (const signer of held === undefined ? [from.signer] : this.#m.own.signersOf(held)) {
      try {
        return await this.#exchangeAs(signer, from, held?.remote ?? to, what, deadline)
      } catch (error) {
        if (held === undefined || held.isOver || !isUnknownSession(error)) throw error
        failure = error
      }
    }
    await held?.finish('unknownSession', undefined, { reason: 'unknownSession', by: 'peer', lost: false })
    throw failure
  }

  async #exchangeAs(
    signer: Signer,
    from: LocalAgent,
    to: Eid,
    { address, held, resume, wants }: Purpose,
    deadline: Deadline
  ): Promise<DurableSession> {
    const { host, crypto, clock, random } = this.#m.components
    const { signal } = deadline
    const stream = await host.openStream(address, PSS_PROTOCOL, { signal })
    const { established, ack, startedMs, roundTrips } = await initiate({ crypto, clock, random, self: host.peer }, stream, { signer }, to, {
      signal,
      resume,
      ...wants,
      groups: this.#groups
    })
    if (held !== undefined) {
      await held.settled()
      if (held.isOver || signal.aborted) {
        discard(established, stream)
        signal.throwIfAborted()
        throw sessionError('SESSION_CLOSED', 'the session ended meanwhile', { data: { reason: held.info().endReason } })
      }
    }
    const session = held ?? this.#epochs.newSession(from, established, address)
    session.reachedAt(address)
    const epoch = this.#epochs.begin(session, established, stream, { startedMs, roundTrips: roundTrips + 1 })
    const giveWay = () => epoch.lose(signal.reason)
    signal.addEventListener('abort', giveWay, { once: true })
    epoch.start(ack)
    try {
      await epoch.ready
      return session
    } catch (cause) {
      throw openingFailed(cause, await epoch.closed)
    } finally {
      signal.removeEventListener('abort', giveWay)
    }
  }

  #full(): RookeryError {
    return sessionError('SESSION_BUSY', `this node already holds ${this.#m.sessionsMax} sessions`, {
      field: 'sessionsMax',
      value: this.#m.sessionsMax,
      remedy: 'close some, or raise sessionsMax',
      data: { reason: 'sessionsMax' }
    })
  }

  #fullOnDisk(): RookeryError {
    const { storedMax } = this.#m
    return sessionError('SESSION_BUSY', `this node already keeps ${this.#m.index.size} sessions, those included that only its disk holds`, {
      field: 'sessionsMax',
      value: this.#m.sessionsMax,
      remedy: `close some of those that "rookery session list" shows, or raise sessionsMax above ${storedMax}`,
      data: { reason: 'storedMax', max: storedMax }
    })
  }
}

function purposeOf({ record }: DurableSession): ResumePurpose {
  return { sid: record.sid, flags: record.flags, sfc: record.sfc }
}

/** The session, where its contract is what is asked for. @throws RookeryError `CONTRACT_UNMET` naming the field, `EXCLUSIVE_UNMET` */
function fitting(session: DurableSession, { needs, exclusive }: Wants): DurableSession {
  if (exclusive === true && !session.states.exclusive) {
    throw sessionError('EXCLUSIVE_UNMET', 'the open session of the two has no ESE pair of its own', {
      field: 'exclusive',
      value: true,
      remedy: 'close it first: whether a pair is exclusive is settled when a session is opened',
      data: { id: session.id }
    })
  }
  if (needs === undefined) return session
  const field = session.contract === undefined ? NO_BLOCK : sfcShortfall(session.contract.block, needs)
  if (field === undefined) return session
  throw sessionError('CONTRACT_UNMET', `the open session of the two does not grant what is asked for: ${field}`, {
    field: `sfc.${field}`,
    remedy: 'close it first, or ask for less',
    data: { id: session.id }
  })
}

function isUnknownSession(error: unknown): boolean {
  return error instanceof RookeryError && error.data?.reason === 'unknownSession'
}

function isSuperseded(error: unknown): boolean {
  return error instanceof RookeryError && error.data?.reason === 'superseded'
}

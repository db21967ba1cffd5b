import { fromHex, toHex } from '../../protocol/bytes.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import {
  decodeFriendMessage,
  encodeFriendMessage,
  FRIEND_CHANNEL,
  FRIEND_ID_BYTES,
  FRIEND_NAME_BYTES_MAX,
  FRIEND_NOTE_BYTES_MAX,
  type FriendAnswer,
  type FriendMessage,
  type FriendRequest,
  isFriendText
} from '../../protocol/grants/friend-messages.ts'
import { type Eid, type EidHex, eidHex, eid as toEid } from '../../protocol/identity/eid.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { TokenBucket } from '../a2a/token-bucket.ts'
import { RookeryError } from '../errors.ts'
import type { GrantRow } from '../grants/grant.ts'
import type { Grants } from '../grants/grants.ts'
import { GRANT_VERBS, type GrantVerb } from '../grants/principal.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Inbound, Session } from '../sessions/session.ts'
import { FRIENDS_PENDING_MAX, type FriendRow, type FriendRows } from './friend-rows.ts'

/** Requests that are looked at: so many at once, and a minute after that, of all peers together (TD-20). */
export const FRIEND_REQUESTS_BURST = 20
export const FRIEND_REQUESTS_PER_MIN = 10
/** New requests of one peer a day. */
export const FRIEND_REQUESTS_PER_PEER_DAY = 3
/** Who was denied is denied again by itself for so long. */
export const FRIEND_DENIED_MS = 7 * 86_400_000
const DAY_MS = 86_400_000
const TELL_AGAIN_MS = 3_600_000
const OPEN_MS = 15_000

export type FriendEvent = { kind: 'asked' | FriendRow['state'] | 'removed'; row: FriendRow }

export interface FriendsComponents {
  rows: FriendRows
  grants: Grants
  clock: Clock
  random: Random
  logger: Logger
  /** whether requests are taken at all */
  accepts: () => boolean
  /** life of what an approval vends */
  ttlMs: () => number
  rootOf: (eid: EidHex) => EidHex
  /** the EID that a peer has now */
  newest: (eid: Eid) => Eid
  agentOf: (home: EidHex) => LocalAgent | undefined
  open: (from: LocalAgent, to: Eid, signal: AbortSignal) => Promise<Session>
}

/**
 * Friend requests over sessions, decided by a person (TD-06): the way to a grant between agents of different nodes. A request makes nothing but a row for the owner to look
 * at, within a quota of its own.
 */
export class Friends {
  readonly #c: FriendsComponents
  readonly #bucket: TokenBucket
  readonly #lock = new KeyedLock()
  readonly #hooks = new Set<(event: FriendEvent) => void>()
  /** credentials that their holders have not been told yet; gone with the process, for they are stored nowhere */
  readonly #credentials = new Map<string, string>()
  readonly #telling = new Set<string>()
  readonly #stopping = new AbortController()
  #cancelTimer: () => void = () => {}
  #off: () => void = () => {}
  /** messages that were none, or answered nothing of ours */
  ignored = 0
  /** requests that the quota refused */
  busy = 0

  constructor(components: FriendsComponents) {
    this.#c = components
    this.#bucket = new TokenBucket(components.clock, { burst: FRIEND_REQUESTS_BURST, perSec: FRIEND_REQUESTS_PER_MIN / 60 })
  }

  /** Follows grants, and tells what an earlier run could not. */
  start(): void {
    this.#off = this.#c.grants.onEvent(({ kind, grant }) => {
      if (kind !== 'revoked' && kind !== 'expired') return
      void this.#ended(grant).catch((err: unknown) =>
        this.#c.logger.warn({ err, grant: grant.id }, 'the end of a grant could not be written')
      )
    })
    this.#tellAll()
  }

  stop(): void {
    this.#off()
    this.#cancelTimer()
    this.#stopping.abort(new RookeryError('NODE_STOPPING', 'the node stops', { kind: 'unavailable' }))
  }

  /** Requests of others that wait for the owner. */
  waiting(): number {
    return this.#c.rows.pending()
  }

  list(): FriendRow[] {
    return this.#c.rows.all()
  }

  /** Called after every change is on disk. Returns the unsubscriber. */
  onEvent(hook: (event: FriendEvent) => void): () => void {
    this.#hooks.add(hook)
    return () => this.#hooks.delete(hook)
  }

  /**
   * Asks the owner of another node's agent to let ours in. On disk first; where the peer cannot be reached now it is told when a session comes about.
   * @throws RookeryError `FRIEND_INVALID`, `FRIENDS_FULL`, those of the store
   */
  async request(
    from: LocalAgent,
    to: Eid,
    input: { name?: string | undefined; note?: string | undefined; verbs?: readonly GrantVerb[] | undefined } = {}
  ): Promise<FriendRow> {
    const { name = from.name, note = '', verbs = GRANT_VERBS } = input
    if (name === '' || !isFriendText(name, FRIEND_NAME_BYTES_MAX))
      throw invalid('name', name, `is 1 to ${FRIEND_NAME_BYTES_MAX} bytes of printable text`)
    if (!isFriendText(note, FRIEND_NOTE_BYTES_MAX))
      throw invalid('note', note, `is at most ${FRIEND_NOTE_BYTES_MAX} bytes of printable text in one line`)
    if (verbs.length === 0) throw invalid('verbs', verbs, 'names at least one verb')
    const nowMs = this.#c.clock.nowMs()
    const peer = this.#c.rootOf(eidHex(to))
    const before = this.#c.rows.get('out', homeOf(from), peer)?.grant
    const row = await this.#c.rows.put({
      direction: 'out',
      agent: homeOf(from),
      peer,
      id: toHex(this.#c.random.bytes(FRIEND_ID_BYTES)),
      name,
      note,
      verbs: GRANT_VERBS.filter((verb) => verbs.includes(verb)),
      state: 'sent',
      ...(before === undefined ? {} : { grant: before }),
      createdAtMs: nowMs,
      changedAtMs: nowMs,
      untold: true
    })
    this.#tell(row)
    return row
  }

  /** Resolves with the row once it has an answer, or as it is when the signal fires. */
  async answered(row: FriendRow, signal: AbortSignal): Promise<FriendRow> {
    const now = () => this.#c.rows.get(row.direction, row.agent, row.peer) ?? row
    const isAnswered = () => now().state !== 'sent'
    const { promise, resolve } = Promise.withResolvers<void>()
    const off = this.onEvent(() => isAnswered() && resolve())
    const ends = AbortSignal.any([signal, this.#stopping.signal])
    const ended = () => resolve()
    ends.addEventListener('abort', ended, { once: true })
    try {
      if (!isAnswered() && !ends.aborted) await promise
      return now()
    } finally {
      off()
      ends.removeEventListener('abort', ended)
    }
  }

  /**
   * The owner's yes: a grant is vended, in one write with the decision, and told over the session.
   * @throws RookeryError `FRIEND_UNKNOWN`, those of {@link Grants.create}
   */
  async approve(
    agent: EidHex,
    peer: EidHex,
    given: { verbs?: readonly GrantVerb[] | undefined; ttlMs?: number | undefined } = {}
  ): Promise<{ row: FriendRow; grant: GrantRow }> {
    return await this.#lock.run(pair(agent, peer), async () => {
      const held = this.#held('in', agent, peer)
      const { rows, grants } = this.#c
      let written: ReturnType<FriendRows['writing']> | undefined
      let row = held
      const { grant, credential } = await grants.create({
        agent,
        peer,
        name: held.name,
        verbs: given.verbs ?? held.verbs,
        ttlMs: given.ttlMs ?? this.#c.ttlMs(),
        origin: 'friend',
        replace: true,
        alongside: ({ id, verbs, expiresAtMs }) => {
          row = { ...held, state: 'approved', grant: { id, verbs, untilMs: expiresAtMs }, changedAtMs: this.#c.clock.nowMs(), untold: true }
          written = rows.writing(row)
          return written.ops
        }
      })
      written?.done()
      if (credential !== undefined) this.#credentials.set(pair(agent, peer), credential)
      this.#emit('approved', row)
      this.#tell(row)
      return { row, grant }
    })
  }

  /** The owner's no. @throws RookeryError `FRIEND_UNKNOWN` */
  async deny(agent: EidHex, peer: EidHex): Promise<FriendRow> {
    return await this.#lock.run(pair(agent, peer), async () => {
      const held = this.#held('in', agent, peer)
      if (held.state === 'approved') {
        throw new RookeryError('FRIEND_APPROVED', 'the request was approved already', {
          kind: 'conflict',
          field: 'peer',
          remedy: 'end it with `rookery friends remove`'
        })
      }
      return await this.#decide({ ...held, state: 'denied' })
    })
  }

  /** Ends it in both directions: what they have here is revoked, what we asked for is forgotten. @throws RookeryError `FRIEND_UNKNOWN` */
  async remove(agent: EidHex, peer: EidHex): Promise<FriendRow[]> {
    const { rows, grants } = this.#c
    const found = (['in', 'out'] as const).flatMap((direction) => rows.get(direction, agent, peer) ?? [])
    if (found.length === 0) this.#held('in', agent, peer)
    for (const row of found) {
      if (row.direction === 'out') await rows.delete(row)
      else if (row.grant !== undefined && row.state === 'approved' && grants.get(row.grant.id) !== undefined)
        await grants.revoke(row.grant.id)
      else await rows.delete(row)
      this.#emit('removed', row)
    }
    return found
  }

  #held(direction: FriendRow['direction'], agent: EidHex, peer: EidHex): FriendRow {
    const row = this.#c.rows.get(direction, agent, peer)
    if (row !== undefined) return row
    throw new RookeryError('FRIEND_UNKNOWN', 'this agent did not ask', {
      kind: 'notFound',
      field: 'peer',
      remedy: 'list requests with `rookery friends list`'
    })
  }

  async #decide(row: FriendRow): Promise<FriendRow> {
    const next: FriendRow = { ...row, changedAtMs: this.#c.clock.nowMs(), untold: true }
    await this.#c.rows.put(next)
    this.#emit(next.state, next)
    this.#tell(next)
    return next
  }

  /** A grant that a request brought about has ended, by whatever word: its holder is told. */
  async #ended({ id, agent, peer }: GrantRow): Promise<void> {
    if (peer === undefined) return
    await this.#lock.run(pair(agent, peer), async () => {
      const held = this.#c.rows.get('in', agent, peer)
      if (held?.state !== 'approved' || held.grant?.id !== id) return
      this.#credentials.delete(pair(agent, peer))
      await this.#decide({ ...held, state: 'ended' })
    })
  }

  /** Takes and answers messages of the session's peer. Call it for every session before its first item. */
  serve(session: Session): void {
    session.onChannel(FRIEND_CHANNEL, (item) => this.#take(session, item))
    queueMicrotask(() => this.#tellOver(session))
  }

  /** Resolves, and so acknowledges, once what it changes is on disk. */
  async #take(session: Session, { kind, payload }: Inbound): Promise<void> {
    if (kind !== ITEM_KINDS.a2a) return this.#ignore()
    let message: FriendMessage
    try {
      message = decodeFriendMessage(payload)
    } catch (error) {
      if (error instanceof ProtocolError) return this.#ignore()
      throw error
    }
    const agent = homeOf(session.local)
    const peer = this.#c.rootOf(eidHex(session.remote))
    await this.#lock.run(pair(agent, peer), async () => {
      if (message.type === 'answer') return await this.#answered(agent, peer, message)
      const answer = await this.#judged(agent, peer, message)
      // Not awaited: the peer may be waiting in a handler of its own; one that is lost is asked for again.
      session.send(FRIEND_CHANNEL, ITEM_KINDS.a2a, encodeFriendMessage(answer)).catch(() => {})
    })
  }

  #ignore(): void {
    this.ignored++
  }

  async #judged(agent: EidHex, peer: EidHex, request: FriendRequest): Promise<FriendAnswer> {
    const { rows, grants, clock, logger } = this.#c
    const { id } = request
    const nowMs = clock.nowMs()
    const grant = grants.ofPeer(agent, peer)
    if (grant !== undefined && grants.state(grant) === 'in-force') return approvedAnswer(id, grant)
    if (!this.#c.accepts()) return { type: 'answer', id, state: 'denied' }
    const held = rows.get('in', agent, peer)
    const hex = toHex(id)
    if (held?.id === hex && (held.state === 'pending' || held.state === 'denied')) return { type: 'answer', id, state: held.state }
    if (held?.state === 'denied' && nowMs - held.changedAtMs < FRIEND_DENIED_MS) return { type: 'answer', id, state: 'denied' }
    const asked = (held?.asked ?? []).filter((atMs) => nowMs - atMs < DAY_MS)
    const isFull = held?.state !== 'pending' && rows.pending() >= FRIENDS_PENDING_MAX
    if (asked.length >= FRIEND_REQUESTS_PER_PEER_DAY || isFull || this.#bucket.take() > 0) {
      this.busy++
      return { type: 'answer', id, state: 'busy' }
    }
    const row = await rows.put({
      direction: 'in',
      agent,
      peer,
      id: hex,
      name: request.name,
      note: request.note,
      verbs: [...request.verbs],
      state: 'pending',
      asked: [...asked, nowMs],
      createdAtMs: nowMs,
      changedAtMs: nowMs
    })
    logger.info({ event: 'friend-request', peer }, 'an agent asks to be let in: see `rookery friends list`')
    this.#emit('asked', row)
    return { type: 'answer', id, state: 'pending' }
  }

  /** Only what answers the newest request of ours to this peer counts. */
  async #answered(agent: EidHex, peer: EidHex, answer: FriendAnswer): Promise<void> {
    const { rows, clock } = this.#c
    const held = rows.get('out', agent, peer)
    if (held === undefined || held.id !== toHex(answer.id)) return this.#ignore()
    const { grant: before, ...rest } = held
    const grant = answer.state === 'approved' ? grantOf(answer.grant, before) : undefined
    const row: FriendRow = { ...rest, state: answer.state, changedAtMs: clock.nowMs(), ...(grant === undefined ? {} : { grant }) }
    delete row.untold
    await rows.put(row)
    this.#emit(row.state, row)
  }

  #emit(kind: FriendEvent['kind'], row: FriendRow): void {
    for (const hook of this.#hooks) {
      try {
        hook({ kind, row })
      } catch (err) {
        this.#c.logger.error({ err }, 'a listener of friends failed')
      }
    }
  }

  /** What some peer has not acknowledged is tried every hour, and whenever a session with it comes about. */
  #tellAll(): void {
    if (this.#stopping.signal.aborted) return
    for (const row of this.#c.rows.all()) if (row.untold === true) this.#tell(row)
    this.#cancelTimer = this.#c.clock.after(TELL_AGAIN_MS, () => this.#tellAll())
  }

  #tellOver(session: Session): void {
    const agent = homeOf(session.local)
    const peer = this.#c.rootOf(eidHex(session.remote))
    for (const direction of ['in', 'out'] as const) {
      const row = this.#c.rows.get(direction, agent, peer)
      if (row?.untold === true) this.#tell(row, session)
    }
  }

  /** Opens a session where none is given. Failing is no fault: the row says that it is still to be told. */
  #tell(row: FriendRow, session?: Session): void {
    const key = `${row.direction} ${pair(row.agent, row.peer)}`
    if (this.#telling.has(key) || this.#stopping.signal.aborted) return
    this.#telling.add(key)
    this.#told(row, session)
      .catch((err: unknown) => this.#c.logger.debug({ err, peer: row.peer }, 'a peer is told of a friend request later'))
      .finally(() => {
        this.#telling.delete(key)
        const now = this.#c.rows.get(row.direction, row.agent, row.peer)
        // It changed while the peer was told of the state before.
        if (now?.untold === true && now !== row && now.changedAtMs >= row.changedAtMs && now.state !== row.state) this.#tell(now)
      })
  }

  async #told(row: FriendRow, given: Session | undefined): Promise<void> {
    const { rows, agentOf, open, newest, clock } = this.#c
    const agent = agentOf(row.agent)
    if (agent === undefined) return
    const patience = new AbortController()
    const cancel = clock.after(OPEN_MS, () =>
      patience.abort(new RookeryError('TIMEOUT', 'the peer did not answer in time', { kind: 'timeout' }))
    )
    let session: Session
    try {
      session = given ?? (await open(agent, newest(toEid(fromHex(row.peer))), AbortSignal.any([patience.signal, this.#stopping.signal])))
    } finally {
      cancel()
    }
    const message = this.#messageOf(row)
    if (message === undefined) return
    await session.send(FRIEND_CHANNEL, ITEM_KINDS.a2a, encodeFriendMessage(message), { signal: this.#stopping.signal })
    await this.#lock.run(pair(row.agent, row.peer), async () => {
      const now = rows.get(row.direction, row.agent, row.peer)
      if (now === undefined || now.untold !== true || now.id !== row.id || now.state !== row.state) return
      this.#credentials.delete(pair(row.agent, row.peer))
      const { untold: _, ...told } = now
      await rows.put(told)
    })
  }

  #messageOf(row: FriendRow): FriendMessage | undefined {
    const id = fromHex(row.id)
    const { state, grant, name, note, verbs } = row
    if (row.direction === 'out') return { type: 'request', id, name, note, verbs }
    if (state === 'sent') return undefined
    if (state !== 'approved') return { type: 'answer', id, state }
    if (grant === undefined) return undefined
    const credential = this.#credentials.get(pair(row.agent, row.peer))
    return { type: 'answer', id, state, grant: { ...grant, ...(credential === undefined ? {} : { credential }) } }
  }
}

function pair(agent: EidHex, peer: EidHex): string {
  return `${agent}:${peer}`
}

function approvedAnswer(id: Uint8Array, { id: grant, verbs, expiresAtMs }: GrantRow): FriendAnswer {
  return { type: 'answer', id, state: 'approved', grant: { id: grant, verbs, untilMs: expiresAtMs } }
}

/** A credential that was told before stays, for the same grant. */
function grantOf(given: Extract<FriendAnswer, { state: 'approved' }>['grant'], before: FriendRow['grant']): FriendRow['grant'] {
  const credential = given.credential ?? (before?.id === given.id ? before.credential : undefined)
  return { id: given.id, verbs: [...given.verbs], untilMs: given.untilMs, ...(credential === undefined ? {} : { credential }) }
}

function invalid(field: string, value: unknown, why: string): RookeryError {
  return new RookeryError('FRIEND_INVALID', `${field} ${why}`, {
    kind: 'usage',
    field,
    value: typeof value === 'string' ? value.slice(0, 80) : value
  })
}

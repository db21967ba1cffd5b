import {
  decodePointMessage,
  encodePointMessage,
  POINT_CHANNEL,
  type PointMessage,
  type PointStatus
} from '../../protocol/discovery/point-messages.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { eidToDid } from '../../protocol/identity/eid.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Inbound, Session } from '../sessions/session.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import type { Json } from '../tasks/todo.ts'
import { unknownPoint } from './own-points.ts'

/** Reads of ours that wait for an answer over one session. */
const PENDING_MAX = 64
const ANSWER_MS = 10_000
/** Answers that wait for the peer's window; a read beyond them gets none. */
const ANSWERS_MAX = 64

export interface PointAnswer {
  status: PointStatus
  value?: Uint8Array
}
export type PointReader = (read: { tag: string; grant?: Uint8Array }) => PointAnswer

const channels = new WeakMap<Session, PointChannel>()

/** The one channel for points of a session: both sides read and answer on it. */
export function pointChannelOf(session: Session, clock: Clock): PointChannel {
  let channel = channels.get(session)
  if (channel === undefined) {
    channel = new PointChannel(session, clock)
    channels.set(session, channel)
  }
  return channel
}

/** Reads points of the peer's agent and answers reads of ours, by number. */
export class PointChannel {
  readonly #session: Session
  readonly #clock: Clock
  readonly #pending = new Map<number, (answer: PointAnswer) => void>()
  #serve: PointReader = () => ({ status: 'unknown' })
  #next = 0
  #answering = 0

  constructor(session: Session, clock: Clock) {
    this.#session = session
    this.#clock = clock
    session.onChannel(POINT_CHANNEL, (item) => this.#take(item))
  }

  serve(reader: PointReader): void {
    this.#serve = reader
  }

  /** @throws RookeryError `POINT_TIMEOUT`, `POINT_READS_PENDING`, those of the session's `send`; or the signal's reason */
  async read(tag: string, grant: Uint8Array | undefined, signal: AbortSignal | undefined): Promise<PointAnswer> {
    signal?.throwIfAborted()
    if (this.#pending.size >= PENDING_MAX) {
      throw new RookeryError('POINT_READS_PENDING', `${PENDING_MAX} reads wait for an answer of this peer`, { kind: 'unavailable' })
    }
    this.#next = (this.#next + 1) % 0xffff_ffff
    const request = this.#next
    const { promise, resolve, reject } = Promise.withResolvers<PointAnswer>()
    this.#pending.set(request, resolve)
    const aborted = () => reject(signal?.reason)
    signal?.addEventListener('abort', aborted, { once: true })
    const cancel = this.#clock.after(ANSWER_MS, () =>
      reject(new RookeryError('POINT_TIMEOUT', `the owner did not answer within ${ANSWER_MS} ms`, { kind: 'timeout' }))
    )
    try {
      await this.#send({ type: 'read', request, tag, ...(grant === undefined ? {} : { grant }) })
      return await promise
    } finally {
      cancel()
      signal?.removeEventListener('abort', aborted)
      this.#pending.delete(request)
    }
  }

  async #take({ kind, payload }: Inbound): Promise<void> {
    if (kind !== ITEM_KINDS.live) return
    let message: PointMessage
    try {
      message = decodePointMessage(payload)
    } catch (error) {
      if (error instanceof ProtocolError) return
      throw error
    }
    if (message.type === 'answer') {
      const { status, value } = message
      return this.#pending.get(message.request)?.({ status, ...(value === undefined ? {} : { value: value.slice() }) })
    }
    const { request, tag, grant } = message
    if (this.#answering >= ANSWERS_MAX) return
    const answer = this.#serve({ tag, ...(grant === undefined ? {} : { grant }) })
    this.#answering++
    // not awaited: the peer may be waiting for room to answer us
    void this.#send({ type: 'answer', request, ...answer })
      .catch(() => {})
      .finally(() => this.#answering--)
  }

  #send(message: PointMessage): Promise<void> {
    return this.#session.send(POINT_CHANNEL, ITEM_KINDS.live, encodePointMessage(message))
  }
}

/**
 * Reads a point of the session's peer.
 * @param what.reader - did:key of who asks, for the error
 * @throws RookeryError `POINT_DENIED`, `POINT_UNKNOWN`, `POINT_TIMEOUT`, those of the session; or the signal's reason
 */
export async function readPoint(
  session: Session,
  clock: Clock,
  { tag, grant, reader }: { tag: string; grant?: Uint8Array; reader: string },
  options: PublishOptions
): Promise<Json> {
  const owner = eidToDid(session.remote)
  options.onProgress?.('reading the point')
  const { status, value } = await pointChannelOf(session, clock).read(tag, grant, options.signal)
  if (status === 'unknown') throw unknownPoint(tag, owner)
  if (status === 'denied' || value === undefined) {
    throw new RookeryError('POINT_DENIED', `${owner} does not let ${reader} read its point "${tag}"`, {
      kind: 'refused',
      field: 'tag',
      value: tag,
      remedy: 'ask its owner for a grant, or to be put on its trust list'
    })
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value)) as Json
  } catch (cause) {
    throw new RookeryError('POINT_INVALID', `${owner} answered with something else than JSON`, { kind: 'refused', field: 'value', cause })
  }
}

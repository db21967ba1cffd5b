import { toHex } from '../../protocol/bytes.ts'
import { cursorBefore, LIST_LIMIT_MAX, type ListRequest, type ListResponse } from '../../protocol/discovery/registry-messages.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { withDeadline } from './deadline.ts'
import { ENTRIES_MAX, type EntryUnion, type ListQuery } from './entry-union.ts'
import type { RegistrarBook } from './registrar-book.ts'

/** All pages of one registrar, however many it has; one page alone has the deadline of an exchange. */
export const READ_MS_MAX = 60_000
/** Records that do not verify; one that serves more is not listened to any longer. */
const REFUSED_MAX = 64
/** Those that have not answered when all the others have get as long again as that took, and at least this. */
const STRAGGLER_MS_MIN = 2_000

export interface ReaderInit {
  /** registrars asked beyond as many as are wanted when the answers are not there after this */
  hedgeMs: number
}

export interface Reading {
  asked: string[]
  answered: PeerAddress[]
}

interface ReaderComponents {
  clock: Clock
  logger: Logger
  book: RegistrarBook
  list: (target: PeerAddress, message: ListRequest, signal: AbortSignal) => Promise<ListResponse>
}

/** Reads one set from several registrars into one union; none of them, silent, slow or endless, holds up what the others say. */
export class RegistryReader {
  readonly #c: ReaderComponents
  readonly #init: ReaderInit

  constructor(components: ReaderComponents, init: ReaderInit) {
    this.#c = components
    this.#init = init
  }

  /**
   * Until enough have answered, all have, or the last ones took too long.
   * @param readersMin - answers that make it complete
   * @param hidden - told of names that a registrar took and does not show
   * @throws the signal's reason
   */
  async read(
    targets: readonly PeerAddress[],
    query: ListQuery,
    union: EntryUnion,
    {
      readersMin,
      signal,
      hidden
    }: { readersMin: number; signal: AbortSignal | undefined; hidden: (target: PeerAddress, ids: string[]) => void }
  ): Promise<Reading> {
    const { clock, logger } = this.#c
    const { hedgeMs } = this.#init
    const startedMs = clock.monotonicMs()
    const reading = new AbortController()
    const follow = () => reading.abort(signal?.reason)
    signal?.addEventListener('abort', follow, { once: true })
    const asked: string[] = []
    const answered: PeerAddress[] = []
    const done = Promise.withResolvers<void>()
    const enough = () => answered.length >= readersMin || union.isFull()
    let next = 0
    let running = 0
    let cancelPatience = () => {}
    const ended = () => {
      running--
      more(readersMin)
      if (enough() || running === 0 || reading.signal.aborted) return done.resolve()
      if (answered.length === 0 || next < targets.length) return
      cancelPatience()
      cancelPatience = clock.after(Math.max(STRAGGLER_MS_MIN, clock.monotonicMs() - startedMs), () => done.resolve())
    }
    /** Asks on until `wanted` have answered or may still. */
    const more = (wanted: number) => {
      while (!enough() && running + answered.length < wanted && next < targets.length) {
        const target = targets[next++] as PeerAddress
        asked.push(target.peer)
        running++
        void withDeadline(clock, READ_MS_MAX, reading.signal, (inner) => this.#readAll(target, query, union, inner))
          .then((ids) => {
            if (reading.signal.aborted) return
            answered.push(target)
            if (ids.length > 0) hidden(target, ids)
          })
          .catch((error: unknown) => logger.debug({ error, registrar: target.peer }, 'a registrar did not answer a listing'))
          .then(ended)
      }
    }
    more(readersMin)
    const cancelHedge = clock.after(hedgeMs, () => more(targets.length))
    reading.signal.addEventListener('abort', () => done.resolve(), { once: true })
    try {
      await done.promise
      signal?.throwIfAborted()
    } finally {
      cancelHedge()
      cancelPatience()
      signal?.removeEventListener('abort', follow)
      reading.abort(new Error('the listing has what it needs'))
    }
    return { asked, answered }
  }

  /**
   * All pages of one registrar; its cursor must move on, and it ends at the bound of a set.
   * @returns names that it took and does not show
   */
  async #readAll(target: PeerAddress, query: ListQuery, union: EntryUnion, signal: AbortSignal): Promise<string[]> {
    const { book, list } = this.#c
    const limit = query.id === undefined ? LIST_LIMIT_MAX : 1
    const numbers = new Map<string, number>()
    let cursor = query.id === undefined ? new Uint8Array(0) : cursorBefore(query.id)
    let refused = 0
    for (let read = 0; read < ENTRIES_MAX; read += limit) {
      const page = await list(target, pageRequest(query, cursor, limit), signal)
      signal.throwIfAborted()
      if (page.status !== 'ok') throw new ProtocolError('FIELD_INVALID', `a LIST was answered ${page.status}`, { field: 'status' })
      let invented = 0
      for (const [i, record] of page.records.entries()) {
        const { taken, id, number } = union.add(record, target.peer, page.pows?.[i])
        if (taken === 'refused') invented++
        if (id !== undefined && number !== undefined) numbers.set(id, Math.max(number, numbers.get(id) ?? -1))
      }
      if (invented > 0) book.invented(target.peer, invented)
      refused += invented
      if (refused > REFUSED_MAX) {
        throw new ProtocolError('FIELD_INVALID', `${refused} entries of a registrar do not verify`, { field: 'records' })
      }
      if (page.next === undefined || query.id !== undefined) return book.served(target.peer, { ...query, numbers })
      if (union.isFull()) return []
      if (toHex(page.next) <= toHex(cursor))
        throw new ProtocolError('FIELD_INVALID', 'the cursor of a listing does not move on', { field: 'next' })
      cursor = new Uint8Array(page.next)
    }
    return []
  }
}

function pageRequest(query: ListQuery, cursor: Uint8Array, limit: number): ListRequest {
  return {
    verb: 'list',
    set: query.set,
    key: query.key,
    ...(query.curator === undefined ? {} : { curator: query.curator }),
    ...(query.tags === undefined || query.tags.length === 0 ? {} : { tags: [...query.tags] }),
    cursor,
    limit
  }
}

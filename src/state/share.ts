import { type EseValue, type EseWrite, eseBatch } from '../../protocol/state/batch.ts'
import { EseMap } from '../../protocol/state/map.ts'
import { nodeCrypto } from '../crypto/node-crypto.ts'
import type { Session } from '../sessions/session.ts'
import { refusedWrite, stateError } from './errors.ts'
import { ESE_KEYS_MAX, ESE_PLAIN_BYTES_MAX } from './session-ese.ts'

/** Changes of one batch while a session is brought up to the shared state. */
const CHUNK_CHANGES = 256
/** And what their values take, before the last of them. */
const CHUNK_CHARS = 131_072

/** A session that takes part no longer, and why. */
export interface ShareLeft {
  id: string
  error: unknown
}

/**
 * One state that an agent shows in several of its sessions (G-48): what is written here is written to the own ESE of each. No ESE is reached from two
 * sessions by that: each keeps its keys, numbers and bounds. A session that cannot take a change leaves, with its reason, and may be added again.
 */
export class SharedState {
  readonly #map = new EseMap(nodeCrypto, { keysMax: ESE_KEYS_MAX, bytesMax: ESE_PLAIN_BYTES_MAX })
  readonly #members = new Map<string, Session>()

  /** Ids of the sessions that take part. */
  get members(): string[] {
    return [...this.#members.keys()]
  }

  get(key: string): EseValue | undefined {
    return this.#map.get(key)
  }

  keys(): string[] {
    return [...this.#map.keys()].sort()
  }

  /**
   * From now on the session shows this state, in place of whatever it showed. Resolves when the peer has it.
   * @throws RookeryError `ESE_EXCLUSIVE`; as {@link OwnState}
   */
  async add(session: Session): Promise<void> {
    const { id } = session.info()
    if (session.states.exclusive) {
      throw stateError('ESE_EXCLUSIVE', `the session ${id} has an ESE pair of its own, which is shared with no other session`, {
        field: 'session',
        value: id,
        remedy: 'open the session without `exclusive`, or write into it by itself'
      })
    }
    const [first = [], ...rest] = [...this.#chunks()]
    const taken = [
      session.states.own.replace(first),
      ...rest.map((chunk) => session.states.own.write(chunk.map(([key, value]) => ({ op: 'set', key, value }))))
    ]
    this.#members.set(id, session)
    try {
      await Promise.all(taken)
    } catch (error) {
      this.#members.delete(id)
      throw error
    }
  }

  *#chunks(): Generator<[string, EseValue][]> {
    let chunk: [string, EseValue][] = []
    let size = 0
    for (const key of this.#map.keys()) {
      chunk.push([key, this.#map.get(key) as EseValue])
      size += this.#map.held(key)?.length ?? 0
      if (chunk.length < CHUNK_CHANGES && size < CHUNK_CHARS) continue
      yield chunk
      chunk = []
      size = 0
    }
    if (chunk.length > 0) yield chunk
  }

  /** Its ESE keeps what it holds, and goes its own way. */
  remove(session: Session): void {
    this.#members.delete(session.info().id)
  }

  set(key: string, value: EseValue): Promise<ShareLeft[]> {
    return this.write([{ op: 'set', key, value }])
  }

  delete(key: string): Promise<ShareLeft[]> {
    return this.write([{ op: 'delete', key }])
  }

  /**
   * All of them, or none, in every session. Resolves when every peer has it, with the sessions that left instead.
   * @throws RookeryError `ESE_REFUSED`, `ESE_LIMIT`: nothing has changed
   */
  async write(writes: readonly EseWrite[]): Promise<ShareLeft[]> {
    try {
      this.#map.apply(eseBatch(writes))
    } catch (error) {
      throw refusedWrite(error)
    }
    const left = await Promise.all(
      [...this.#members].map(async ([id, session]): Promise<ShareLeft | undefined> => {
        try {
          await session.states.own.write(writes)
          return undefined
        } catch (error) {
          if (this.#members.get(id) === session) this.#members.delete(id)
          return { id, error }
        }
      })
    )
    return left.filter((one) => one !== undefined)
  }

  /** Lets go of all sessions and overwrites the values that are held here. */
  end(): void {
    this.#members.clear()
    this.#map.erase()
  }
}

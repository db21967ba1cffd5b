import { toHex } from '../../protocol/bytes.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { decodeSfc } from '../../protocol/session/sfc.ts'
import type { DurableSession } from './durable-session.ts'
import type { SessionRecord } from './session-record.ts'

/** The first EID of a local agent, and the one that a remote agent has now. */
export type PairKey = string

export function pairKey(home: EidHex, remote: Eid): PairKey {
  return home + eidHex(remote)
}

/** What is in memory of every session, also of those that only the disk holds: some 300 bytes. */
export interface IndexEntry {
  readonly id: string
  pair: PairKey
  /** as the peer knows us: the EID before, until it has acknowledged a rotation */
  local: Eid
  remote: Eid
  readonly flags: number
  /** the contract block, byte for byte */
  readonly sfc: Uint8Array | undefined
  /** wall time at which its contract ends */
  readonly expiresAtMs: number | undefined
  activeAtMs: number
  /** PeerId under which it was reached last */
  peer: string
  /** who opened it; `peer`: not one of ours */
  readonly openedBy: 'local' | 'peer'
  /** it is known that something was sent in it, either way */
  isUsed: boolean
  loaded: DurableSession | undefined
  /** a parked session that an application may still hold */
  parked: WeakRef<DurableSession> | undefined
  loading: Promise<DurableSession | undefined> | undefined
}

/** All sessions by id and by pair; as many as `storedMax`. */
export class SessionIndex {
  readonly #byId = new Map<string, IndexEntry>()
  readonly #byPair = new Map<PairKey, IndexEntry>()

  get size(): number {
    return this.#byId.size
  }

  add(record: SessionRecord, pair: PairKey, loaded?: DurableSession): IndexEntry {
    const { sid, local, remote, direction, flags, sfc, openedAtMs, activeAtMs, address, tx, rx } = record
    const id = toHex(sid)
    const expiresAtMs = sfc === undefined ? undefined : openedAtMs + decodeSfc(sfc).sessionSecondsMax * 1_000
    const entry: IndexEntry = {
      id,
      pair,
      local,
      remote,
      flags,
      sfc,
      expiresAtMs,
      activeAtMs,
      peer: address.peer,
      openedBy: direction === 0 ? 'local' : 'peer',
      isUsed: tx.seq > 0n || rx.seq > 0n,
      loaded,
      parked: undefined,
      loading: undefined
    }
    this.#byId.set(id, entry)
    this.#byPair.set(pair, entry)
    return entry
  }

  /** One of the two goes by another EID. */
  rename(entry: IndexEntry, now: { local: Eid; remote: Eid; pair: PairKey }): void {
    if (this.#byPair.get(entry.pair) === entry) this.#byPair.delete(entry.pair)
    Object.assign(entry, now)
    this.#byPair.set(entry.pair, entry)
  }

  remove(id: string): void {
    const entry = this.#byId.get(id)
    this.#byId.delete(id)
    if (entry !== undefined && this.#byPair.get(entry.pair) === entry) this.#byPair.delete(entry.pair)
  }

  byId(id: string): IndexEntry | undefined {
    return this.#byId.get(id)
  }

  byPair(pair: PairKey): IndexEntry | undefined {
    return this.#byPair.get(pair)
  }

  entries(): Iterable<IndexEntry> {
    return this.#byId.values()
  }

  *loaded(): Iterable<DurableSession> {
    for (const { loaded } of this.#byId.values()) if (loaded !== undefined) yield loaded
  }
}

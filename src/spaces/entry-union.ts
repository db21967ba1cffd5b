import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { matchesQuery, type RegistryEntry, verifyRegistryEntry } from '../../protocol/discovery/registry-entry.ts'
import type { RegistrySet } from '../../protocol/discovery/registry-messages.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { CLOCK_SKEW_SEC } from '../../protocol/records/envelope.ts'
import type { RegistryEvidence } from '../evidence/evidence.ts'
import type { PeerAddress } from '../net/host.ts'

/** A registrar may hold this many entries under one key, whatever it claims (protocol/README.md §4). */
export const ENTRIES_MAX = 10_000

export interface ListQuery {
  set: RegistrySet
  key: Uint8Array
  curator?: Uint8Array
  tags?: readonly string[]
  /** enough live entries: a search may stop early */
  limit?: number
  /** only the entry of this name */
  id?: Uint8Array
  /** peers to ask beside those that the DHT names */
  seeds?: readonly PeerAddress[]
}

export interface ListedEntry {
  entry: RegistryEntry
  /** PeerIds of the registrars that served it */
  servedBy: string[]
  /** the nonce of its work where a registrar told one; not checked here */
  pow?: Uint8Array
}

/** `refused`: no honest registrar keeps it; `excused`: one may, whose clock or knowledge differs */
export type Taken = 'taken' | 'refused' | 'excused'

interface Held {
  entry: RegistryEntry
  servedBy: Set<string>
  pow: Uint8Array | undefined
}

/**
 * What the registrars served, verified once for each different record. At most `ENTRIES_MAX` names are held; at the bound the one that brought most
 * names that nobody else serves loses one of these, so that a registrar with any number of entries of its own making keeps no other's out.
 */
export class EntryUnion {
  readonly #crypto: CryptoProvider
  readonly #query: ListQuery
  readonly #nowMs: number
  readonly #evidence: RegistryEvidence | undefined
  readonly #namesMax: number
  /** by the record's hash, so that what several registrars serve is verified once; while it has room, as a liar must not use it up */
  readonly #seen = new Map<string, RegistryEntry>()
  readonly #byName = new Map<string, Held>()
  /** names that one registrar alone served, by registrar; as many names in all as `#byName` has at most */
  readonly #sole = new Map<string, Set<string>>()

  constructor(crypto: CryptoProvider, query: ListQuery, nowMs: number, evidence?: RegistryEvidence, namesMax = ENTRIES_MAX) {
    this.#crypto = crypto
    this.#query = query
    this.#nowMs = nowMs
    this.#evidence = evidence
    this.#namesMax = namesMax
  }

  /** @returns the entry's name and number too where it was taken */
  add(record: Uint8Array, registrar: string, pow?: Uint8Array): { taken: Taken; id?: string; number?: number } {
    const hash = toHex(this.#crypto.sha256(record))
    const known = this.#seen.get(hash)
    const entry = known ?? this.#verify(record)
    if (entry === 'refused' || entry === 'excused') return { taken: entry }
    if (known === undefined && this.#seen.size < 2 * ENTRIES_MAX) this.#seen.set(hash, entry)
    const id = toHex(entry.id)
    this.#hold(id, entry, registrar, pow)
    return { taken: 'taken', id, number: entry.number }
  }

  #hold(name: string, entry: RegistryEntry, registrar: string, pow: Uint8Array | undefined): void {
    const held = this.#byName.get(name)
    if (held === undefined) {
      if (this.#byName.size >= this.#namesMax && !this.#makeRoom(registrar)) return
      this.#byName.set(name, { entry, servedBy: new Set([registrar]), pow })
      this.#soleOf(registrar).add(name)
      return
    }
    if (entry.number > held.entry.number) {
      for (const server of held.servedBy) this.#sole.get(server)?.delete(name)
      this.#byName.set(name, { entry, servedBy: new Set([registrar]), pow })
      this.#soleOf(registrar).add(name)
      return
    }
    if (equals(entry.record.bytes, held.entry.record.bytes)) {
      if (!held.servedBy.has(registrar)) for (const server of held.servedBy) this.#sole.get(server)?.delete(name)
      held.servedBy.add(registrar)
      held.pow ??= pow
    } else if (entry.number === held.entry.number && (entry.set === 'announcements' || entry.set === 'children')) {
      const pair = { a: held.entry.record.bytes, b: entry.record.bytes }
      this.#evidence?.onEquivocation({ target: entry.record.payload.curator, kind: 'announce', ...pair })
    }
  }

  #soleOf(registrar: string): Set<string> {
    const names = this.#sole.get(registrar) ?? new Set<string>()
    this.#sole.set(registrar, names)
    return names
  }

  /** @returns false where the newcomer's own registrar has most already */
  #makeRoom(registrar: string): boolean {
    let most: Set<string> = this.#soleOf(registrar)
    for (const names of this.#sole.values()) if (names.size > most.size) most = names
    if (most === this.#sole.get(registrar)) return false
    const [name] = most
    if (name === undefined) return false
    most.delete(name)
    this.#byName.delete(name)
    return true
  }

  #verify(record: Uint8Array): RegistryEntry | 'refused' | 'excused' {
    try {
      const entry = this.#open(record, this.#nowMs)
      // who asks for one name is given the next one where that is missing
      if (this.#query.id !== undefined && !equals(entry.id, this.#query.id)) return 'excused'
      if (entry.set === 'members' && !entry.gone && this.#evidence?.refusesJoins(entry.record.payload.eid) === true) return 'excused'
      return matchesQuery(entry, this.#query) ? entry : 'refused'
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      if (error.code === 'RECORD_EXPIRED') return this.#passesAt(record, this.#nowMs - CLOCK_SKEW_SEC * 1_000)
      return error.code === 'RECORD_FUTURE' ? this.#passesAt(record, this.#nowMs + CLOCK_SKEW_SEC * 1_000) : 'refused'
    }
  }

  #open(record: Uint8Array, nowMs: number): RegistryEntry {
    return verifyRegistryEntry(this.#crypto, { set: this.#query.set, key: this.#query.key, record: new Uint8Array(record) }, nowMs)
  }

  /** It expired on the way, or the registrar's clock differs within what is allowed. */
  #passesAt(record: Uint8Array, nowMs: number): 'refused' | 'excused' {
    try {
      this.#open(record, nowMs)
      return 'excused'
    } catch (error) {
      if (error instanceof ProtocolError) return 'refused'
      throw error
    }
  }

  isFull(): boolean {
    const limit = this.#query.limit
    if (limit === undefined || this.#byName.size < limit) return false
    let live = 0
    for (const { entry } of this.#byName.values()) if (!entry.gone) live++
    return live >= limit
  }

  winners(): ListedEntry[] {
    return [...this.#byName.values()].map(({ entry, servedBy, pow }) => ({
      entry,
      servedBy: [...servedBy],
      ...(pow === undefined || pow.length === 0 ? {} : { pow: pow.slice() })
    }))
  }
}

import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { matchesQuery, type RegistryEntry, verifyRegistryEntry } from '../../protocol/discovery/registry-entry.ts'
import type { RegistrySet } from '../../protocol/discovery/registry-messages.ts'
import { ProtocolError } from '../../protocol/errors.ts'
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
}

/** What the registrars served, verified once for each different record. At most `ENTRIES_MAX` names are held. */
export class EntryUnion {
  readonly #crypto: CryptoProvider
  readonly #query: ListQuery
  readonly #nowMs: number
  readonly #evidence: RegistryEvidence | undefined
  /** by the record's hash, so that what several registrars serve is verified once; while it has room, as a liar must not use it up */
  readonly #seen = new Map<string, RegistryEntry>()
  readonly #byName = new Map<string, { entry: RegistryEntry; servedBy: Set<string> }>()

  constructor(crypto: CryptoProvider, query: ListQuery, nowMs: number, evidence?: RegistryEvidence) {
    this.#crypto = crypto
    this.#query = query
    this.#nowMs = nowMs
    this.#evidence = evidence
  }

  /** @returns `refused` for a record that does not verify or was not asked for */
  add(record: Uint8Array, registrar: string): 'taken' | 'refused' {
    const hash = toHex(this.#crypto.sha256(record))
    const known = this.#seen.get(hash)
    const entry = known ?? this.#verify(record)
    if (entry === undefined) return 'refused'
    if (known === undefined && this.#seen.size < 2 * ENTRIES_MAX) this.#seen.set(hash, entry)
    const name = toHex(entry.id)
    const held = this.#byName.get(name)
    if (held === undefined) {
      if (this.#byName.size < ENTRIES_MAX) this.#byName.set(name, { entry, servedBy: new Set([registrar]) })
    } else if (entry.number > held.entry.number) this.#byName.set(name, { entry, servedBy: new Set([registrar]) })
    else if (equals(entry.record.bytes, held.entry.record.bytes)) held.servedBy.add(registrar)
    else if (entry.number === held.entry.number && (entry.set === 'announcements' || entry.set === 'children')) {
      const pair = { a: held.entry.record.bytes, b: entry.record.bytes }
      this.#evidence?.onEquivocation({ target: entry.record.payload.curator, kind: 'announce', ...pair })
    }
    return 'taken'
  }

  #verify(record: Uint8Array): RegistryEntry | undefined {
    try {
      const entry = verifyRegistryEntry(
        this.#crypto,
        { set: this.#query.set, key: this.#query.key, record: new Uint8Array(record) },
        this.#nowMs
      )
      if (this.#query.id !== undefined && !equals(entry.id, this.#query.id)) return undefined
      if (entry.set === 'members' && !entry.gone && this.#evidence?.refusesJoins(entry.record.payload.eid) === true) return undefined
      return matchesQuery(entry, this.#query) ? entry : undefined
    } catch (error) {
      if (error instanceof ProtocolError) return undefined
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
    return [...this.#byName.values()].map(({ entry, servedBy }) => ({ entry, servedBy: [...servedBy] }))
  }
}

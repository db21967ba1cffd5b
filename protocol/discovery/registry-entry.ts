import { equals, fromHex } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import type { AnnounceRecord } from '../records/announce.ts'
import type { CircuitRelayRecord } from '../records/circuit-relay.ts'
import type { JoinRecord } from '../records/join.ts'
import type { PomRecord } from '../records/pom.ts'
import type { PruneRecord } from '../records/prune.ts'
import { openSetEntry } from '../records/set-entry.ts'
import type { RegistrySet } from './registry-messages.ts'

interface EntryCommon {
  /** its name within the set: EID (members), curator (announcements), DS_ID ‖ curator (children), curator ‖ EID (prunes), accuser (poms), key of the node (relays) */
  readonly id: Uint8Array
  /** `seq`, `ts` for prunes, poms and relays: of two entries with one name the higher number wins */
  readonly number: number
  /** Unix seconds */
  readonly exp: number
  readonly gone: boolean
  /** whom the member follows, who announces or prunes, who accuses, or the relay itself */
  readonly curator: Uint8Array
  readonly tags: readonly string[]
  /** a member that no listing shows */
  readonly unlisted: boolean
}

export type MemberEntry = EntryCommon & { readonly set: 'members'; readonly record: JoinRecord }
export type AnnouncementEntry = EntryCommon & { readonly set: 'announcements' | 'children'; readonly record: AnnounceRecord }
export type PruneEntry = EntryCommon & { readonly set: 'prunes'; readonly record: PruneRecord }
export type PomEntry = EntryCommon & { readonly set: 'poms'; readonly record: PomRecord }
export type RelayEntry = EntryCommon & { readonly set: 'relays'; readonly record: CircuitRelayRecord }
/** A verified record in its place in a set. */
export type RegistryEntry = MemberEntry | AnnouncementEntry | PruneEntry | PomEntry | RelayEntry

/**
 * Every check that a registrar makes before it stores and a reader before it believes: the set takes the kind, the record is whole, signed
 * and alive, and the key is one that its payload leads to.
 * @param nowMs - wall clock, ms since the Unix epoch
 * @throws ProtocolError what `openSetEntry` refuses
 * @see protocol/README.md §4
 */
export function verifyRegistryEntry(
  crypto: CryptoProvider,
  { set, key, record: bytes }: { set: RegistrySet; key: Uint8Array; record: Uint8Array },
  nowMs: number
): RegistryEntry {
  const opened = openSetEntry(crypto, set, key, bytes, nowMs)
  if (opened.set === 'prunes') {
    const { ts, exp, curator } = opened.record.payload
    return {
      set: 'prunes',
      id: fromHex(opened.id),
      number: ts,
      exp,
      gone: false,
      curator,
      tags: [],
      unlisted: false,
      record: opened.record
    }
  }
  if (opened.set === 'poms') {
    const { ts, exp, accuser } = opened.record.payload
    return {
      set: 'poms',
      id: fromHex(opened.id),
      number: ts,
      exp,
      gone: false,
      curator: accuser,
      tags: [],
      unlisted: false,
      record: opened.record
    }
  }
  if (opened.set === 'relays') {
    const { ts, exp, node, gone } = opened.record.payload
    return {
      set: 'relays',
      id: fromHex(opened.id),
      number: ts,
      exp,
      gone: gone === true,
      curator: node,
      tags: [],
      unlisted: false,
      record: opened.record
    }
  }
  const { seq, exp, gone, curator } = opened.record.payload
  const common = { id: fromHex(opened.id), number: seq, exp, gone: gone === true, curator }
  if (opened.set === 'members') {
    const { tags, unlisted } = opened.record.payload
    return { ...common, set: 'members', tags, unlisted: unlisted === true, record: opened.record }
  }
  return { ...common, set: opened.set, tags: [], unlisted: false, record: opened.record }
}

/** A live entry bears all the tags and follows the curator asked for; tombstones pass, so that readers learn of them. An unlisted one never does. */
export function matchesQuery(
  entry: { readonly gone: boolean; readonly curator: Uint8Array; readonly tags: readonly string[]; readonly unlisted: boolean },
  query: { curator?: Uint8Array; tags?: readonly string[] }
): boolean {
  if (entry.unlisted) return false
  if (entry.gone) return true
  if (query.curator !== undefined && !equals(entry.curator, query.curator)) return false
  return query.tags === undefined || query.tags.every((tag) => entry.tags.includes(tag))
}

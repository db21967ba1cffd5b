import { equals, toHex } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { type DsId, dsId, prefixIds, SHARDS_MAX } from '../discovery/names.ts'
import type { Eid } from '../identity/eid.ts'
import { type Announce, type AnnounceRecord, announceType, selectAnnounce } from './announce.ts'
import { type CircuitRelayRecord, circuitRelaysKey, circuitRelayType, selectCircuitRelay } from './circuit-relay.ts'
import { decodeRecord, openRecord } from './envelope.ts'
import { type JoinRecord, joinType, selectJoin } from './join.ts'
import { openPom, type PomRecord, pomKey, pomType, selectPom } from './pom.ts'
import { type Prune, type PruneRecord, pruneType, selectPrune } from './prune.ts'
import type { Selection } from './selection.ts'

/** The sets that registrars keep (protocol/README.md §4). */
export const REGISTRY_SETS = ['members', 'announcements', 'children', 'prunes', 'poms', 'relays'] as const
export type RegistrySet = (typeof REGISTRY_SETS)[number]

/** A verified record with the name of its place in the set: a second one with the same `id` takes or leaves that place. */
export type SetEntry =
  | { set: 'members'; id: string; record: JoinRecord }
  | { set: 'announcements'; id: string; record: AnnounceRecord }
  | { set: 'children'; id: string; record: AnnounceRecord }
  | { set: 'prunes'; id: string; record: PruneRecord }
  | { set: 'poms'; id: string; record: PomRecord }
  | { set: 'relays'; id: string; record: CircuitRelayRecord }

/**
 * Verifies a record as a member of `set` at `key`: registrars on PUT, readers on LIST.
 * @param key - 32 bytes: DS_ID or a shard of it (members), DS_ID (announcements, prunes), PREFIX_ID (children), `H("pom" ‖ EID)` (poms), the one key of all relays
 * @param nowMs - wall clock, ms since the Unix epoch
 * @throws ProtocolError `RECORD_KEY_MISMATCH` when the record belongs under another key, or what `openRecord` and `openPom` refuse
 */
export function openSetEntry(crypto: CryptoProvider, set: RegistrySet, key: Uint8Array, bytes: Uint8Array, nowMs: number): SetEntry {
  switch (set) {
    case 'members': {
      const record = openRecord(crypto, joinType, bytes, { nowMs, belongs: (p) => isMemberKey(crypto, key, p.dsid, p.eid) })
      return { set, id: toHex(record.payload.eid), record }
    }
    case 'announcements': {
      const record = openRecord(crypto, announceType, bytes, { nowMs, belongs: (p) => equals(announcedId(crypto, p), key) })
      return { set, id: toHex(record.payload.curator), record }
    }
    case 'children': {
      const isChild = (p: Announce) => prefixIds(crypto, p).some((prefix) => equals(prefix, key))
      const record = openRecord(crypto, announceType, bytes, { nowMs, belongs: isChild })
      return { set, id: childId(crypto, record.payload), record }
    }
    case 'prunes': {
      const record = openRecord(crypto, pruneType, bytes, { nowMs, belongs: (p) => equals(p.dsid, key) })
      return { set, id: pruneId(record.payload), record }
    }
    case 'poms': {
      const record = openPom(crypto, bytes, { nowMs, belongs: (p) => equals(pomKey(crypto, p.target), key) })
      return { set, id: toHex(record.payload.accuser), record }
    }
    case 'relays': {
      const record = openRecord(crypto, circuitRelayType, bytes, { nowMs, belongs: () => equals(circuitRelaysKey(crypto), key) })
      return { set, id: toHex(record.payload.node), record }
    }
  }
}

/**
 * The place that a record claims, and whether it says that it is a tombstone: shapes alone, nothing is verified.
 * @throws ProtocolError as `decodeRecord`
 */
export function claimedPlace(crypto: CryptoProvider, set: RegistrySet, bytes: Uint8Array): { id: string; gone: boolean } {
  switch (set) {
    case 'members': {
      const { eid, gone } = decodeRecord(joinType, bytes).payload
      return { id: toHex(eid), gone: gone === true }
    }
    case 'announcements':
    case 'children': {
      const { payload } = decodeRecord(announceType, bytes)
      const id = set === 'announcements' ? toHex(payload.curator) : childId(crypto, payload)
      return { id, gone: payload.gone === true }
    }
    case 'prunes':
      return { id: pruneId(decodeRecord(pruneType, bytes).payload), gone: false }
    case 'poms':
      return { id: toHex(decodeRecord(pomType, bytes).payload.accuser), gone: false }
    case 'relays': {
      const { node, gone } = decodeRecord(circuitRelayType, bytes).payload
      return { id: toHex(node), gone: gone === true }
    }
  }
}

/** Who keeps the place of two valid entries with the same set, key and id. A mistake of ours (`TypeError`) otherwise. */
export function selectSetEntry(held: SetEntry, offered: SetEntry): Selection {
  if (held.id !== offered.id) throw new TypeError('entries of different places are not compared')
  if (held.set === 'members' && offered.set === 'members') return selectJoin(held.record, offered.record)
  if (held.set === 'prunes' && offered.set === 'prunes') return selectPrune(held.record, offered.record)
  if (held.set === 'announcements' && offered.set === 'announcements') return selectAnnounce(held.record, offered.record)
  if (held.set === 'children' && offered.set === 'children') return selectAnnounce(held.record, offered.record)
  if (held.set === 'poms' && offered.set === 'poms') return selectPom(held.record, offered.record)
  if (held.set === 'relays' && offered.set === 'relays') return selectCircuitRelay(held.record, offered.record)
  throw new TypeError('entries of different sets are not compared')
}

/** True for DS_ID itself and for the keys of this member's part under every number of shards from 2 to 256. */
export function isMemberKey(crypto: CryptoProvider, key: Uint8Array, dsid: DsId, eid: Eid): boolean {
  if (equals(key, dsid)) return true
  const first = crypto.sha256(eid)[0] as number
  const parts = new Set(Array.from({ length: SHARDS_MAX - 1 }, (_, i) => first % (i + 2)))
  for (const part of parts) if (equals(crypto.sha256(dsid, Uint8Array.of(part)), key)) return true
  return false
}

const childId = (crypto: CryptoProvider, announce: Announce) => `${toHex(announcedId(crypto, announce))}${toHex(announce.curator)}`
const pruneId = ({ curator, eid }: Prune) => `${toHex(curator)}${toHex(eid)}`

function announcedId(crypto: CryptoProvider, announce: Announce): DsId {
  return dsId(crypto, { ns: announce.ns, topic: announce.topic, version: announce.ver })
}

import type { CryptoProvider } from '../crypto/provider.ts'
import { parseDhtKey } from '../discovery/dht-key.ts'
import { type AnnounceRecord, announceType, selectAnnounce } from './announce.ts'
import { decodeRecord, openRecord } from './envelope.ts'
import { type GpRecord, gpType, selectGp } from './gp.ts'
import { type JoinRecord, joinType, selectJoin } from './join.ts'
import { type LocatorRecord, locatorType, selectLocator } from './locator.ts'
import type { Selection } from './selection.ts'

/** What the DHT may hold. */
export type DhtRecord = LocatorRecord | AnnounceRecord | JoinRecord | GpRecord

/**
 * Every check of wire.md §3 on a value under a key, for puts and gets on every node: the namespace of the key decides the kind.
 * @param nowMs - wall clock, ms since the Unix epoch
 * @throws ProtocolError `DHT_KEY`, or what `decodeRecord` and `verifyRecord` refuse
 */
export function validateDhtValue(crypto: CryptoProvider, key: Uint8Array, value: Uint8Array, nowMs: number): DhtRecord {
  const options = { nowMs, key }
  switch (parseDhtKey(key).namespace) {
    case 'eid':
      return openRecord(crypto, locatorType, value, options)
    case 'ds':
      return openRecord(crypto, announceType, value, options)
    case 'dsj':
      return openRecord(crypto, joinType, value, options)
    case 'gp':
      return openRecord(crypto, gpType, value, options)
  }
}

/**
 * Who keeps the key. Both values have passed {@link validateDhtValue} under this key at this moment: an expired one is not held.
 * @throws ProtocolError `DHT_KEY`, or what `decodeRecord` refuses
 */
export function selectDhtValue(key: Uint8Array, held: Uint8Array, offered: Uint8Array): Selection {
  switch (parseDhtKey(key).namespace) {
    case 'eid':
      return selectLocator(decodeRecord(locatorType, held), decodeRecord(locatorType, offered))
    case 'ds':
      return selectAnnounce(decodeRecord(announceType, held), decodeRecord(announceType, offered))
    case 'dsj':
      return selectJoin(decodeRecord(joinType, held), decodeRecord(joinType, offered))
    case 'gp':
      return selectGp(decodeRecord(gpType, held), decodeRecord(gpType, offered))
  }
}

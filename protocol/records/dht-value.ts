import { equals } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { parseDhtKey } from '../discovery/dht-key.ts'
import { type AnnounceRecord, announceType, selectAnnounce } from './announce.ts'
import { decodeRecord, openRecord, type RecordPayload, type RecordType, type SignedRecord } from './envelope.ts'
import { type GpRecord, gpType, selectGp } from './gp.ts'
import { type JoinRecord, joinType, selectJoin } from './join.ts'
import { type LocatorRecord, locatorType, selectLocator } from './locator.ts'
import { type MailRecord, mailType, selectMail } from './mail.ts'
import type { Selection } from './selection.ts'

/** What the DHT may hold. */
export type DhtRecord = LocatorRecord | AnnounceRecord | JoinRecord | GpRecord | MailRecord

/**
 * Every check of protocol/README.md §3 on a value under a key, for puts and gets on every node: the namespace of the key decides the kind.
 * @param nowMs - wall clock, ms since the Unix epoch
 * @throws ProtocolError `DHT_KEY`, or what `decodeRecord` and `verifyRecord` refuse
 */
export function validateDhtValue(crypto: CryptoProvider, key: Uint8Array, value: Uint8Array, nowMs: number): DhtRecord {
  const open = <K extends string, P extends RecordPayload>(type: RecordType<K, P>): SignedRecord<K, P> => {
    const belongs = (payload: P) => {
      const own = type.dhtKey(crypto, payload)
      return own !== undefined && equals(own, key)
    }
    return openRecord(crypto, type, value, { nowMs, belongs })
  }
  switch (parseDhtKey(key).namespace) {
    case 'eid':
      return open(locatorType)
    case 'ds':
      return open(announceType)
    case 'dsj':
      return open(joinType)
    case 'gp':
      return open(gpType)
    case 'mail':
      return open(mailType)
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
    case 'mail':
      return selectMail(decodeRecord(mailType, held), decodeRecord(mailType, offered))
  }
}

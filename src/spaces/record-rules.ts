import { CborFields, decodeCbor } from '../../protocol/cbor.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { parseDhtKey } from '../../protocol/discovery/dht-key.ts'
import type { Evidence } from '../../protocol/evidence/proof.ts'
import { eid } from '../../protocol/identity/eid.ts'
import { announceType } from '../../protocol/records/announce.ts'
import { selectDhtValue, validateDhtValue } from '../../protocol/records/dht-value.ts'
import { decodeEnvelope, decodeRecord, RECORD_BYTES_MAX, TIME_SEC_MAX } from '../../protocol/records/envelope.ts'
import type { RecordEvidence } from '../evidence/evidence.ts'
import type { DhtRules } from '../net/dht-rules.ts'

/**
 * What may stand in the DHT and who wins a key: the records of protocol/README.md §3, on put and on get, on every node.
 * @param evidence - hears of locators that pass, and of two records that contradict each other
 */
export function recordRules(crypto: CryptoProvider, evidence?: RecordEvidence): DhtRules {
  return {
    validate: (key, value, nowMs) => {
      const record = validateDhtValue(crypto, key, value, nowMs)
      if (record.kind === 'locator') evidence?.onLocator(record)
    },
    select: (key, held, offered) => {
      const { winner, reason } = selectDhtValue(key, held, offered)
      if (reason === 'equivocation') evidence?.onEquivocation(contradiction(key, held, offered))
      return winner
    },
    expiresAtMs: (_key, value) => {
      const { payloadBytes } = decodeEnvelope(value, RECORD_BYTES_MAX)
      return new CborFields(decodeCbor(payloadBytes), 'record').uint('exp', { max: TIME_SEC_MAX }) * 1_000
    }
  }
}

/** Both have passed the rules at this key: locators or mail records of its EID, or announcements of one curator. */
function contradiction(key: Uint8Array, a: Uint8Array, b: Uint8Array): Evidence {
  const parsed = parseDhtKey(key)
  if (parsed.namespace === 'eid') return { target: parsed.eid, kind: 'locator', a, b }
  if (parsed.namespace === 'mail') return { target: parsed.eid, kind: 'mail', a, b }
  return { target: eid(decodeRecord(announceType, a).payload.curator), kind: 'announce', a, b }
}

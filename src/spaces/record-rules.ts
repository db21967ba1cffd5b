import { CborFields, decodeCbor } from '../../protocol/cbor.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { selectDhtValue, validateDhtValue } from '../../protocol/records/dht-value.ts'
import { decodeEnvelope, RECORD_BYTES_MAX, TIME_SEC_MAX } from '../../protocol/records/envelope.ts'
import type { DhtRules } from '../net/dht-rules.ts'

/** What may stand in the DHT and who wins a key: the records of wire.md §3, on put and on get, on every node. */
export function recordRules(crypto: CryptoProvider): DhtRules {
  return {
    validate: (key, value, nowMs) => {
      validateDhtValue(crypto, key, value, nowMs)
    },
    select: (key, held, offered) => selectDhtValue(key, held, offered).winner,
    expiresAtMs: (_key, value) => {
      const { payloadBytes } = decodeEnvelope(value, RECORD_BYTES_MAX)
      return new CborFields(decodeCbor(payloadBytes), 'record').uint('exp', { max: TIME_SEC_MAX }) * 1_000
    }
  }
}

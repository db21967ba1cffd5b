import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type DhtRecord, validateDhtValue } from '../../protocol/records/dht-value.ts'
import type { Dht } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'

/** The distinct values that the network serves under `key`, each verified here again; what does not verify is left out. */
export async function* dhtRecords(
  { dht, crypto, clock }: { dht: Dht; crypto: CryptoProvider; clock: Clock },
  key: Uint8Array,
  signal: AbortSignal | undefined
): AsyncIterable<DhtRecord> {
  for await (const value of dht.values(key, signal === undefined ? {} : { signal })) {
    let record: DhtRecord
    try {
      record = validateDhtValue(crypto, key, value, clock.nowMs())
    } catch (error) {
      if (error instanceof ProtocolError) continue
      throw error
    }
    yield record
  }
}

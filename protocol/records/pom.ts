import { utf8 } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { EVIDENCE_KINDS, type Evidence, verifyEvidence } from '../evidence/proof.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { openRecord, RECORD_BYTES_MAX, type RecordPayload, type RecordType, type SignedRecord, type VerifyOptions } from './envelope.ts'
import { byNumber, type Selection } from './selection.ts'

export const POM_TTL_SEC = 30 * 86_400
export const POM_BYTES_MAX = 4_096
const KEY_PREFIX = utf8('pom')

/** A proof of malfeasance (protocol/README.md §8): evidence against `target`, carried and signed by `accuser`, whose word counts for nothing. */
export interface Pom extends RecordPayload, Evidence {
  readonly accuser: Eid
}

export type PomRecord = SignedRecord<'pom', Pom>

export const pomType: RecordType<'pom', Pom> = {
  kind: 'pom',
  bytesMax: POM_BYTES_MAX,
  ttlSec: POM_TTL_SEC,
  toCbor: (p) => ({ target: p.target, accuser: p.accuser, kind: p.kind, a: p.a, b: p.b }),
  fromCbor: (fields, times) => {
    if (times.gone === true) throw new ProtocolError('FIELD_INVALID', 'a proof cannot be taken back', { field: 'pom.gone' })
    return {
      target: eid(fields.bytes('target', { length: 32 })),
      accuser: eid(fields.bytes('accuser', { length: 32 })),
      kind: fields.oneOf('kind', EVIDENCE_KINDS),
      a: fields.bytes('a', { min: 1, max: RECORD_BYTES_MAX }),
      b: fields.bytes('b', { min: 1, max: RECORD_BYTES_MAX }),
      ...times
    }
  },
  signer: (p) => p.accuser,
  sequence: () => undefined,
  dhtKey: () => undefined
}

/** Where registrars keep the proofs against an EID: `H("pom" ‖ EID)`. */
export function pomKey(crypto: CryptoProvider, target: Eid): Uint8Array {
  return crypto.sha256(KEY_PREFIX, target)
}

/**
 * The only door for a proof: the record's own checks, cheapest first, then {@link verifyEvidence}.
 * @throws ProtocolError as `openRecord` and `verifyEvidence`
 */
export function openPom(crypto: CryptoProvider, bytes: Uint8Array, options: VerifyOptions<Pom>): PomRecord {
  const record = openRecord(crypto, pomType, bytes, options)
  verifyEvidence(crypto, record.payload)
  return record
}

/** A place is one accuser's: its later record stays. All places of a target together are the set. */
export function selectPom(held: PomRecord, offered: PomRecord): Selection {
  return byNumber(
    { number: held.payload.ts, bytes: held.payloadBytes },
    { number: offered.payload.ts, bytes: offered.payloadBytes },
    'older'
  )
}

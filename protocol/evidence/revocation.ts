import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { POM_BYTES_MAX } from '../records/pom.ts'

/** Why a session is revoked, as REVOCATION_PUBLISH says it (protocol/README.md §6). A number of a later version passes. */
export const REVOCATION_REASONS = {
  /** two checkpoints of one point differ: a sequence number was used twice */
  sequence: 1,
  /** two locators or two announcements of one number */
  equivocation: 2,
  /** two group ops of one place */
  group: 3
} as const

/** PSS_REVOCATION_PUBLISH's item 0x88. */
export interface Revocation {
  reason: number
  /** the signed `pom` record that goes to the registry too; not verified by the codec */
  pom: Uint8Array
}

/** reason u16 ‖ PoM record */
export function encodeRevocation({ reason, pom }: Revocation): Uint8Array {
  return new Writer(2 + pom.length).u16(reason).bytes(pom).finish()
}

/** @throws ProtocolError `TRUNCATED`, `LENGTH` (no record, or one above 4,096 bytes) */
export function decodeRevocation(payload: Uint8Array): Revocation {
  const reader = new Reader(payload)
  const reason = reader.u16('reason')
  const pom = reader.bytes(reader.remaining, 'pom')
  if (pom.length === 0 || pom.length > POM_BYTES_MAX) {
    throw new ProtocolError('LENGTH', `a proof is 1 to ${POM_BYTES_MAX} bytes, not ${pom.length}`, { field: 'revocation.pom' })
  }
  return { reason, pom }
}

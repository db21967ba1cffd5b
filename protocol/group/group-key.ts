import { concat, equals, isZero, Reader, Writer } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { DGK_BYTES, GID_BYTES } from './bounds.ts'
import { keyCommitment, openStatement, type SignedStatement } from './statement.ts'

const NO_KEY = new Uint8Array(DGK_BYTES)

/** An item 0x05: an epoch's trust list and its key, for a member; without the key for who is none any more. */
export interface GroupKey {
  readonly statement: SignedStatement
  /** undefined: the receiver is told that it is no member */
  readonly dgk: Uint8Array | undefined
}

/** gid 16 ‖ u32 epoch ‖ DGK 32 (zeros: none) ‖ statement */
export function encodeGroupKey({ statement, dgk }: GroupKey): Uint8Array {
  return new Writer(GID_BYTES + 4 + DGK_BYTES + statement.bytes.length)
    .bytes(statement.gid)
    .u32(statement.epoch)
    .bytes(dgk ?? NO_KEY)
    .bytes(statement.bytes)
    .finish()
}

/**
 * Reads an item 0x05: the statement's signature is checked, and that the key is the one that the statement names. Needs no trust in who sent it.
 * @returns copies
 * @throws ProtocolError `TRUNCATED`, those of {@link openStatement}, `FIELD_INVALID` (gid, epoch or key of another statement)
 */
export function openGroupKey(crypto: CryptoProvider, payload: Uint8Array): GroupKey {
  const reader = new Reader(payload)
  const gid = reader.bytes(GID_BYTES, 'gid')
  const epoch = reader.u32('epoch')
  const dgk = reader.bytes(DGK_BYTES, 'dgk')
  const statement = openStatement(crypto, reader.rest())
  if (!equals(statement.gid, gid)) throw other('gid')
  if (statement.epoch !== epoch) throw other('epoch')
  if (isZero(dgk)) return { statement, dgk: undefined }
  if (!equals(statement.key, keyCommitment(crypto, gid, epoch, dgk))) throw other('dgk')
  return { statement, dgk: concat([dgk]) }
}

function other(field: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', `a group key's ${field} is not the one of its statement`, { field: `group-key.${field}` })
}

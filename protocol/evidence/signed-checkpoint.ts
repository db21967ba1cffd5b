import { Reader } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { HASH_BYTES } from '../session/chain.ts'
import { CHECKPOINT_BYTES, type CheckpointSubject, verifyCheckpoint } from '../session/checkpoint.ts'

/** A checkpoint taken apart without knowing its session: what a third party has (protocol/README.md §6, Checkpoint). */
export interface SignedCheckpoint extends CheckpointSubject {
  seq: bigint
  /** chain hash, 32 bytes */
  hash: Uint8Array
  /** as received, 185 bytes */
  bytes: Uint8Array
}

/**
 * Reads a checkpoint and checks its signature under the EID that it names.
 * @param bytes - exactly 185 bytes; the fields are views of it
 * @throws ProtocolError `LENGTH`, `FIELD_INVALID` (direction), `SIGNATURE_INVALID`
 */
export function openCheckpoint(crypto: CryptoProvider, bytes: Uint8Array): SignedCheckpoint {
  if (bytes.length !== CHECKPOINT_BYTES) {
    throw new ProtocolError('LENGTH', `a checkpoint is ${CHECKPOINT_BYTES} bytes, not ${bytes.length}`, { field: 'checkpoint' })
  }
  const reader = new Reader(bytes)
  const sid = reader.bytes(16, 'sid')
  const epoch = reader.bytes(32, 'epoch')
  const direction = reader.u8('dir')
  if (direction !== 0 && direction !== 1) {
    throw new ProtocolError('FIELD_INVALID', `direction ${direction} is neither 0 nor 1`, { field: 'checkpoint.dir' })
  }
  const seq = reader.u64('seq')
  const hash = reader.bytes(HASH_BYTES, 'h')
  const subject: CheckpointSubject = { sid, epoch, direction, eid: reader.bytes(32, 'eid') }
  verifyCheckpoint(crypto, bytes, subject)
  return { ...subject, seq, hash, bytes }
}

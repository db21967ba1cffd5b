import { equals, Reader, Writer } from '../bytes.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import { type ChainPoint, HASH_BYTES } from './chain.ts'

export const CHECKPOINT_BYTES = 185
const SIGNED_BYTES = 121
const CHECKPOINT_CONTEXT = context('checkpoint')

/** A sending direction: 0 is that of the first handshake's initiator, for the life of the session, whoever opens it again. */
export type Direction = 0 | 1

/** Which sending direction of which session and epoch a checkpoint speaks of. */
export interface CheckpointSubject {
  /** 16 bytes */
  sid: Uint8Array
  /** th3 of the current exchange, 32 bytes */
  epoch: Uint8Array
  direction: Direction
  /** the sender of that direction, 32 bytes */
  eid: Uint8Array
}

/** sid 16 ‖ epoch 32 ‖ dir u8 ‖ seq u64 ‖ h 32 ‖ EID 32 ‖ sig 64, sig over `rookery/v1/checkpoint` ‖ 0x00 ‖ the first 121 bytes. */
export function signCheckpoint(subject: CheckpointSubject, point: ChainPoint, signer: Signer): Uint8Array {
  const writer = new Writer(CHECKPOINT_BYTES)
    .bytes(subject.sid)
    .bytes(subject.epoch)
    .u8(subject.direction)
    .u64(point.seq)
    .bytes(point.hash)
    .bytes(subject.eid)
  const signed = new Writer(CHECKPOINT_CONTEXT.length + SIGNED_BYTES)
    .bytes(CHECKPOINT_CONTEXT)
    .bytes(writer.finish().subarray(0, SIGNED_BYTES))
  return writer.bytes(signer.sign(signed.finish())).finish()
}

/**
 * Checks that the peer signed its own direction of this session and epoch.
 * @param bytes - exactly 185 bytes
 * @throws ProtocolError `LENGTH`, `FIELD_INVALID` (another session, epoch, direction or EID), `SIGNATURE_INVALID`
 */
export function verifyCheckpoint(crypto: CryptoProvider, bytes: Uint8Array, subject: CheckpointSubject): ChainPoint {
  if (bytes.length !== CHECKPOINT_BYTES) {
    throw new ProtocolError('LENGTH', `a checkpoint is ${CHECKPOINT_BYTES} bytes, not ${bytes.length}`, { field: 'checkpoint' })
  }
  const reader = new Reader(bytes)
  const expect = (field: string, expected: Uint8Array) => {
    if (!equals(reader.bytes(expected.length, field), expected)) {
      throw new ProtocolError('FIELD_INVALID', `the checkpoint names another ${field}`, { field: `checkpoint.${field}` })
    }
  }
  expect('sid', subject.sid)
  expect('epoch', subject.epoch)
  expect('dir', Uint8Array.of(subject.direction))
  const point = { seq: reader.u64('seq'), hash: reader.bytes(HASH_BYTES, 'h') }
  expect('eid', subject.eid)
  const signed = new Writer(CHECKPOINT_CONTEXT.length + SIGNED_BYTES)
    .bytes(CHECKPOINT_CONTEXT)
    .bytes(bytes.subarray(0, SIGNED_BYTES))
    .finish()
  if (!crypto.ed25519.verify(subject.eid, signed, reader.bytes(64, 'sig'))) {
    throw new ProtocolError('SIGNATURE_INVALID', "the checkpoint's signature does not verify", { field: 'checkpoint.sig' })
  }
  return point
}

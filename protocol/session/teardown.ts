import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { type ChainPoint, HASH_BYTES } from './chain.ts'
import { CHECKPOINT_BYTES } from './checkpoint.ts'

/** Why a session ends, as TEARDOWN says it. Numbers are the wire's. */
export const TEARDOWN_REASONS = {
  /** both had nothing left to say */
  done: 0,
  /** the node shuts down */
  shutdown: 1,
  /** another session or exchange of the same two takes its place */
  superseded: 2,
  unknownSession: 3,
  /** blacklist, grants or reputation */
  policy: 4,
  capacity: 5,
  contract: 6,
  /** the peer broke the protocol or contradicted itself */
  violation: 7,
  diverged: 8,
  /** this side could not do what it took on */
  failed: 9
} as const

export type TeardownReason = keyof typeof TEARDOWN_REASONS

const names = new Map<number, TeardownReason>(Object.entries(TEARDOWN_REASONS).map(([name, code]) => [code, name as TeardownReason]))

/** The reason's name, `reason-<number>` for one of a later version. */
export function teardownReasonName(code: number): string {
  return names.get(code) ?? `reason-${code}`
}

/**
 * TEARDOWN's item. A closing side gives `final`: its last transaction, the chain after it, and its checkpoint. A side that refuses or breaks off
 * (POLICY, UNKNOWN_SESSION, SUPERSEDED, VIOLATION …) leaves them out.
 */
export interface Teardown {
  reason: number
  final: (ChainPoint & { checkpoint: Uint8Array }) | undefined
}

/** reason u16 ‖ [final tx seq u64 ‖ final tx hash 32 ‖ checkpoint 185]: 227 bytes, or 2. */
export function encodeTeardown(teardown: Teardown): Uint8Array {
  const writer = new Writer(2 + 8 + HASH_BYTES + CHECKPOINT_BYTES).u16(teardown.reason)
  const { final } = teardown
  if (final !== undefined) writer.u64(final.seq).bytes(final.hash).bytes(final.checkpoint)
  return writer.finish()
}

/** @throws ProtocolError `TRUNCATED`, `TRAILING_BYTES` */
export function decodeTeardown(payload: Uint8Array): Teardown {
  const reader = new Reader(payload)
  const reason = reader.u16('reason')
  if (reader.remaining === 0) return { reason, final: undefined }
  const final = {
    seq: reader.u64('finalSeq'),
    hash: reader.bytes(HASH_BYTES, 'finalHash'),
    checkpoint: reader.bytes(CHECKPOINT_BYTES, 'checkpoint')
  }
  reader.end('TEARDOWN')
  return { reason, final }
}

export function refusal(reason: TeardownReason): Uint8Array {
  return encodeTeardown({ reason: TEARDOWN_REASONS[reason], final: undefined })
}

/** @throws ProtocolError `SEQUENCE`, `HASH_MISMATCH`: the terminal checksum is not the one that this side computed (TRM-03) */
export function checkFinal(final: ChainPoint, held: ChainPoint, same: (a: Uint8Array, b: Uint8Array) => boolean): void {
  if (final.seq !== held.seq) {
    throw new ProtocolError('SEQUENCE', `TEARDOWN ends at ${final.seq}, ${held.seq} transactions arrived`, { field: 'finalSeq' })
  }
  if (!same(final.hash, held.hash)) {
    throw new ProtocolError('HASH_MISMATCH', 'the terminal checksum differs from what arrived', { field: 'finalHash' })
  }
}

import { equals } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { dsId } from '../discovery/names.ts'
import { ProtocolError } from '../errors.ts'
import type { Eid } from '../identity/eid.ts'
import { type Announce, announceType } from '../records/announce.ts'
import { decodeRecord, type RecordPayload, type RecordType, type SignedRecord, verifySignature } from '../records/envelope.ts'
import { locatorType } from '../records/locator.ts'
import { mailType } from '../records/mail.ts'
import { GROUP_OP_SIGNED_BYTES, openGroupOpHead, samePlace } from './group-op-head.ts'
import { openCheckpoint } from './signed-checkpoint.ts'

/** What an identity can contradict itself in (protocol/README.md §8). */
export const EVIDENCE_KINDS = ['locator', 'checkpoint', 'announce', 'group', 'mail'] as const
export type EvidenceKind = (typeof EVIDENCE_KINDS)[number]

/** Two complete signed items of one signer, as they were received, that cannot both be honest. */
export interface Evidence {
  readonly target: Eid
  readonly kind: EvidenceKind
  readonly a: Uint8Array
  readonly b: Uint8Array
}

/**
 * Whether the evidence proves anything. Needs no other knowledge, no clock and no word of the accuser: so all who check it agree.
 * Each item must be whole, in its one encoding, of the kind named, and signed by the target; their times are not looked at. Then their payloads
 * must contradict each other: one `gen`; one session, epoch, direction and seq; one DS_ID and seq; one gid, run and n – with other content.
 * @throws ProtocolError of the item's codec (`TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `RECORD_KIND`, `FIELD_…`, `LENGTH`, …),
 *   `EVIDENCE_TARGET` (an item of somebody else), `SIGNATURE_INVALID`, `EVIDENCE_SAME` (one payload twice), `EVIDENCE_NO_CONFLICT`
 */
export function verifyEvidence(crypto: CryptoProvider, evidence: Evidence): void {
  const { target, a, b } = evidence
  switch (evidence.kind) {
    case 'locator':
    case 'mail': {
      const [one, two] = records(crypto, evidence.kind === 'mail' ? mailType : locatorType, target, a, b)
      samePoint(one.payload.gen === two.payload.gen, 'generations', 'gen')
      break
    }
    case 'announce': {
      const [one, two] = records(crypto, announceType, target, a, b)
      const sameSpace = equals(announcedId(crypto, one.payload), announcedId(crypto, two.payload))
      samePoint(sameSpace && one.payload.seq === two.payload.seq, 'spaces or numbers', 'seq')
      break
    }
    case 'checkpoint': {
      const [one, two] = [openCheckpoint(crypto, a), openCheckpoint(crypto, b)]
      named(target, one.eid, 'a')
      named(target, two.eid, 'b')
      const sameRun = equals(one.sid, two.sid) && equals(one.epoch, two.epoch) && one.direction === two.direction
      samePoint(sameRun && one.seq === two.seq, 'sessions, epochs, directions or numbers', 'seq')
      differ(one.hash, two.hash)
      break
    }
    case 'group': {
      const [one, two] = [openGroupOpHead(crypto, a), openGroupOpHead(crypto, b)]
      named(target, one.writer, 'a')
      named(target, two.writer, 'b')
      samePoint(samePlace(one, two), 'groups, runs or numbers', 'n')
      differ(a.subarray(0, GROUP_OP_SIGNED_BYTES), b.subarray(0, GROUP_OP_SIGNED_BYTES))
      break
    }
  }
}

function records<K extends string, P extends RecordPayload>(
  crypto: CryptoProvider,
  type: RecordType<K, P>,
  target: Eid,
  a: Uint8Array,
  b: Uint8Array
): [SignedRecord<K, P>, SignedRecord<K, P>] {
  const one = decodeRecord(type, a)
  const two = decodeRecord(type, b)
  named(target, type.signer(one.payload), 'a')
  named(target, type.signer(two.payload), 'b')
  differ(one.payloadBytes, two.payloadBytes)
  verifySignature(crypto, type, one)
  verifySignature(crypto, type, two)
  return [one, two]
}

function named(target: Eid, signer: Uint8Array, field: 'a' | 'b'): void {
  if (!equals(target, signer)) throw new ProtocolError('EVIDENCE_TARGET', `item ${field} is of another signer than the target`, { field })
}

function differ(a: Uint8Array, b: Uint8Array): void {
  if (equals(a, b)) throw new ProtocolError('EVIDENCE_SAME', 'both items say the same', { field: 'b' })
}

function samePoint(same: boolean, what: string, field: string): void {
  if (!same) throw new ProtocolError('EVIDENCE_NO_CONFLICT', `the items are of different ${what}, so both may be honest`, { field })
}

function announcedId(crypto: CryptoProvider, { ns, topic, ver }: Announce): Uint8Array {
  return dsId(crypto, { ns, topic, version: ver })
}

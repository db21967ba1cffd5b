import { mailKey } from '../discovery/dht-key.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { bytes32Item, RECORD_BYTES_MAX, type RecordPayload, type RecordType, type SignedRecord } from './envelope.ts'
import { LOCATOR_KEEPERS_MAX } from './locator.ts'
import { byGeneration, type Selection } from './selection.ts'

/** A week: it outlives the locator of an agent whose host is off. */
export const MAIL_TTL_SEC = 7 * 86_400

/** What to seal to and who keeps mail for an agent, when nobody can say any more where it is (protocol/README.md §3, `mail`). */
export interface Mail extends RecordPayload {
  readonly eid: Eid
  /** X25519 key that objects for this agent are sealed to, 32 bytes */
  readonly mbox: Uint8Array
  /** EIDs of nodes that hold mail by this agent's wish, at most 4 */
  readonly keepers: readonly Eid[]
  /** generation, see `nextSequence`; counted apart from the locator's */
  readonly gen: number
}

export type MailRecord = SignedRecord<'mail', Mail>

export const mailType: RecordType<'mail', Mail> = {
  kind: 'mail',
  bytesMax: RECORD_BYTES_MAX,
  ttlSec: MAIL_TTL_SEC,
  toCbor: (p) => ({ eid: p.eid, mbox: p.mbox, keepers: [...p.keepers], gen: p.gen }),
  fromCbor: (fields, times) => ({
    eid: eid(fields.bytes('eid', { length: 32 })),
    mbox: fields.bytes('mbox', { length: 32 }),
    keepers: fields.list('keepers', { max: LOCATOR_KEEPERS_MAX }, bytes32Item('mail.keepers')).map(eid),
    gen: fields.uint('gen'),
    ...times
  }),
  signer: (p) => p.eid,
  sequence: (p) => p.gen,
  dhtKey: (_, p) => mailKey(p.eid)
}

/** The end of this EID's mail, for good: no later generation takes it back. */
export function mailTombstone(last: Mail, { gen, nowSec }: { gen: number; nowSec: number }): Mail {
  return { ...last, keepers: [], gen, ts: nowSec, exp: nowSec + MAIL_TTL_SEC, gone: true }
}

/** As for locators: `gone` for good, then the higher generation. Both records are valid and of one EID. */
export function selectMail(held: MailRecord, offered: MailRecord): Selection {
  return byGeneration(held, offered)
}

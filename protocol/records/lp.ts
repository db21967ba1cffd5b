import { TAG } from '../discovery/names.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { type RecordPayload, type RecordType, type SignedRecord, textItem } from './envelope.ts'
import { TAG_BYTES_MAX } from './join.ts'
import { ADDR, ADDR_BYTES_MAX } from './locator.ts'

/** Twice as long as the pause between two announcements on the link. */
export const LP_TTL_SEC = 120
/** Fits one mDNS packet. */
export const LP_BYTES_MAX = 1_024
export const LP_ADDRS_MAX = 4
const ACCESS = /^[a-z0-9-]{1,32}$/
const PEER = /^[1-9A-HJ-NP-Za-km-z]+$/

/** A local point: an endpoint of an agent on this link alone. No DHT key leads to one and no registry set takes one (protocol/README.md §5). */
export interface Lp extends RecordPayload {
  readonly eid: Eid
  readonly tag: string
  readonly access: string
  /** PeerId, base58 text */
  readonly peer: string
  /** multiaddr texts of this link, at most 4 */
  readonly addrs: readonly string[]
}

export type LpRecord = SignedRecord<'lp', Lp>

export const lpType: RecordType<'lp', Lp> = {
  kind: 'lp',
  bytesMax: LP_BYTES_MAX,
  ttlSec: LP_TTL_SEC,
  toCbor: (p) => ({ eid: p.eid, tag: p.tag, access: p.access, peer: p.peer, addrs: [...p.addrs] }),
  fromCbor: (fields, times) => ({
    eid: eid(fields.bytes('eid', { length: 32 })),
    tag: fields.text('tag', { bytesMax: TAG_BYTES_MAX, pattern: TAG }),
    access: fields.text('access', { bytesMax: 32, pattern: ACCESS }),
    peer: fields.text('peer', { bytesMax: 64, pattern: PEER }),
    addrs: fields.list('addrs', { max: LP_ADDRS_MAX }, textItem('lp.addrs', ADDR_BYTES_MAX, ADDR)),
    ...times
  }),
  signer: (p) => p.eid,
  sequence: () => undefined,
  dhtKey: () => undefined
}

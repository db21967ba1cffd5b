import { equals } from '../bytes.ts'
import type { CborFields } from '../cbor.ts'
import { announceKey } from '../discovery/dht-key.ts'
import { dsId, SHARDS_MAX, spaceName, VERSION_MAX } from '../discovery/names.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { RECORD_BYTES_MAX, type RecordPayload, type RecordType, type SignedRecord, textItem } from './envelope.ts'
import { ADDR, ADDR_BYTES_MAX } from './locator.ts'
import { byNumber, type Selection } from './selection.ts'

export const ANNOUNCE_TTL_SEC = 86_400
export const DESC_BYTES_MAX = 256
export const SEEDS_MAX = 8
/** Anyone may join. The one policy that version 1 gives a meaning; a node does not join under a word that it does not know. */
export const POLICY_OPEN = 'open'
const POLICY = /^[a-z0-9-]{1,32}$/

/** A curator and a version of the same ns/topic: where a space came from or went to. */
export interface SpaceLink {
  readonly eid: Eid
  readonly ver: number
}

/** DS_ANNOUNCE (protocol/README.md §3, `announce`): that a space exists, and who speaks for it. */
export interface Announce extends RecordPayload {
  readonly ns: string
  readonly topic: string
  readonly ver: number
  /** for people, at most 256 bytes of UTF-8 */
  readonly desc: string
  readonly curator: Eid
  readonly prev?: SpaceLink
  readonly next?: SpaceLink
  /** multiaddr texts of peers to start from, at most 8 */
  readonly seeds: readonly string[]
  readonly policy: string
  /** over how many registry keys the members are spread, 1 to 256 */
  readonly shards: number
  readonly seq: number
}

export type AnnounceRecord = SignedRecord<'announce', Announce>

export const announceType: RecordType<'announce', Announce> = {
  kind: 'announce',
  bytesMax: RECORD_BYTES_MAX,
  ttlSec: ANNOUNCE_TTL_SEC,
  toCbor: (p) => ({
    ns: p.ns,
    topic: p.topic,
    ver: p.ver,
    desc: p.desc,
    curator: p.curator,
    prev: p.prev && { ...p.prev },
    next: p.next && { ...p.next },
    seeds: [...p.seeds],
    policy: p.policy,
    shards: p.shards,
    seq: p.seq
  }),
  fromCbor: (fields, times) => {
    const words = {
      ns: fields.text('ns', { bytesMax: 256 }),
      topic: fields.text('topic', { bytesMax: 256 }),
      version: fields.uint('ver', { min: 1, max: VERSION_MAX })
    }
    const name = spaceName(words)
    const prev = fields.optional('prev', (member) => readLink(fields.map(member)))
    const next = fields.optional('next', (member) => readLink(fields.map(member)))
    return {
      ns: name.ns,
      topic: name.topic,
      ver: name.version,
      desc: fields.text('desc', { bytesMax: DESC_BYTES_MAX }),
      curator: eid(fields.bytes('curator', { length: 32 })),
      ...(prev === undefined ? {} : { prev }),
      ...(next === undefined ? {} : { next }),
      seeds: fields.list('seeds', { max: SEEDS_MAX }, textItem('announce.seeds', ADDR_BYTES_MAX, ADDR)),
      policy: fields.text('policy', { bytesMax: 32, pattern: POLICY }),
      shards: fields.uint('shards', { min: 1, max: SHARDS_MAX }),
      seq: fields.uint('seq'),
      ...times
    }
  },
  signer: (p) => p.curator,
  sequence: (p) => p.seq,
  dhtKey: (crypto, p) => announceKey(dsId(crypto, { ns: p.ns, topic: p.topic, version: p.ver }))
}

/** Takes the announcement back; a higher `seq` of the same curator may announce the space anew. */
export function announceTombstone(last: Announce, { seq, nowSec, next }: { seq: number; nowSec: number; next?: SpaceLink }): Announce {
  return { ...last, seeds: [], seq, ts: nowSec, exp: nowSec + ANNOUNCE_TTL_SEC, gone: true, ...(next === undefined ? {} : { next }) }
}

/** True when `from` names `to` in `next` and is named by it in `prev`: only both signers together hand a space over. */
export function isHandover(from: Announce, to: Announce): boolean {
  if (from.next === undefined || to.prev === undefined || from.ns !== to.ns || from.topic !== to.topic) return false
  return from.next.ver === to.ver && equals(from.next.eid, to.curator) && to.prev.ver === from.ver && equals(to.prev.eid, from.curator)
}

/**
 * One curator: the higher `seq`. Another curator: the held one stays while it lives, unless it handed the space over.
 * Both records are valid now and of one DS_ID; an expired one is not held any more.
 */
export function selectAnnounce(held: AnnounceRecord, offered: AnnounceRecord): Selection {
  const [h, o] = [held.payload, offered.payload]
  if (equals(h.curator, o.curator)) {
    return byNumber({ number: h.seq, bytes: held.payloadBytes }, { number: o.seq, bytes: offered.payloadBytes }, 'equivocation')
  }
  if (isHandover(h, o) && !isHandover(o, h)) return { winner: 'offered', reason: 'handed-over' }
  if (h.gone === true && o.gone === undefined && !isHandover(o, h)) return { winner: 'offered', reason: 'gone' }
  return { winner: 'held', reason: 'other-curator' }
}

function readLink(fields: CborFields): SpaceLink {
  const link = { eid: eid(fields.bytes('eid', { length: 32 })), ver: fields.uint('ver', { min: 1, max: VERSION_MAX }) }
  fields.end()
  return link
}

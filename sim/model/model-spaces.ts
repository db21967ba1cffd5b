import { announceKey, joinKey } from '../../protocol/discovery/dht-key.ts'
import { type DsId, dsId, parseSpaceName, prefixId } from '../../protocol/discovery/names.ts'
import { ANNOUNCE_TTL_SEC, announceType, POLICY_OPEN, selectAnnounce } from '../../protocol/records/announce.ts'
import { buildRecord, openRecord, recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, type JoinRecord, joinTombstone, joinType, selectJoin } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { Bug } from './bugs.ts'
import { cheapCrypto } from './cheap-crypto.ts'
import type { LookupResult } from './lookup.ts'
import { type ModelNetwork, placeOfKey } from './model-network.ts'
import type { ModelNode } from './model-node.ts'

/** Members that one registrar's pages bring in one search */
const SHOWN_MAX = 1_000
/** A look-up of the same key within this time goes to the same registrars (`src/spaces/recent-registrars.ts`). */
const RECENT_MS = 10_000

interface Space {
  name: string
  dsid: DsId
  place: { hi: number; lo: number }
  parentPlace: { hi: number; lo: number }
  parentKey: string
}

export interface SearchResult {
  /** different members that it showed */
  members: number
  hops: number
  tookMs: number
  /** the earliest end of the records shown, infinite where there are none */
  expiresAtMs: number
}

/** Announcing, joining and searching in the model, with the protocol's own records: built, opened and selected as the product does. */
export class ModelSpaces {
  readonly #network: ModelNetwork
  readonly #bug: Bug | undefined
  readonly #epochMs: number
  readonly #spaces = new Map<string, Space>()

  #searches = 0
  /** the newest search that showed each node */
  readonly #shownIn: Uint32Array

  constructor(network: ModelNetwork, { epochMs, bug }: { epochMs: number; bug: Bug | undefined }) {
    this.#network = network
    this.#bug = bug
    this.#epochMs = epochMs
    this.#shownIn = new Uint32Array(network.nodes.length)
  }

  #space(name: string): Space {
    let space = this.#spaces.get(name)
    if (space === undefined) {
      const parsed = parseSpaceName(name)
      const dsid = dsId(nodeCrypto, parsed)
      const parent = parsed.topic.includes('.') ? parsed.topic.slice(0, parsed.topic.lastIndexOf('.')) : parsed.topic
      const prefix = prefixId(nodeCrypto, parsed.ns, parent)
      space = {
        name,
        dsid,
        place: placeOfKey(nodeCrypto.sha256(dsid)),
        parentPlace: placeOfKey(nodeCrypto.sha256(prefix)),
        parentKey: hex(prefix)
      }
      this.#spaces.set(name, space)
    }
    return space
  }

  /** @returns registrars that took it, and the time */
  announce(node: ModelNode, name: string, nowMs: number): { stored: number; tookMs: number } {
    const space = this.#space(name)
    const { ns, topic, version } = parseSpaceName(name)
    const ts = this.#sec(nowMs)
    const payload = {
      ns,
      topic,
      ver: version,
      desc: '',
      curator: node.eid,
      seeds: [],
      policy: POLICY_OPEN,
      shards: 1,
      seq: this.#wall(nowMs)
    }
    const record = buildRecord(cheapCrypto, announceType, { ...payload, ts, exp: ts + ANNOUNCE_TTL_SEC }, node.signer)
    let stored = 0
    let tookMs = 0
    for (const [place, key] of [
      [space.place, hex(space.dsid)],
      [space.parentPlace, space.parentKey]
    ] as const) {
      const found = this.#registrars(node, key, place, nowMs)
      const put = this.#each(node, found.nodes, (registrar) => {
        const held = registrar.set(key).announcements
        const before = held.get(node.index)
        const opened = openRecord(cheapCrypto, announceType, record.bytes, { nowMs: this.#wall(nowMs) })
        if (before === undefined || selectAnnounce(before, opened).winner === 'offered') held.set(node.index, opened)
      })
      stored += put.answered
      tookMs = Math.max(tookMs, found.tookMs + put.tookMs)
    }
    const dht = this.#inDht(node, announceKey(space.dsid), 'first')
    return { stored, tookMs: Math.max(tookMs, dht.tookMs) }
  }

  /** @param time - at first its number is read from the DHT too, lest it be lower than one of an earlier life */
  join(node: ModelNode, name: string, nowMs: number, time: 'first' | 'again'): { stored: number; tookMs: number } {
    const space = this.#space(name)
    const ts = this.#sec(nowMs)
    const found = this.#registrars(node, hex(space.dsid), space.place, nowMs)
    const curator = this.#curatorOf(node, found.nodes, space)
    if (curator === undefined) return { stored: 0, tookMs: found.tookMs }
    const payload = {
      dsid: space.dsid,
      eid: node.eid,
      curator: curator.eid,
      tags: [],
      mode: node.reachability.mode,
      seq: this.#wall(nowMs)
    }
    const record = buildRecord(cheapCrypto, joinType, { ...payload, ts, exp: ts + JOIN_TTL_SEC }, node.signer)
    const put = this.#put(node, found.nodes, space, record.bytes, nowMs)
    const dht = this.#inDht(node, joinKey(space.dsid, node.eid), time)
    return { stored: put.answered, tookMs: Math.max(found.tookMs + put.tookMs, dht.tookMs) }
  }

  leave(node: ModelNode, name: string, nowMs: number): { stored: number; tookMs: number } {
    const space = this.#space(name)
    const found = this.#registrars(node, hex(space.dsid), space.place, nowMs)
    const held = found.nodes
      .map((one) => this.#network.node(one).sets.get(hex(space.dsid))?.joins.get(node.index))
      .find((one) => one !== undefined)
    if (held === undefined) return { stored: 0, tookMs: found.tookMs }
    const gone = joinTombstone(held.payload, { seq: this.#wall(nowMs), nowSec: this.#sec(nowMs) })
    const put = this.#put(node, found.nodes, space, buildRecord(cheapCrypto, joinType, gone, node.signer).bytes, nowMs)
    return { stored: put.answered, tookMs: found.tookMs + put.tookMs }
  }

  #put(
    node: ModelNode,
    registrars: readonly number[],
    space: Space,
    bytes: Uint8Array,
    nowMs: number
  ): { answered: number; tookMs: number } {
    const key = hex(space.dsid)
    return this.#each(node, registrars, (registrar) => {
      if (this.#bug === 'loses-joins') return
      const held = registrar.set(key).joins
      const before = held.get(node.index)
      if (before !== undefined && this.#bug === 'suspects-repeats') registrar.blacklist.add(node.index)
      const opened = openRecord(cheapCrypto, joinType, bytes, { nowMs: this.#wall(nowMs) })
      if (before === undefined || selectJoin(before, opened).winner === 'offered') held.set(node.index, opened)
    })
  }

  search(node: ModelNode, name: string, by: 'topic' | 'parent' | 'anonymous', nowMs: number): SearchResult {
    const space = this.#space(name)
    const key = hex(space.dsid)
    let hops = 0
    let tookMs = 0
    if (by === 'parent') {
      const parent = this.#registrars(node, space.parentKey, space.parentPlace, nowMs)
      const listed = this.#each(node, parent.nodes, () => {})
      hops = Math.max(0, ...parent.hops)
      tookMs += parent.tookMs + listed.tookMs
      const isKnown = parent.nodes.some((one) => (this.#network.node(one).sets.get(space.parentKey)?.announcements.size ?? 0) > 0)
      if (!isKnown) return { members: 0, hops, tookMs, expiresAtMs: Number.POSITIVE_INFINITY }
    }
    const found = this.#registrars(node, key, space.place, nowMs)
    hops = Math.max(hops, ...found.hops)
    tookMs += found.tookMs
    const search = ++this.#searches
    let members = 0
    let expiresAtMs = Number.POSITIVE_INFINITY
    const wall = this.#wall(nowMs)
    const listed = this.#each(node, found.nodes, (registrar) => {
      let shown = 0
      for (const [member, record] of registrar.sets.get(key)?.joins ?? []) {
        if (!this.#isLive(record, wall)) continue
        if (shown++ >= SHOWN_MAX) break
        if (this.#shownIn[member] === search) continue
        this.#shownIn[member] = search
        members++
        expiresAtMs = Math.min(expiresAtMs, recordExpiresAtMs(record))
      }
    })
    // announcements first, then the members of whom they name
    return { members, hops, tookMs: tookMs + 2 * listed.tookMs, expiresAtMs }
  }

  #isLive(record: JoinRecord, wallMs: number): boolean {
    if (record.payload.gone === true) return false
    return this.#bug === 'serves-expired' || recordExpiresAtMs(record) > wallMs
  }

  /** Registrars let go of what has ended; a node that came takes over from its neighbours what it has become a registrar of. */
  takeOver(node: ModelNode): void {
    const own = this.#network.placeOf(node.index)
    for (const peer of node.table.closest(own.hi, own.lo, this.#network.k)) {
      const other = this.#network.node(peer)
      if (!other.isUp || !this.#network.link.reaches(node.index, peer)) continue
      for (const [key, { announcements, joins }] of other.sets) {
        const mine = node.set(key)
        for (const [who, record] of announcements) {
          const before = mine.announcements.get(who)
          if (before === undefined || selectAnnounce(before, record).winner === 'offered') mine.announcements.set(who, record)
        }
        for (const [who, record] of joins) {
          const before = mine.joins.get(who)
          if (before === undefined || selectJoin(before, record).winner === 'offered') mine.joins.set(who, record)
        }
      }
    }
  }

  sweep(node: ModelNode, nowMs: number): void {
    if (this.#bug === 'serves-expired') return
    const wall = this.#wall(nowMs)
    for (const [key, set] of node.sets) {
      for (const [who, record] of set.joins) if (recordExpiresAtMs(record) <= wall) set.joins.delete(who)
      for (const [who, record] of set.announcements) if (recordExpiresAtMs(record) <= wall) set.announcements.delete(who)
      if (set.joins.size + set.announcements.size === 0) node.sets.delete(key)
    }
  }

  #registrars(node: ModelNode, key: string, place: { hi: number; lo: number }, nowMs: number): LookupResult {
    const recent = node.recent.get(key)
    if (recent !== undefined && nowMs - recent.atMs < RECENT_MS) return { ...recent.found, tookMs: 0 }
    for (const [old, { atMs }] of node.recent) if (nowMs - atMs >= RECENT_MS) node.recent.delete(old)
    const found = this.#network.nearest(node.index, place)
    node.recent.set(key, { found, atMs: nowMs })
    return found
  }

  /** The copy of a record that lies in the DHT: read, at first, and put; what the model's searches read are the registrars' sets. */
  #inDht(node: ModelNode, key: Uint8Array, time: 'first' | 'again'): { tookMs: number } {
    const place = placeOfKey(nodeCrypto.sha256(key))
    let tookMs = 0
    for (let round = time === 'first' ? 0 : 1; round < 2; round++) {
      const found = this.#network.nearest(node.index, place)
      tookMs += found.tookMs + this.#each(node, found.nodes, () => {}).tookMs
    }
    return { tookMs }
  }

  #curatorOf(node: ModelNode, registrars: readonly number[], space: Space): ModelNode | undefined {
    for (const one of registrars) {
      if (!this.#network.isUp(one) || !this.#network.link.reaches(node.index, one)) continue
      for (const who of this.#network.node(one).sets.get(hex(space.dsid))?.announcements.keys() ?? []) return this.#network.node(who)
    }
    return undefined
  }

  /** Asks all of them at once; the slowest answer ends it. Whoever asks is a registrar too where it is among the nearest. */
  #each(node: ModelNode, registrars: readonly number[], work: (registrar: ModelNode) => void): { answered: number; tookMs: number } {
    let answered = 0
    let tookMs = 0
    for (const index of registrars) {
      if (!this.#network.isUp(index)) continue
      const roundTrip = this.#network.roundTripMs(node.index, index)
      if (roundTrip === undefined) continue
      this.#network.rpcs++
      answered++
      tookMs = Math.max(tookMs, roundTrip)
      work(this.#network.node(index))
    }
    return { answered, tookMs }
  }

  #wall(nowMs: number): number {
    return Math.floor(this.#epochMs + nowMs)
  }

  #sec(nowMs: number): number {
    return Math.floor(this.#wall(nowMs) / 1_000)
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}

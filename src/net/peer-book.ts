import type { Address, Peer, PeerData, PeerId, PeerInfo, PeerQuery, PeerStore, PeerUpdate, Tag, TagOptions } from '@libp2p/interface'
import { InvalidParametersError, NotFoundError } from '@libp2p/interface'
import { peerIdFromPublicKey } from '@libp2p/peer-id'
import type { Multiaddr } from '@multiformats/multiaddr'
import type { Clock } from '../platform/clock.ts'
import { peerName, samePeerId, sharedAddr, sharedList } from './shared-values.ts'

/** Peers that the book holds; of those without a connection the one unheard of for longest goes first, however many names somebody tells. */
export const PEERS_MAX = 10_000
/** Addresses of one peer: those it signed for stay, of the others the latest told. */
export const ADDRS_MAX = 32
/** An address that nobody told for so long, and whose peer was not heard of, is not shown, */
const ADDR_MS = 3_600_000
/** and a peer unheard of for so long and without an address is forgotten. */
const PEER_MS = 21_600_000
/** What libp2p notes of each dial and nobody reads */
const UNREAD: readonly string[] = ['last-dial-success', 'last-dial-failure']
const NO_METADATA: Map<string, Uint8Array> = new Map()
const NO_TAGS: Map<string, KeptTag> = new Map()

interface KeptAddress extends Address {
  readonly text: string
  /** when it was last told, or its peer last heard of */
  seenAtMs: number
}

interface KeptTag extends Tag {
  readonly untilMs?: number
}

/** Never changed, but for its addresses' times: a change makes another. */
interface Row extends Peer {
  readonly addresses: KeptAddress[]
  readonly tags: Map<string, KeptTag>
}

interface Entry {
  row: Row
  heardAtMs: number
}

export interface PeerBookInit {
  self: PeerId
  clock: Clock
  /** whether there is a connection: such a peer is where it said it is, however long ago that was */
  isConnected(peer: PeerId): boolean
  /** whether an address may be kept */
  isAllowed(addr: Multiaddr): boolean
  /** told of each change of what is known of a peer */
  changed(change: PeerUpdate, isSelf: boolean): void
}

type Mode = 'merge' | 'patch' | 'save'

/**
 * What is known of peers, as libp2p asks for it. Its own store keeps each peer encoded in a datastore, which ours holds in memory alone: it reads, decodes,
 * merges, sorts by collation, encodes and writes a row for every stream that opens and every name in an answer, the most costly part of a look-up.
 * Here a row is an object, and what changes nothing writes nothing. An address that is told again counts anew; libp2p's store goes on counting from the
 * first time, so that an hour later nobody is told of a peer that is connected all the while.
 */
export class PeerBook {
  readonly #init: PeerBookInit
  readonly #own: string
  readonly #entries = new Map<string, Entry>()

  constructor(init: PeerBookInit) {
    this.#init = init
    this.#own = peerName(init.self)
  }

  get size(): number {
    return this.#entries.size
  }

  peer(id: PeerId): Peer | undefined {
    return this.#shown(peerName(id))
  }

  async has(id: PeerId): Promise<boolean> {
    return this.peer(id) !== undefined
  }

  /** @throws NotFoundError */
  async get(id: PeerId): Promise<Peer> {
    const peer = this.peer(id)
    if (peer === undefined) throw new NotFoundError('the peer is not known')
    return peer
  }

  /** @throws NotFoundError */
  async getInfo(id: PeerId): Promise<PeerInfo> {
    const peer = await this.get(id)
    return { id: peer.id, multiaddrs: peer.addresses.map(({ multiaddr }) => multiaddr) }
  }

  async delete(id: PeerId): Promise<void> {
    const name = peerName(id)
    if (name !== this.#own) this.#entries.delete(name)
  }

  async all({ filters = [], orders = [], offset = 0, limit }: PeerQuery = {}): Promise<Peer[]> {
    const peers = [...this.#entries.keys()].flatMap((name) => (name === this.#own ? [] : (this.#shown(name) ?? [])))
    const wanted = peers.filter((peer) => filters.every((filter) => filter(peer)))
    for (const order of orders) wanted.sort(order)
    return wanted.slice(offset, limit === undefined ? undefined : offset + limit)
  }

  async forEach(call: (peer: Peer) => void, query?: PeerQuery): Promise<void> {
    for (const peer of await this.all(query)) call(peer)
  }

  async save(id: PeerId, data: PeerData): Promise<Peer> {
    return this.#change(id, data, 'save')
  }

  async patch(id: PeerId, data: PeerData): Promise<Peer> {
    return this.#change(id, data, 'patch')
  }

  async merge(id: PeerId, data: PeerData): Promise<Peer> {
    return this.#change(id, data, 'merge')
  }

  /** Without what is out of date. */
  #shown(name: string): Row | undefined {
    const entry = this.#entries.get(name)
    if (entry === undefined) return undefined
    const { row } = entry
    const nowMs = this.#init.clock.monotonicMs()
    const isFresh = ({ seenAtMs }: KeptAddress) => nowMs - seenAtMs < ADDR_MS
    const isSelf = name === this.#own
    let { addresses } = row
    if (!isSelf && !addresses.every(isFresh)) {
      if (this.#init.isConnected(row.id)) {
        entry.heardAtMs = nowMs
        for (const address of addresses) address.seenAtMs = nowMs
      } else addresses = addresses.filter(isFresh)
    }
    if (addresses.length === 0 && !isSelf && nowMs - entry.heardAtMs > PEER_MS) {
      this.#entries.delete(name)
      return undefined
    }
    const tags = [...row.tags.values()].every((tag) => isRunning(tag, nowMs))
      ? row.tags
      : new Map([...row.tags].filter(([, tag]) => isRunning(tag, nowMs)))
    if (addresses !== row.addresses || tags !== row.tags) entry.row = { ...row, addresses, tags }
    return entry.row
  }

  #change(id: PeerId, data: PeerData, mode: Mode): Peer {
    if (data.publicKey !== undefined && !id.equals(data.publicKey.toMultihash().bytes)) {
      throw new InvalidParametersError('the public key is not that of the peer')
    }
    const name = peerName(id)
    const nowMs = this.#init.clock.monotonicMs()
    const previous = this.#shown(name)
    const before = mode === 'save' ? undefined : previous
    // who opens a stream or says who it is has not moved since
    if (data.protocols !== undefined) for (const address of before?.addresses ?? []) address.seenAtMs = nowMs
    // the same object for all who hold the peer: its text is made once
    const shared = before?.id ?? (data.publicKey === undefined ? samePeerId(id) : peerIdFromPublicKey(data.publicKey))
    const row: Row = {
      id: shared,
      addresses: this.#addresses(shared, before?.addresses, data, mode, nowMs),
      protocols: protocolsOf(before?.protocols, data.protocols, mode),
      metadata: metadataOf(before?.metadata, data.metadata, mode),
      tags: tagsOf(before?.tags, data.tags, mode, nowMs),
      ...envelopeOf(before, data)
    }
    const changed = previous === undefined || !isSame(previous, row)
    this.#entries.delete(name)
    this.#entries.set(name, { row: changed ? row : previous, heardAtMs: nowMs })
    if (this.#entries.size > PEERS_MAX) this.#forgetOldest()
    if (changed) this.#init.changed({ peer: row, ...(previous === undefined ? {} : { previous }) }, name === this.#own)
    return changed ? row : previous
  }

  /** Connections are far fewer than the book's peers; each that is met on the way counts as heard of, and is not met again soon. */
  #forgetOldest(): void {
    for (let tries = 0; tries < PEERS_MAX; tries++) {
      const [name, entry] = this.#entries.entries().next().value as [string, Entry]
      this.#entries.delete(name)
      if (name !== this.#own && !this.#init.isConnected(entry.row.id)) return
      this.#entries.set(name, entry)
    }
  }

  #addresses(id: PeerId, before: KeptAddress[] | undefined, data: PeerData, mode: Mode, nowMs: number): KeptAddress[] {
    const { addresses, multiaddrs } = data
    if (addresses === undefined && multiaddrs === undefined) return before ?? []
    const suffix = `/p2p/${id}`
    const kept = new Map(mode === 'merge' ? before?.map((one) => [one.text, one]) : [])
    let isOther = mode !== 'merge' || before === undefined
    const tell = (addr: Multiaddr, isCertified: boolean) => {
      const full = addr.toString()
      const text = full.endsWith(suffix) && full.length > suffix.length ? full.slice(0, -suffix.length) : full
      const known = kept.get(text)
      if (known !== undefined && (known.isCertified || !isCertified)) {
        known.seenAtMs = nowMs
        return
      }
      if (!this.#init.isAllowed(addr)) return
      isOther = true
      kept.set(text, { multiaddr: sharedAddr(text), isCertified, text, seenAtMs: nowMs })
    }
    for (const addr of multiaddrs ?? []) tell(addr, false)
    for (const { multiaddr, isCertified } of addresses ?? []) tell(multiaddr, isCertified)
    if (!isOther) return before ?? []
    return bounded([...kept.values()]).sort((a, b) => (a.text < b.text ? -1 : Number(a.text > b.text)))
  }
}

function isRunning({ untilMs }: KeptTag, nowMs: number): boolean {
  return untilMs === undefined || untilMs > nowMs
}

function bounded(addresses: KeptAddress[]): KeptAddress[] {
  if (addresses.length <= ADDRS_MAX) return addresses
  const rank = ({ isCertified, seenAtMs }: KeptAddress) => (isCertified ? Number.POSITIVE_INFINITY : seenAtMs)
  return addresses.sort((a, b) => (rank(a) === rank(b) ? 0 : rank(b) - rank(a))).slice(0, ADDRS_MAX)
}

function protocolsOf(before: string[] = [], told: readonly string[] | undefined, mode: Mode): string[] {
  if (told === undefined || (mode === 'merge' && told.every((one) => before.includes(one)))) return before
  return sharedList([...new Set(mode === 'merge' ? [...before, ...told] : told)].sort())
}

function entriesOf<T>(told: ReadonlyMap<string, T> | Readonly<Record<string, T>>): [string, T][] {
  return told instanceof Map ? [...told] : Object.entries(told as Record<string, T>)
}

function metadataOf(before: Map<string, Uint8Array> = NO_METADATA, told: PeerData['metadata'], mode: Mode): Map<string, Uint8Array> {
  if (told === undefined) return before
  const changes = entriesOf(told).filter(([key]) => !UNREAD.includes(key))
  const after = new Map(mode === 'merge' ? before : [])
  for (const [key, value] of changes) {
    if (value === undefined || value === null) after.delete(key)
    // a view would keep the whole message that it came in
    else after.set(key, bytesEqual(before.get(key), value) ? (before.get(key) as Uint8Array) : value.slice())
  }
  if (after.size === 0) return NO_METADATA
  return isSameMap(before, after, (a, b) => a === b) ? before : after
}

function tagsOf(before: Map<string, KeptTag> = NO_TAGS, told: PeerData['tags'], mode: Mode, nowMs: number): Map<string, KeptTag> {
  if (told === undefined) return before
  const after = new Map(mode === 'merge' ? before : [])
  for (const [key, tag] of entriesOf<TagOptions | undefined>(told)) {
    if (tag === undefined || tag === null) after.delete(key)
    else {
      const value = checkedTag(key, tag)
      const known = before.get(key)
      const isKnown = known?.value === value && known.untilMs === undefined && tag.ttl === undefined
      after.set(key, isKnown ? known : { value, ...(tag.ttl === undefined ? {} : { untilMs: nowMs + tag.ttl }) })
    }
  }
  if (after.size === 0) return NO_TAGS
  return isSameMap(before, after, (a, b) => a === b) ? before : after
}

function checkedTag(name: string, { value = 0, ttl = 0 }: TagOptions): number {
  if (!Number.isInteger(value) || value < 0 || value > 100)
    throw new InvalidParametersError(`the value of tag ${name} is not from 0 to 100`)
  if (!Number.isInteger(ttl) || ttl < 0) throw new InvalidParametersError(`the time of tag ${name} is no number of milliseconds`)
  return value
}

function envelopeOf(before: Row | undefined, data: PeerData): { peerRecordEnvelope?: Uint8Array } {
  const { peerRecordEnvelope: told } = data
  const known = before?.peerRecordEnvelope
  if (told === undefined || bytesEqual(known, told)) return known === undefined ? {} : { peerRecordEnvelope: known }
  return { peerRecordEnvelope: told.slice() }
}

function isSame(a: Row, b: Row): boolean {
  return (
    (a.protocols === b.protocols || a.protocols.join() === b.protocols.join()) &&
    a.peerRecordEnvelope === b.peerRecordEnvelope &&
    (a.metadata === b.metadata || isSameMap(a.metadata, b.metadata, bytesEqual)) &&
    (a.tags === b.tags || isSameMap(a.tags, b.tags, (one, other) => one.value === other.value && one.untilMs === other.untilMs)) &&
    (a.addresses === b.addresses ||
      (a.addresses.length === b.addresses.length &&
        a.addresses.every((one, i) => one.text === b.addresses[i]?.text && one.isCertified === b.addresses[i]?.isCertified)))
  )
}

function isSameMap<T>(a: ReadonlyMap<string, T>, b: ReadonlyMap<string, T>, same: (one: T, other: T) => boolean): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.has(key) && same(value, b.get(key) as T))
}

function bytesEqual(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a?.length === b.length && a.every((byte, i) => byte === b[i])
}

const CALLS = ['has', 'get', 'getInfo', 'delete', 'all', 'forEach', 'save', 'patch', 'merge'] as const

/** Puts the book in the place of what libp2p's peer store does; everything of libp2p holds that object already. */
export function keepInBook(peerStore: PeerStore, book: PeerBook): void {
  for (const call of CALLS) Object.defineProperty(peerStore, call, { value: book[call].bind(book) })
}

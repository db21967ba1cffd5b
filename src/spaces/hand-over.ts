import { toHex } from '../../protocol/bytes.ts'
import { type RegistrySet, registryKeyName } from '../../protocol/discovery/registry-messages.ts'
import type { Host, PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'
import { eachOf, withDeadline } from './deadline.ts'
import type { RegistryClient } from './registry-client.ts'
import type { RegistryStore } from './registry-store.ts'

export interface HandOverInit {
  /** registrars of a key (protocol/README.md §4) */
  registrarsMax?: number
  /** `by-hand`: no round begins by itself */
  handOver?: 'automatic' | 'by-hand'
  /** neighbours asked for their keys in a round; those nearest to us hold most of what is ours too */
  neighboursMax?: number
}

/** New peers arrive in bursts: a round begins this long after the first, up to twice as long by chance, */
const AFTER_PEER_MS = 4_000
/** not more often than this, */
const AGAIN_MS = 5 * 60_000
/** and by itself after this, up to a fifth earlier by chance. */
const ROUND_MS = 10 * 60_000
const ROUND_MS_MAX = 5 * 60_000
const AT_ONCE = 3
/** Pages of 1,000 keys that one neighbour is asked for, and keys that a round pulls; the rest comes in the next. */
const KEY_PAGES_MAX = 10
const KEYS_MAX = 1_024
/** Neighbours that one key is pulled from */
const SOURCES_MAX = 2
/** What was pulled from a neighbour is not pulled from it again within this; the oldest memory goes first. */
const PULLED_MS = 30 * 60_000
const PULLED_MAX = 8_192

interface Wanted {
  set: RegistrySet
  key: Uint8Array
  sources: PeerAddress[]
}

/**
 * Makes this node a registrar of what it is near to: it asks its neighbours for the keys that they hold and pulls the sets of those for which
 * it is among the nearest itself, each entry verified and taken within the bounds of any PUT (protocol/README.md §4). Nobody pushes.
 */
export class HandOver {
  readonly #c: { host: Host; client: RegistryClient; local: RegistryStore; clock: Clock; random: Random; logger: Logger }
  readonly #registrarsMax: number
  readonly #neighboursMax: number
  readonly #isAutomatic: boolean
  readonly #stopping = new AbortController()
  readonly #pulledAtMs = new Map<string, number>()
  readonly #unsubscribe: () => void
  #cancelTimer: () => void = () => {}
  #dueMs = Number.POSITIVE_INFINITY
  #lastMs = Number.NEGATIVE_INFINITY
  #running: Promise<void> | undefined
  /** entries taken so far */
  taken = 0

  constructor(
    components: { host: Host; client: RegistryClient; local: RegistryStore; clock: Clock; random: Random; logger: Logger },
    init: HandOverInit = {}
  ) {
    this.#c = components
    this.#registrarsMax = init.registrarsMax ?? 20
    this.#neighboursMax = init.neighboursMax ?? 8
    this.#isAutomatic = init.handOver !== 'by-hand'
    this.#unsubscribe = components.host.onPeer(({ kind }) => {
      if (kind !== 'connect') return
      const nowMs = components.clock.monotonicMs()
      this.#dueAt(Math.max(nowMs + AFTER_PEER_MS * (1 + randomFraction(components.random)), this.#lastMs + AGAIN_MS))
    })
  }

  #dueAt(ms: number): void {
    if (!this.#isAutomatic || this.#stopping.signal.aborted || this.#running !== undefined || ms >= this.#dueMs) return
    this.#cancelTimer()
    this.#dueMs = ms
    this.#cancelTimer = this.#c.clock.after(ms - this.#c.clock.monotonicMs(), () => void this.round())
  }

  /** One round, or the one under way. Never rejects: what fails is tried in the next. */
  round(): Promise<void> {
    this.#cancelTimer()
    this.#dueMs = Number.POSITIVE_INFINITY
    this.#lastMs = this.#c.clock.monotonicMs()
    this.#running ??= withDeadline(this.#c.clock, ROUND_MS_MAX, this.#stopping.signal, (signal) => this.#round(signal))
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted) this.#c.logger.debug({ error }, 'a round of hand-over was not finished')
      })
      .finally(() => {
        this.#running = undefined
        this.#dueAt(this.#c.clock.monotonicMs() + ROUND_MS * (1 - 0.2 * randomFraction(this.#c.random)))
      })
    return this.#running
  }

  async #round(signal: AbortSignal): Promise<void> {
    const { host, logger } = this.#c
    if (host.dht.mode() === 'client') return
    const neighbours = host.dht.neighbours(this.#neighboursMax)
    const wanted = new Map<string, Wanted>()
    await eachOf(neighbours, AT_ONCE, (neighbour) => this.#quietly(neighbour, signal, () => this.#askKeys(neighbour, wanted, signal)))
    const before = this.taken
    await eachOf([...wanted.values()], AT_ONCE, async ({ set, key, sources }) => {
      for (const source of sources) await this.#quietly(source, signal, () => this.#pull(source, set, key, signal))
    })
    if (this.taken > before) logger.info({ entries: this.taken - before, keys: wanted.size }, 'took over entries from neighbours')
  }

  async #quietly(peer: PeerAddress, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      signal.throwIfAborted()
      this.#c.logger.debug({ error, registrar: peer.peer }, 'a neighbour did not hand over')
    }
  }

  async #askKeys(neighbour: PeerAddress, wanted: Map<string, Wanted>, signal: AbortSignal): Promise<void> {
    const { host, client } = this.#c
    let cursor: Uint8Array = new Uint8Array(0)
    for (let page = 0; page < KEY_PAGES_MAX; page++) {
      const { keys, next } = await client.keysAt(neighbour, cursor, { signal })
      for (const { set, key } of keys) {
        if (host.dht.closerKnown(key, this.#registrarsMax) >= this.#registrarsMax) continue
        const name = toHex(registryKeyName(set, key))
        if (this.#wasPulled(name, neighbour.peer)) continue
        const held = wanted.get(name)
        if (held === undefined && wanted.size < KEYS_MAX) wanted.set(name, { set, key: new Uint8Array(key), sources: [neighbour] })
        else if (held !== undefined && held.sources.length < SOURCES_MAX) held.sources.push(neighbour)
      }
      if (next === undefined || toHex(next) <= toHex(cursor)) return
      cursor = new Uint8Array(next)
    }
  }

  #wasPulled(name: string, peer: string): boolean {
    const atMs = this.#pulledAtMs.get(`${name}:${peer}`)
    return atMs !== undefined && this.#c.clock.monotonicMs() - atMs < PULLED_MS
  }

  async #pull(source: PeerAddress, set: RegistrySet, key: Uint8Array, signal: AbortSignal): Promise<void> {
    const { client, local, clock } = this.#c
    for (const { entry, pow } of await client.listAt(source, { set, key }, { signal })) {
      signal.throwIfAborted()
      const held = local.stats().entries
      const request = { verb: 'put' as const, set, key, record: entry.record.bytes, ...(pow === undefined ? {} : { pow }) }
      await local.put(request, { kind: 'self' })
      if (local.stats().entries > held) this.taken++
    }
    const name = `${toHex(registryKeyName(set, key))}:${source.peer}`
    this.#pulledAtMs.delete(name)
    if (this.#pulledAtMs.size >= PULLED_MAX) this.#pulledAtMs.delete(this.#pulledAtMs.keys().next().value as string)
    this.#pulledAtMs.set(name, clock.monotonicMs())
  }

  async idle(): Promise<void> {
    await this.#running
  }

  async stop(): Promise<void> {
    this.#unsubscribe()
    this.#cancelTimer()
    this.#stopping.abort(new Error('the registry stops'))
    await this.#running
  }
}

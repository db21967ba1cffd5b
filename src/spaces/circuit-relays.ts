import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import {
  CIRCUIT_RELAY_ADDRS_MAX,
  CIRCUIT_RELAY_TTL_SEC,
  type CircuitRelay,
  type CircuitRelayRecord,
  circuitRelaysKey,
  circuitRelayTombstone,
  circuitRelayType
} from '../../protocol/records/circuit-relay.ts'
import { buildRecord, recordIsAhead } from '../../protocol/records/envelope.ts'
import { ADDR, ADDR_BYTES_MAX } from '../../protocol/records/locator.ts'
import { peerIdText } from '../identity/peer-id.ts'
import type { Host, PeerAddress } from '../net/host.ts'
import { transportOf } from '../net/multiaddrs.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { type NetworkKind, reachableAddrs } from './address-scope.ts'
import { withDeadline } from './deadline.ts'
import { type Refreshed, Refresher } from './refresher.ts'
import type { Registry } from './registry.ts'

/** Relays that one look-up brings; of them a few are tried. */
const FOUND_MAX = 64
/** What others are told of a change of addresses waits for the rest of it. */
const SETTLE_MS = 1_000
const WITHDRAW_MS = 1_000
const NAME = 'relay'

export interface CircuitRelaysComponents {
  host: Host
  registry: Pick<Registry, 'put' | 'list'>
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
}

export interface CircuitRelaysInit {
  network: NetworkKind
  /** seed of the host's own key, where this node is a relay and says so */
  announceWith?: Uint8Array | undefined
}

/** Relays of the network: found in the registry set that holds them all, and our own put there while others can dial it (protocol/README.md §4). */
export class CircuitRelays {
  readonly #c: CircuitRelaysComponents
  readonly #network: NetworkKind
  readonly #seed: Uint8Array | undefined
  readonly #key: Uint8Array
  readonly #refresher: Refresher
  readonly #stopping = new AbortController()
  readonly #unsubscribe: (() => void)[] = []
  #own: CircuitRelayRecord | undefined
  #isKept = false
  #cancelSettle: (() => void) | undefined

  constructor(components: CircuitRelaysComponents, init: CircuitRelaysInit) {
    this.#c = { ...components, logger: components.logger.child('relays') }
    this.#network = init.network
    this.#seed = init.announceWith
    this.#key = circuitRelaysKey(components.crypto)
    this.#refresher = new Refresher(this.#c)
    const { host } = components
    host.reachability?.findRelaysWith((signal) => this.find(signal))
    if (this.#seed === undefined) return
    this.#unsubscribe.push(
      host.onPeer(({ kind }) => {
        if (kind === 'connect') this.#refresher.peersArrived()
      }),
      host.onAddressesChanged(() => this.#changed())
    )
    const off = host.reachability?.onChange(() => this.#changed())
    if (off !== undefined) this.#unsubscribe.push(off)
    this.#changed()
  }

  /** Verified relays in no order that means anything; whether one works is seen when it is asked. */
  async find(signal: AbortSignal): Promise<PeerAddress[]> {
    const { entries } = await this.#c.registry.list({ set: 'relays', key: this.#key, limit: FOUND_MAX }, { signal })
    return entries.flatMap(({ entry }) => {
      if (entry.set !== 'relays' || entry.gone) return []
      const { node, addrs } = entry.record.payload
      return [{ peer: peerIdText(node), addrs: reachableAddrs(addrs, this.#network) }]
    })
  }

  async stop(): Promise<void> {
    for (const off of this.#unsubscribe) off()
    this.#cancelSettle?.()
    this.#stopping.abort(new Error('the node stops'))
    await this.#refresher.stop()
    const own = this.#own
    if (own === undefined || own.payload.gone === true) return
    try {
      const gone = this.#sign(circuitRelayTombstone(own.payload, this.#nextSec()))
      await withDeadline(this.#c.clock, WITHDRAW_MS, undefined, (signal) => this.#put(gone, signal))
    } catch {
      // it runs out by itself within the hour
    }
  }

  #changed(): void {
    this.#cancelSettle ??= this.#c.clock.after(SETTLE_MS, () => {
      this.#cancelSettle = undefined
      this.#settle()
    })
  }

  /** A relay that others cannot dial is of no use to them, so it is not announced. */
  #settle(): void {
    if (this.#stopping.signal.aborted) return
    const addrs = this.#addrs()
    const isOfUse = this.#c.host.reachability?.report().state === 'direct' && addrs.length > 0
    if (!isOfUse) {
      this.#isKept = false
      this.#refresher.forget(NAME)
      return
    }
    const isCurrent = this.#own !== undefined && this.#own.payload.addrs.join() === addrs.join()
    if (isCurrent && this.#isKept) return
    this.#isKept = true
    this.#keep(isCurrent)
  }

  #keep(isCurrent: boolean): void {
    this.#refresher.keep(NAME, {
      ttlMs: CIRCUIT_RELAY_TTL_SEC * 1_000,
      signedAtMs: this.#own === undefined || !isCurrent ? Number.NEGATIVE_INFINITY : this.#own.payload.ts * 1_000,
      coverage: 'none',
      sign: (signal) => this.#refresh('sign', signal),
      put: (signal) => this.#refresh('put', signal)
    })
  }

  async #refresh(verb: 'sign' | 'put', signal: AbortSignal): Promise<Refreshed> {
    if (verb === 'sign' || this.#own === undefined) {
      const ts = this.#nextSec()
      this.#own = this.#sign({ node: this.#publicKey(), addrs: this.#addrs(), ts, exp: ts + CIRCUIT_RELAY_TTL_SEC })
    }
    return { signedAtMs: this.#own.payload.ts * 1_000, coverage: await this.#put(this.#own, signal) }
  }

  async #put(record: CircuitRelayRecord, signal: AbortSignal): Promise<'full' | 'partial'> {
    const { registrars, stored } = await this.#c.registry.put({ set: 'relays', key: this.#key, record: record.bytes }, { signal })
    this.#c.logger.debug({ registrars, stored }, 'this relay was announced')
    return registrars > 1 && stored === registrars ? 'full' : 'partial'
  }

  #sign(payload: CircuitRelay): CircuitRelayRecord {
    const { crypto } = this.#c
    const seed = this.#seed as Uint8Array
    return buildRecord(crypto, circuitRelayType, payload, {
      publicKey: payload.node,
      sign: (message) => crypto.ed25519.sign(seed, message)
    })
  }

  #publicKey(): Uint8Array {
    return this.#c.crypto.ed25519.publicKey(this.#seed as Uint8Array)
  }

  /** Seconds, and later than what was signed before: of two records of one second the first would stay. What a wrong clock dated ahead nobody took. */
  #nextSec(): number {
    const nowMs = this.#c.clock.nowMs()
    const last = this.#own === undefined || recordIsAhead(this.#own, nowMs) ? 0 : this.#own.payload.ts
    return Math.max(Math.floor(nowMs / 1_000), last + 1)
  }

  #addrs(): string[] {
    return reachableAddrs(this.#c.host.addresses(), this.#network)
      .filter((addr) => transportOf(addr) !== 'relay' && addr.length <= ADDR_BYTES_MAX && ADDR.test(addr))
      .sort((a, b) => Number(isOwnMachine(a)) - Number(isOwnMachine(b)))
      .slice(0, CIRCUIT_RELAY_ADDRS_MAX)
  }
}

/** Loopback is told last: on another machine it leads to that machine itself. */
const isOwnMachine = (addr: string) => addr.startsWith('/ip4/127.') || addr.startsWith('/ip6/::1/')

import type { SourceLimit } from '../../protocol/session/connection-guard.ts'
import type { ConnectionInfo } from '../net/byte-stream.ts'
import { networkOf } from '../net/multiaddrs.ts'
import { HandshakeBudget } from './handshake-budget.ts'

export interface SourceLimitsInit {
  /** handshakes computed for one PeerId a minute, over all its connections, and at once; default 16 */
  peerPerMinute?: number
  /** handshakes computed for one network (/24, /48) a second; default 25 */
  networkPerSecond?: number
  /** and at once; default 100 */
  networkBurst?: number
  /** the network of a multiaddr, or undefined where it bears no limit; default: public addresses only, so neither loopback nor private ones */
  networkOf?: (addr: string) => string | undefined
}

/** PeerIds and networks that are remembered, each; above it the longest unused is forgotten. */
export const SOURCES_MAX = 8_192

/**
 * What each PeerId and each network may still ask the responder to compute: an INIT beyond it gets RETRY with a wait, and beyond it still, with
 * the cookie, CLOSE(BUSY). A source is remembered only once curve arithmetic was done for it, and no longer than its bucket takes to fill.
 */
export class SourceLimits {
  readonly #peers: Buckets
  readonly #networks: Buckets
  readonly #networkOf: (addr: string) => string | undefined

  constructor(init: SourceLimitsInit = {}) {
    const peerPerMinute = init.peerPerMinute ?? 16
    this.#peers = new Buckets({ perSecond: peerPerMinute / 60, burst: peerPerMinute })
    this.#networks = new Buckets({ perSecond: init.networkPerSecond ?? 25, burst: init.networkBurst ?? 100 })
    this.#networkOf = init.networkOf ?? networkOf
  }

  /** PeerIds and networks held */
  get size(): number {
    return this.#peers.size + this.#networks.size
  }

  of({ peer, remoteAddr }: Pick<ConnectionInfo, 'peer' | 'remoteAddr'>): SourceLimit {
    const network = this.#networkOf(remoteAddr)
    return {
      waitSeconds: (nowMs) => Math.max(this.#peers.waitSeconds(peer, nowMs), this.#networks.waitSeconds(network, nowMs)),
      spend: (nowMs) => {
        this.#peers.spend(peer, nowMs)
        this.#networks.spend(network, nowMs)
      }
    }
  }

  /** Forgets every source that owes nothing any more; called now and then. */
  sweep(nowMs: number): void {
    this.#peers.sweep(nowMs)
    this.#networks.sweep(nowMs)
  }
}

class Buckets {
  /** by source, the longest unused first; at most SOURCES_MAX entries */
  readonly #bySource = new Map<string, HandshakeBudget>()
  readonly #limit: { perSecond: number; burst: number }

  constructor(limit: { perSecond: number; burst: number }) {
    this.#limit = limit
  }

  get size(): number {
    return this.#bySource.size
  }

  waitSeconds(source: string | undefined, nowMs: number): number {
    return source === undefined ? 0 : (this.#bySource.get(source)?.waitSeconds(nowMs) ?? 0)
  }

  spend(source: string | undefined, nowMs: number): void {
    if (source === undefined) return
    const bucket = this.#bySource.get(source) ?? new HandshakeBudget({ ...this.#limit, nowMs })
    this.#bySource.delete(source)
    this.#bySource.set(source, bucket)
    bucket.spend(nowMs)
    if (this.#bySource.size > SOURCES_MAX) this.#bySource.delete(this.#bySource.keys().next().value as string)
  }

  sweep(nowMs: number): void {
    for (const [source, bucket] of this.#bySource) if (bucket.isFull(nowMs)) this.#bySource.delete(source)
  }
}

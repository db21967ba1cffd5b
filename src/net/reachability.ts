import type { Clock } from '../platform/clock.ts'
import type { PeerAddress } from './host.ts'

/**
 * `direct`: a peer dialled this node lately; `relayed`: none can, and relays carry those who try; `unreachable`: none can and no relay carries;
 * `unknown`: nobody has said yet.
 */
export type ReachabilityState = 'direct' | 'relayed' | 'unreachable' | 'unknown'

/** A relay at which this node holds a place. */
export interface HeldRelay {
  readonly peer: string
  /** addresses of the relay, without /p2p */
  readonly addrs: readonly string[]
  /** wall clock, ms */
  readonly sinceMs: number
}

export interface ReachabilityReport {
  readonly state: ReachabilityState
  /** wall clock, ms */
  readonly sinceMs: number
  readonly relays: readonly HeldRelay[]
  /** addresses of ours that peers see or dialled, as far as they are known; at most 8 */
  readonly external: readonly string[]
  /** connections that came over a relay, and how many of them a direct one took the place of */
  readonly upgrades: { readonly tried: number; readonly direct: number }
  /** what this node carries for others; absent where it is no relay */
  readonly serving?: { readonly reservations: number; readonly reservationsMax: number }
}

/** How others reach this node, as the rest of the node sees it. */
export interface HostReachability {
  report(): ReachabilityReport
  /** Called when the state, or the relays, change. Returns the unsubscriber. */
  onChange(listener: (report: ReachabilityReport) => void): () => void
  /** Says where relays come from; until then none is sought. */
  findRelaysWith(find: (signal: AbortSignal) => Promise<PeerAddress[]>): void
}

/** What peers said, and what relays hold; from both comes the state. */
export class ReachabilityBook {
  readonly #clock: Clock
  readonly #listeners = new Set<() => void>()
  #judged: 'direct' | 'private' | undefined
  #relays: readonly HeldRelay[] = []
  #state: ReachabilityState = 'unknown'
  #sinceMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#sinceMs = clock.nowMs()
  }

  get judged(): 'direct' | 'private' | undefined {
    return this.#judged
  }

  get state(): ReachabilityState {
    return this.#state
  }

  get sinceMs(): number {
    return this.#sinceMs
  }

  get relays(): readonly HeldRelay[] {
    return this.#relays
  }

  judge(judged: 'direct' | 'private'): void {
    if (judged === this.#judged) return
    this.#judged = judged
    this.#settle()
  }

  hold(relays: readonly HeldRelay[]): void {
    this.#relays = relays
    this.#settle()
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #settle(): void {
    const state =
      this.#judged === 'direct' ? 'direct' : this.#relays.length > 0 ? 'relayed' : this.#judged === 'private' ? 'unreachable' : 'unknown'
    if (state !== this.#state) {
      this.#state = state
      this.#sinceMs = this.#clock.nowMs()
    }
    for (const listener of [...this.#listeners]) listener()
  }
}

import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'
import { shuffled } from '../platform/shuffled.ts'
import type { PeerAddress } from './host.ts'
import type { HeldRelay } from './reachability.ts'

/** Places held at a time: one may go at any moment. */
export const RELAYS_WANTED = 2
/** Relays tried in a round, one after the other */
const TRIED_MAX = 6
/** A relay that refused or did not answer is left alone for so long, while another serves. */
const SHUNNED_MS = 5 * 60_000
const SHUNNED_MAX = 256
/** Pauses between rounds that found too few: doubled from the first to the last */
const PAUSE_FIRST_MS = 2_000
const PAUSE_LAST_MS = 120_000
/** Looking relays up, and being taken by one */
const FIND_MS = 20_000
const RESERVE_MS = 15_000

export interface RelayKeeperInit {
  /** takes a place; rejects where there is none */
  reserve(relay: PeerAddress, signal: AbortSignal): Promise<void>
  /** gives all places up */
  release(): void
  /** called after every change */
  held(relays: readonly HeldRelay[]): void
}

/** Holds places at {@link RELAYS_WANTED} relays while it is told to, and looks for others in the place of those that go. */
export class RelayKeeper {
  readonly #c: { clock: Clock; random: Random; logger: Logger }
  readonly #init: RelayKeeperInit
  readonly #held = new Map<string, HeldRelay>()
  /** until when, monotonic; SHUNNED_MAX at most, the oldest goes first */
  readonly #shunned = new Map<string, number>()
  readonly #stopping = new AbortController()
  #find: ((signal: AbortSignal) => Promise<PeerAddress[]>) | undefined
  #wanted = false
  #running = false
  #again = false
  #pauseMs = PAUSE_FIRST_MS
  #cancel: () => void = () => {}

  constructor(components: { clock: Clock; random: Random; logger: Logger }, init: RelayKeeperInit) {
    this.#c = components
    this.#init = init
  }

  get relays(): HeldRelay[] {
    return [...this.#held.values()]
  }

  findWith(find: (signal: AbortSignal) => Promise<PeerAddress[]>): void {
    this.#find = find
    this.soon()
  }

  want(wanted: boolean): void {
    if (wanted === this.#wanted) return
    this.#wanted = wanted
    if (wanted) this.soon()
    else this.#cancel()
    if (wanted || this.#held.size === 0) return
    this.#held.clear()
    this.#init.release()
    this.#init.held([])
  }

  /** Something changed: a round begins now, and pauses are short again. */
  soon(): void {
    this.#pauseMs = PAUSE_FIRST_MS
    if (this.#running) this.#again = true
    else this.#schedule(0)
  }

  /** Another network: who could not be reached from the one before may be now. */
  networkChanged(): void {
    this.#shunned.clear()
    this.soon()
  }

  /** The place at this relay is gone. */
  lost(peer: string): void {
    if (!this.#held.delete(peer)) return
    this.#c.logger.info({ relay: peer, left: this.#held.size }, 'the place at a relay is gone; another is sought')
    this.#init.held(this.relays)
    this.soon()
  }

  stop(): void {
    this.#cancel()
    this.#stopping.abort(new Error('the host stops'))
  }

  #schedule(ms: number): void {
    if (this.#stopping.signal.aborted || this.#find === undefined || !this.#wanted) return
    this.#cancel()
    this.#cancel = this.#c.clock.after(ms, () => void this.#run())
  }

  async #run(): Promise<void> {
    if (this.#running) return
    this.#running = true
    this.#again = false
    try {
      await this.#round()
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#c.logger.debug({ error: String(error) }, 'looking for relays failed')
    } finally {
      this.#running = false
      if (this.#again) this.#schedule(0)
      else if (this.#held.size < RELAYS_WANTED) {
        const pauseMs = this.#pauseMs * (0.75 + 0.5 * randomFraction(this.#c.random))
        this.#pauseMs = Math.min(PAUSE_LAST_MS, this.#pauseMs * 2)
        this.#schedule(pauseMs)
      }
    }
  }

  async #round(): Promise<void> {
    const find = this.#find
    if (find === undefined || this.#isEnough()) return
    const found = await this.#within(FIND_MS, find)
    const nowMs = this.#c.clock.monotonicMs()
    const shunnedUntil = ({ peer }: PeerAddress) => this.#shunned.get(peer) ?? 0
    const free = found.filter(({ peer }) => !this.#held.has(peer))
    const able = shuffled(
      this.#c.random,
      free.filter((relay) => shunnedUntil(relay) <= nowMs)
    )
    // Without any place a relay that failed some time ago is better than none.
    const last =
      this.#held.size > 0 ? [] : free.filter((relay) => shunnedUntil(relay) > nowMs).sort((a, b) => shunnedUntil(a) - shunnedUntil(b))
    let tried = 0
    for (const relay of [...able, ...last]) {
      if (this.#isEnough() || tried++ >= TRIED_MAX) return
      await this.#try(relay)
    }
  }

  #isEnough(): boolean {
    return !this.#wanted || this.#stopping.signal.aborted || this.#held.size >= RELAYS_WANTED
  }

  async #try(relay: PeerAddress): Promise<void> {
    try {
      await this.#within(RESERVE_MS, (signal) => this.#init.reserve(relay, signal))
    } catch (error) {
      this.#shun(relay.peer)
      this.#c.logger.debug({ relay: relay.peer, error: String(error) }, 'a relay has no place')
      return
    }
    if (!this.#wanted || this.#stopping.signal.aborted) return
    this.#held.set(relay.peer, { ...relay, sinceMs: this.#c.clock.nowMs() })
    this.#c.logger.info({ relay: relay.peer, addrs: relay.addrs }, 'others reach this node over a relay now')
    this.#init.held(this.relays)
  }

  #shun(peer: string): void {
    this.#shunned.delete(peer)
    if (this.#shunned.size >= SHUNNED_MAX) this.#shunned.delete(this.#shunned.keys().next().value as string)
    this.#shunned.set(peer, this.#c.clock.monotonicMs() + SHUNNED_MS)
  }

  async #within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const patience = new AbortController()
    const give = () => patience.abort(this.#stopping.signal.reason)
    this.#stopping.signal.throwIfAborted()
    this.#stopping.signal.addEventListener('abort', give, { once: true })
    const cancel = this.#c.clock.after(ms, () => patience.abort(new Error(`no answer within ${ms} ms`)))
    try {
      return await work(patience.signal)
    } finally {
      cancel()
      this.#stopping.signal.removeEventListener('abort', give)
    }
  }
}

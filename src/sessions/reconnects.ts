import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'

/** The first pause before a session is taken up again; doubled after each failure. */
export const RECONNECT_MS_MIN = 1_000
/** Attempts at once. After a restart, a lost network or a rotation thousands are due: they go out as earlier ones end. */
export const ATTEMPTS_MAX = 32
/** The same to one peer: one that lets every attempt time out holds up none of the others. */
export const ATTEMPTS_PER_PEER_MAX = 4
/** A connection that lasted so long was a success; one that was lost before counts as another failure, */
export const STEADY_MS = 60_000
/** up to so many, so that a peer that drops us at once is asked once in 8 s, and a link that comes and goes costs no more than that. */
export const FLAPS_MAX = 3

interface Attempt {
  failures: number
  state: 'idle' | 'waiting' | 'running' | 'up'
  /** asked for again while one was running */
  again: boolean
  /** lost while the attempt that took it up was still ending */
  lost: boolean
  /** what carried it last did not last */
  flapped: boolean
  /** when it was taken up, monotonic; while `up` */
  upAtMs: number
  peer: string
  cancel: (() => void) | undefined
}

export interface ReconnectsInit {
  /** the longest pause */
  msMax: number
  /** whom an attempt would reach */
  peerOf: (id: string) => string
  attempt: (id: string, failures: number) => Promise<'done' | 'failed'>
}

/**
 * When lost sessions are tried again: after about 1, 2, 4 … s up to a bound, each pause between 0.75 and 1.25 of that (F080), and at once when
 * something says that it would work now. One attempt a session at a time; of those that are due, the one that failed least goes first.
 */
export class Reconnects {
  readonly #clock: Clock
  readonly #random: Random
  readonly #init: ReconnectsInit
  /** as many as there are sessions in memory */
  readonly #attempts = new Map<string, Attempt>()
  /** due, in the order in which they fell due; among `#attempts` */
  readonly #due = new Map<string, Attempt>()
  /** attempts under way by peer; ATTEMPTS_MAX in all */
  readonly #running = new Map<string, number>()
  #runs = 0
  #stopped = false

  constructor({ clock, random }: { clock: Clock; random: Random }, init: ReconnectsInit) {
    this.#clock = clock
    this.#random = random
    this.#init = init
  }

  get size(): number {
    return this.#attempts.size
  }

  /** Attempts under way. */
  get running(): number {
    return this.#runs
  }

  #of(id: string): Attempt {
    const held = this.#attempts.get(id)
    if (held !== undefined) return held
    const attempt: Attempt = {
      failures: 0,
      state: 'idle',
      again: false,
      lost: false,
      flapped: false,
      upAtMs: 0,
      peer: '',
      cancel: undefined
    }
    this.#attempts.set(id, attempt)
    return attempt
  }

  /**
   * The session lost its connection: tries again after the pause that is due. `served`: however short, it did what it was for, as one does that a
   * relay cuts after a number of bytes.
   */
  schedule(id: string, { served = false }: { served?: boolean } = {}): void {
    if (this.#stopped) return
    const attempt = this.#of(id)
    if (attempt.state === 'up') {
      attempt.flapped = !served && this.#clock.monotonicMs() - attempt.upAtMs < STEADY_MS
      attempt.failures = attempt.flapped ? Math.min(FLAPS_MAX, attempt.failures + 1) : 0
      attempt.state = 'idle'
    }
    if (attempt.state === 'running') attempt.lost = true
    if (attempt.state !== 'idle' || attempt.cancel !== undefined) return
    const pauseMs = Math.min(this.#init.msMax, RECONNECT_MS_MIN * 2 ** Math.min(attempt.failures, 30)) * this.#jitter()
    attempt.cancel = this.#clock.after(pauseMs, () => this.#fallDue(id, attempt))
  }

  /** Something changed: the network, the peer's address, or it was seen. Tries now, and counts from the start again. */
  now(id: string): void {
    if (this.#stopped) return
    const attempt = this.#of(id)
    attempt.failures = 0
    attempt.cancel?.()
    attempt.cancel = undefined
    if (attempt.state === 'running') attempt.again = true
    else this.#fallDue(id, attempt)
  }

  /**
   * The peer was seen on a connection. As {@link now}, unless the session just came up and was lost again: then each side's attempt would bring on
   * the other's without a pause, and it is the peer's own attempt, if it makes one, that takes the session up.
   */
  seen(id: string): void {
    const attempt = this.#attempts.get(id)
    if (attempt?.flapped === true && attempt.cancel !== undefined) return
    this.now(id)
  }

  /** It is connected: how often it failed before is remembered until it has lasted. */
  connected(id: string): void {
    const attempt = this.#attempts.get(id)
    if (attempt === undefined) return
    attempt.cancel?.()
    attempt.cancel = undefined
    this.#due.delete(id)
    attempt.again = false
    attempt.lost = false
    attempt.upAtMs = this.#clock.monotonicMs()
    if (attempt.state !== 'running') attempt.state = 'up'
  }

  /** It is parked or gone. */
  forget(id: string): void {
    this.#attempts.get(id)?.cancel?.()
    this.#attempts.delete(id)
    this.#due.delete(id)
  }

  stop(): void {
    this.#stopped = true
    for (const id of [...this.#attempts.keys()]) this.forget(id)
  }

  #fallDue(id: string, attempt: Attempt): void {
    attempt.cancel = undefined
    attempt.state = 'waiting'
    attempt.peer = this.#init.peerOf(id)
    this.#due.set(id, attempt)
    this.#runDue()
  }

  #runDue(): void {
    while (this.#runs < ATTEMPTS_MAX) {
      let next: [string, Attempt] | undefined
      for (const one of this.#due) {
        if ((this.#running.get(one[1].peer) ?? 0) >= ATTEMPTS_PER_PEER_MAX) continue
        if (next === undefined || one[1].failures < next[1].failures) next = one
      }
      if (next === undefined) return
      this.#due.delete(next[0])
      void this.#run(...next)
    }
  }

  async #run(id: string, attempt: Attempt): Promise<void> {
    const { peer } = attempt
    attempt.state = 'running'
    attempt.upAtMs = Number.NaN
    attempt.lost = false
    this.#runs += 1
    this.#running.set(peer, (this.#running.get(peer) ?? 0) + 1)
    const outcome = await this.#init.attempt(id, attempt.failures).catch(() => 'failed' as const)
    this.#runs -= 1
    const others = (this.#running.get(peer) ?? 1) - 1
    if (others === 0) this.#running.delete(peer)
    else this.#running.set(peer, others)
    if (this.#attempts.get(id) === attempt) this.#ran(id, attempt, outcome)
    this.#runDue()
  }

  #ran(id: string, attempt: Attempt, outcome: 'done' | 'failed'): void {
    const wanted = attempt.again
    attempt.again = false
    if (outcome === 'done') {
      const cameUp = !Number.isNaN(attempt.upAtMs)
      attempt.state = cameUp ? 'up' : 'idle'
      if (attempt.lost) this.schedule(id)
      else if (!cameUp) this.forget(id) // nothing is left to take up
      return
    }
    attempt.state = 'idle'
    attempt.failures += 1
    if (wanted) this.#fallDue(id, attempt)
    else this.schedule(id)
  }

  #jitter(): number {
    return 0.75 + ((this.#random.bytes(1)[0] as number) / 255) * 0.5
  }
}

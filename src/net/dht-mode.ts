import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'

/** `auto`: a server while others can reach this node, else a client. */
export type DhtModeSetting = 'server' | 'client' | 'auto'

/** Peers asked in a round; so many that say no, and none that says yes, make a client. */
const ASKED_MAX = 3
const REFUSALS_MIN = 2
/** A round begins this long after a peer or new addresses came, */
const SOON_MS = 3_000
/** this long after one that settled nothing, */
const UNSETTLED_MS = 60_000
/** and this long after one that did; each up to a fifth earlier by chance. */
const SETTLED_MS = 15 * 60_000

export interface DhtModeInit {
  mode(): 'client' | 'server'
  /** absent: what peers say is told, and the mode stays as it is set */
  setMode?: ((mode: 'client' | 'server') => Promise<void>) | undefined
  /** hears of every verdict: whether others can dial this node */
  judged?: ((verdict: 'direct' | 'private') => void) | undefined
  /** addresses told to others */
  addresses(): string[]
  /** peers with an open connection */
  peers(): string[]
  /** whether the peer reached us by a new connection; undefined when it does not say */
  ask(peer: string, signal: AbortSignal): Promise<boolean | undefined>
}

/**
 * Switches between client and server by what peers say of a dial back. A client by setting is never touched by this: who is configured so does
 * not make one.
 */
export class DhtModeKeeper {
  readonly #c: { clock: Clock; random: Random; logger: Logger }
  readonly #init: DhtModeInit
  readonly #stopping = new AbortController()
  #cancel: () => void = () => {}
  #dueMs = Number.POSITIVE_INFINITY
  #isRunning = false
  #isSettled = false

  constructor(components: { clock: Clock; random: Random; logger: Logger }, init: DhtModeInit) {
    this.#c = components
    this.#init = init
  }

  peerArrived(): void {
    if (!this.#isSettled) this.#dueIn(SOON_MS)
  }

  addressesChanged(): void {
    this.#isSettled = false
    this.#dueIn(SOON_MS)
  }

  #dueIn(ms: number): void {
    const atMs = this.#c.clock.monotonicMs() + ms
    if (this.#stopping.signal.aborted || this.#isRunning || atMs >= this.#dueMs) return
    this.#cancel()
    this.#dueMs = atMs
    this.#cancel = this.#c.clock.after(ms * (1 - 0.2 * randomFraction(this.#c.random)), () => void this.#run())
  }

  async #run(): Promise<void> {
    this.#dueMs = Number.POSITIVE_INFINITY
    this.#isRunning = true
    try {
      this.#isSettled = await this.#round()
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#c.logger.debug({ error: String(error) }, 'a round of dial-backs failed')
    } finally {
      this.#isRunning = false
      this.#dueIn(this.#isSettled ? SETTLED_MS : UNSETTLED_MS)
    }
  }

  /** @returns whether it settled the matter */
  async #round(): Promise<boolean> {
    const { signal } = this.#stopping
    if (this.#init.addresses().length === 0) {
      this.#init.judged?.('private')
      await this.#switch('client', 'it has no address that others can dial')
      return true
    }
    const asked = this.#drawn()
    const answers = await Promise.all(asked.map((peer) => this.#init.ask(peer, signal)))
    if (answers.includes(true)) {
      this.#init.judged?.('direct')
      await this.#switch('server', 'a peer reached it by a new connection')
      return true
    }
    const refusals = answers.filter((answer) => answer === false).length
    // one that is alone in saying no moves no mode; a place at a relay too many does no harm
    if (refusals >= Math.min(REFUSALS_MIN, asked.length) && refusals > 0) this.#init.judged?.('private')
    if (refusals < REFUSALS_MIN) return false
    await this.#switch('client', `${refusals} peers could not reach it: behind a NAT or a firewall`)
    return true
  }

  #drawn(): string[] {
    const peers = this.#init.peers()
    for (let i = peers.length - 1; i > 0; i--) {
      const at = Math.floor(randomFraction(this.#c.random) * (i + 1))
      ;[peers[i], peers[at]] = [peers[at] as string, peers[i] as string]
    }
    return peers.slice(0, ASKED_MAX)
  }

  async #switch(mode: 'client' | 'server', why: string): Promise<void> {
    const { setMode } = this.#init
    if (setMode === undefined || this.#stopping.signal.aborted || this.#init.mode() === mode) return
    await setMode(mode)
    this.#c.logger.info({ mode, why }, `this node is a ${mode} of the DHT now`)
  }

  stop(): void {
    this.#cancel()
    this.#stopping.abort(new Error('the host stops'))
  }
}

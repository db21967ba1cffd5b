import { toHex } from '../../protocol/bytes.ts'
import type { FoundPeer } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'

/** A look-up of the same key within this time goes to the same registrars: announcements and members of a space share DS_ID. */
const RECENT_MS = 10_000
const RECENT_KEYS_MAX = 512

/** Registrars found a moment ago; the oldest key goes first, and short lists are forgotten when a peer arrives. */
export class RecentRegistrars {
  readonly #clock: Clock
  readonly #registrarsMax: number
  readonly #byKey = new Map<string, { peers: FoundPeer[]; atMs: number }>()

  constructor(clock: Clock, registrarsMax: number) {
    this.#clock = clock
    this.#registrarsMax = registrarsMax
  }

  get(key: Uint8Array): FoundPeer[] | undefined {
    const held = this.#byKey.get(toHex(key))
    return held !== undefined && this.#clock.monotonicMs() - held.atMs < RECENT_MS ? held.peers : undefined
  }

  set(key: Uint8Array, peers: FoundPeer[]): void {
    const name = toHex(key)
    this.#byKey.delete(name)
    if (this.#byKey.size >= RECENT_KEYS_MAX) this.#byKey.delete(this.#byKey.keys().next().value as string)
    this.#byKey.set(name, { peers, atMs: this.#clock.monotonicMs() })
  }

  peerArrived(): void {
    for (const [name, { peers }] of this.#byKey) if (peers.length < this.#registrarsMax) this.#byKey.delete(name)
  }
}

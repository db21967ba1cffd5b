import type { Clock } from '../platform/clock.ts'
import { jsonCodec, type Store, type Table } from '../store/store.ts'

/** Peers remembered for a way back into the network; the one met longest ago goes first. */
const REMEMBERED_MAX = 64
const ADDRS_MAX = 8

interface Remembered {
  addrs: string[]
  metAtMs: number
}

/** The peers that this node had connections with lately, kept over a restart when there is a store. */
export class PeerMemory {
  readonly #clock: Clock
  readonly #store: Store | undefined
  readonly #table: Table<Remembered> | undefined
  readonly #peers = new Map<string, Remembered>()

  constructor(components: { clock: Clock; store?: Store | undefined }) {
    this.#clock = components.clock
    this.#store = components.store
    this.#table = components.store?.table('net-peers', jsonCodec<Remembered>())
  }

  async load(): Promise<void> {
    if (this.#table === undefined) return
    const rows: [string, Remembered][] = []
    for await (const row of this.#table.entries({ limit: REMEMBERED_MAX * 2 })) rows.push(row)
    rows.sort((a, b) => a[1].metAtMs - b[1].metAtMs)
    for (const [peer, remembered] of rows) this.#peers.set(peer, remembered)
  }

  /** Remembers dialable addresses of a peer that just answered. */
  async met(peer: string, addrs: readonly string[]): Promise<void> {
    if (addrs.length === 0) return
    const remembered = { addrs: addrs.slice(0, ADDRS_MAX), metAtMs: this.#clock.nowMs() }
    this.#peers.delete(peer)
    this.#peers.set(peer, remembered)
    const ops = this.#table === undefined ? [] : [this.#table.put(peer, remembered)]
    for (const oldest of this.#peers.keys()) {
      if (this.#peers.size <= REMEMBERED_MAX) break
      this.#peers.delete(oldest)
      if (this.#table !== undefined) ops.push(this.#table.del(oldest))
    }
    await this.#store?.commit(ops)
  }

  /** Latest met first. */
  list(): { peer: string; addrs: readonly string[] }[] {
    return [...this.#peers].map(([peer, { addrs }]) => ({ peer, addrs })).reverse()
  }
}

import { toHex } from '../bytes.ts'
import type { EidHex } from '../identity/eid.ts'
import { PULL_GRACE_MS, WANT_OPS_MAX, WANT_TIMEOUT_MAX_MS, WANT_TIMEOUT_MS } from './bounds.ts'
import type { RunPoint } from './group-vector.ts'
import type { PeerView } from './peer-view.ts'

/** A run of which somebody has more than we do. */
export interface Lack {
  readonly point: RunPoint
  /** ours; 0: nothing */
  readonly have: bigint
  /** who tells that it has more */
  readonly from: readonly PeerView[]
  /** its writer is linked, and sends it unasked */
  readonly isPushed: boolean
}

interface Pull {
  readonly peer: EidHex
  /** have at the time */
  readonly from: bigint
  readonly until: bigint
  readonly untilMs: number
}

/**
 * Asks for what is lacking: of one peer at a time for each run, so that nothing comes twice; of another one when the answer stays away; and of nobody
 * while the writer itself, being linked, still sends it.
 */
export class Pulls {
  /** requests without a whole answer, by run; bounded by the members */
  readonly #asked = new Map<string, Pull>()
  /** since when a run stands where it stands, by run; only runs that lack something */
  readonly #still = new Map<string, { have: bigint; sinceMs: number }>()
  /** how often nobody answered for a run; only runs that lack something */
  readonly #tries = new Map<string, number>()
  readonly #spread: number

  /** @param spread - differs from member to member, so that not all ask the same one */
  constructor(spread: number) {
    this.#spread = spread
  }

  /** Requests to send now. `wakeAtMs`: when to plan again though nothing came. */
  plan(
    lacks: ReadonlyMap<string, Lack>,
    nowMs: number
  ): { ask: { peer: PeerView; point: RunPoint; from: bigint; count: number }[]; wakeAtMs: number | undefined } {
    for (const map of [this.#asked, this.#still, this.#tries]) for (const run of map.keys()) if (!lacks.has(run)) map.delete(run)
    const ask: { peer: PeerView; point: RunPoint; from: bigint; count: number }[] = []
    let wakeAtMs: number | undefined
    const wake = (atMs: number) => {
      wakeAtMs = Math.min(wakeAtMs ?? atMs, atMs)
    }
    for (const [run, { point, have, from, isPushed }] of lacks) {
      let still = this.#still.get(run)
      if (still === undefined || still.have !== have) {
        still = { have, sinceMs: nowMs }
        this.#still.set(run, still)
        this.#tries.delete(run)
      }
      const asked = this.#asked.get(run)
      if (asked !== undefined && have < asked.until) {
        const isThere = from.some(({ hex }) => hex === asked.peer)
        const untilMs = Math.max(asked.untilMs, still.sinceMs + WANT_TIMEOUT_MS)
        if (isThere && nowMs < untilMs) {
          wake(untilMs)
          continue
        }
        this.#tries.set(run, (this.#tries.get(run) ?? 0) + 1)
      }
      this.#asked.delete(run)
      if (isPushed && nowMs < still.sinceMs + PULL_GRACE_MS) {
        wake(still.sinceMs + PULL_GRACE_MS)
        continue
      }
      const tries = this.#tries.get(run) ?? 0
      const patienceMs = Math.min(WANT_TIMEOUT_MS * 2 ** Math.min(tries, 8), WANT_TIMEOUT_MAX_MS)
      const peer = from[(this.#spread + Number.parseInt(run.slice(0, 6), 16) + tries) % from.length] as PeerView
      const has = peer.runs.get(toHex(point.writer) as EidHex)?.n ?? have + 1n
      const count = Number(has - have > BigInt(WANT_OPS_MAX) ? BigInt(WANT_OPS_MAX) : has - have)
      ask.push({ peer, point, from: have + 1n, count })
      this.#asked.set(run, { peer: peer.hex, from: have, until: have + BigInt(count), untilMs: nowMs + patienceMs })
      wake(nowMs + patienceMs)
    }
    return { ask, wakeAtMs }
  }

  /** The link to a peer is another one, or gone: what was asked of it may never have arrived. */
  lost(peer: EidHex): void {
    for (const [run, asked] of this.#asked) if (asked.peer === peer) this.#asked.delete(run)
  }

  /** A key came: what could not be read may be asked for at once. */
  reset(): void {
    this.#asked.clear()
  }
}

import { equals, toHex } from '../bytes.ts'
import { type Eid, type EidHex, eidHex } from '../identity/eid.ts'
import { KEY_AGAIN_MAX_MS, VECTOR_ENTRIES_MAX, VECTOR_PERIOD_MS, WANT_TIMEOUT_MS } from './bounds.ts'
import type { GroupVector, GroupWant, RunPoint } from './group-vector.ts'

/** Ops of one run that go to a peer: what it asked for. */
interface Answer {
  next: bigint
  until: bigint
}

/** What a member knows of another one over a live link, and what it is about to send it. It goes with the link. */
export class PeerView {
  readonly eid: Eid
  readonly hex: EidHex
  /** undefined until it speaks */
  #vector: { epoch: number; keys: number; runs: ReadonlyMap<EidHex, RunPoint> } | undefined
  /** our own run was sent to it up to here */
  #pushed: { run: string; n: bigint } | undefined
  /** monotonic: our vector is due */
  vectorDueAtMs: number | undefined
  #vectorSent: { bytes: Uint8Array; atMs: number } | undefined
  /** epochs whose keys go to it, and from when on */
  readonly #keysDue = new Map<number, number>()
  /** epochs whose keys went to it and that it lacks all the same, until when it has time to say otherwise; as many as are held */
  readonly #keysSent = new Map<number, { patienceMs: number; untilMs: number }>()
  /** it is to learn that it is no member any more */
  #noticeDueAtMs: number | undefined
  #noticeSentMs = Number.NEGATIVE_INFINITY
  /** it is no member as far as we know, and tells of a newer statement */
  asksEpoch = false
  /** what we ask of it and did not send yet; at most one a run */
  readonly wants: GroupWant[] = []
  /** by run; bounded by the runs that we hold */
  readonly #answers = new Map<string, Answer>()

  constructor(eid: Eid) {
    this.eid = eid
    this.hex = eidHex(eid)
  }

  get hasSpoken(): boolean {
    return this.#vector !== undefined
  }

  /** Of the newest statement that it holds; 0: none. */
  get epoch(): number {
    return this.#vector?.epoch ?? 0
  }

  get keys(): number {
    return this.#vector?.keys ?? 0
  }

  /** The runs that it told, by writer; at most VECTOR_ENTRIES_MAX. */
  get runs(): ReadonlyMap<EidHex, RunPoint> {
    return this.#vector?.runs ?? NO_RUNS
  }

  /** @returns `first` where it holds the group only since now: what it was told before it may not have understood */
  heard({ epoch, keys, runs }: Pick<GroupVector, 'epoch' | 'keys' | 'runs'>): 'first' | 'again' {
    const isFirst = this.epoch === 0 && epoch > 0
    if (isFirst) this.#vectorSent = undefined
    const byWriter = new Map<EidHex, RunPoint>()
    for (const { writer, run, n, gn } of runs.slice(0, VECTOR_ENTRIES_MAX)) {
      byWriter.set(eidHex(writer), { writer: writer.slice() as Eid, run: run.slice(), n, gn: gn.slice() })
    }
    this.#vector = { epoch, keys, runs: byWriter }
    return isFirst ? 'first' : 'again'
  }

  /** Up to which op the peer is known, or thought, to have our run. */
  pushedTo(writer: EidHex, run: Uint8Array): bigint {
    const told = this.runs.get(writer)
    const has = told !== undefined && equals(told.run, run) ? told.n : 0n
    const sent = this.#pushed?.run === toHex(run) ? this.#pushed.n : 0n
    return has > sent ? has : sent
  }

  pushed(run: Uint8Array, n: bigint): void {
    this.#pushed = { run: toHex(run), n }
  }

  // ── vectors ──

  vectorDue(atMs: number): void {
    this.vectorDueAtMs = Math.min(this.vectorDueAtMs ?? atMs, atMs)
  }

  /** @returns whether it has to be sent at all */
  vectorSent(bytes: Uint8Array, nowMs: number): boolean {
    const before = this.#vectorSent
    const isNews = before === undefined || nowMs - before.atMs >= VECTOR_PERIOD_MS || !equals(bytes, before.bytes)
    if (isNews) this.#vectorSent = { bytes, atMs: nowMs }
    this.vectorDueAtMs = (this.#vectorSent?.atMs ?? nowMs) + VECTOR_PERIOD_MS
    return isNews
  }

  // ── keys ──

  /** It lacks the keys of these epochs and no others; they go to it at `atMs`, those that are under way later. */
  keysLacked(epochs: readonly number[], atMs: number): void {
    this.#noticeDueAtMs = undefined
    for (const map of [this.#keysDue, this.#keysSent]) for (const epoch of map.keys()) if (!epochs.includes(epoch)) map.delete(epoch)
    for (const epoch of epochs) {
      const dueAtMs = Math.max(atMs, this.#keysSent.get(epoch)?.untilMs ?? Number.NEGATIVE_INFINITY)
      this.#keysDue.set(epoch, Math.min(this.#keysDue.get(epoch) ?? dueAtMs, dueAtMs))
    }
  }

  /** One epoch whose key is due, newest first. It counts as sent. */
  takeKey(nowMs: number): number | undefined {
    let epoch: number | undefined
    for (const [one, atMs] of this.#keysDue) if (atMs <= nowMs && one > (epoch ?? 0)) epoch = one
    if (epoch === undefined) return undefined
    this.#keysDue.delete(epoch)
    const patienceMs = Math.min((this.#keysSent.get(epoch)?.patienceMs ?? WANT_TIMEOUT_MS / 2) * 2, KEY_AGAIN_MAX_MS)
    this.#keysSent.set(epoch, { patienceMs, untilMs: nowMs + patienceMs })
    this.#vectorSent = undefined // what it was told before it may not have understood
    this.vectorDue(nowMs)
    return epoch
  }

  /** It stands in the trust list no more and does not know. */
  noticeDue(atMs: number): void {
    const dueAtMs = Math.max(atMs, this.#noticeSentMs + WANT_TIMEOUT_MS)
    this.#noticeDueAtMs = Math.min(this.#noticeDueAtMs ?? dueAtMs, dueAtMs)
  }

  /** Whether the notice is due. It counts as sent. */
  takeNotice(nowMs: number): boolean {
    if (this.#noticeDueAtMs === undefined || nowMs < this.#noticeDueAtMs) return false
    this.#noticeDueAtMs = undefined
    this.#noticeSentMs = nowMs
    return true
  }

  /** Nothing goes to a stranger but the notice. */
  becameStranger(): void {
    this.vectorDueAtMs = undefined
    this.asksEpoch = false
    this.wants.length = 0
    this.#keysDue.clear()
    this.#answers.clear()
  }

  // ── answers ──

  answer(run: string, next: bigint, until: bigint): void {
    this.#answers.set(run, { next, until })
  }

  get answers(): ReadonlyMap<string, Answer> {
    return this.#answers
  }

  answered(run: string): void {
    this.#answers.delete(run)
  }

  /** When something that waits becomes due. */
  get wakeAtMs(): number | undefined {
    const times = [...this.#keysDue.values()]
    if (this.vectorDueAtMs !== undefined) times.push(this.vectorDueAtMs)
    if (this.#noticeDueAtMs !== undefined) times.push(this.#noticeDueAtMs)
    return times.length === 0 ? undefined : Math.min(...times)
  }
}

const NO_RUNS: ReadonlyMap<EidHex, RunPoint> = new Map()

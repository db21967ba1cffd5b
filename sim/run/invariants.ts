import { INVARIANTS, type InvariantName } from '../scenario/definition.ts'
import type { Fact } from './facts.ts'

export interface Broken {
  invariant: InvariantName
  /** since the run began */
  atMs: number
  node: number
  message: string
}

export interface Verdict {
  invariant: InvariantName
  says: string
  state: 'holds' | 'broken' | 'not-seen' | 'off'
  /** facts that it judged */
  judged: number
  brokenCount: number
}

export const SAYS: Readonly<Record<InvariantName, string>> = {
  'acked-kept': 'No acknowledged message is lost.',
  'notified-once': 'No object is notified twice.',
  'hashes-agree': 'The rolling hashes of both ends agree at every ack.',
  'no-expired-record': 'No record past its end is served.',
  'cookie-before-state': 'There is no session state before a valid cookie.',
  'queue-bounds': 'No queue passes its bound.',
  'honest-found': 'At least 99 % of the searches of honest nodes find an honest member, where fewer than 20 % are hostile.',
  'no-honest-blacklisted': 'No honest node is blacklisted.',
  'idle-memory-flat': 'The memory of an idle node stays flat.'
}

/** Told one by one; more are only counted. */
const BROKEN_MAX = 100
const FOUND_MIN = 0.99
const HOSTILE_BELOW = 0.2
/** Points of one direction of a session that the other end has not told of yet */
const POINTS_MAX = 64

/** Judges every fact of a run as it comes, and what only the end can tell. */
export class Invariants {
  readonly broken: Broken[] = []
  readonly #off: ReadonlySet<InvariantName>
  readonly #judged = new Map<InvariantName, number>()
  readonly #counts = new Map<InvariantName, number>()
  /** by message: to whom, and when its sender was told */
  readonly #acked = new Map<number, { node: number; to: number; atMs: number }>()
  readonly #notified = new Map<string, number>()
  readonly #reached = new Set<number>()
  /** by direction of a session: the hash after each of its newest transactions, and which end said so */
  readonly #chains = new Map<string, Map<string, { hash: string; node: number }>>()
  #searches = 0
  readonly #failed: { node: number; atMs: number }[] = []

  constructor(settings: Partial<Record<InvariantName, boolean>> = {}) {
    this.#off = new Set(INVARIANTS.filter((name) => settings[name] === false))
  }

  see(fact: Fact, atMs: number) {
    switch (fact.fact) {
      case 'acked':
        this.#acked.set(fact.id, { node: fact.node, to: fact.to, atMs })
        return
      case 'notified': {
        const name = `${fact.node} ${fact.id}`
        const times = (this.#notified.get(name) ?? 0) + 1
        this.#notified.set(name, times)
        this.#reached.add(fact.id)
        return this.#judge('notified-once', times === 1, atMs, fact.node, `message ${fact.id} was notified ${times} times`)
      }
      case 'waiting':
        for (const id of fact.ids) this.#reached.add(id)
        return
      case 'hashes':
        return this.#judge('hashes-agree', fact.agree, atMs, fact.node, `with node ${fact.to}: ${fact.detail}`)
      case 'chain':
        return this.#chain(fact, atMs)
      case 'served': {
        const lateMs = fact.nowMs - fact.expiresAtMs
        return this.#judge('no-expired-record', lateMs < 0, atMs, fact.node, `a record was shown ${lateMs} ms after its end`)
      }
      case 'session-state':
        return this.#judge(
          'cookie-before-state',
          fact.cookie === 'valid',
          atMs,
          fact.node,
          'state is held for a peer that showed no cookie'
        )
      case 'queue':
        return this.#judge('queue-bounds', fact.length <= fact.bound, atMs, fact.node, `${fact.length} wait, ${fact.bound} may`)
      case 'searched':
        if (fact.hostileShare >= HOSTILE_BELOW) return
        this.#searches++
        this.#count('honest-found')
        if (fact.honestFound === 0) this.#failed.push({ node: fact.node, atMs })
        return
      case 'blacklisted':
        return this.#judge(
          'no-honest-blacklisted',
          fact.victimIs === 'hostile',
          atMs,
          fact.node,
          `it refuses the honest node ${fact.victim}`
        )
      case 'idle': {
        const grown = fact.after - fact.before
        return this.#judge(
          'idle-memory-flat',
          grown <= fact.slackEach * fact.nodes,
          atMs,
          0,
          `${fact.nodes} idle nodes grew by ${grown}, from ${fact.before}`
        )
      }
    }
  }

  /** Two ends that speak of one transaction must hold one hash after it. */
  #chain({ node, chain, seq, hash }: Extract<Fact, { fact: 'chain' }>, atMs: number): void {
    const points = this.#chains.get(chain) ?? new Map<string, { hash: string; node: number }>()
    this.#chains.set(chain, points)
    const known = points.get(seq)
    if (known === undefined) {
      points.set(seq, { hash, node })
      if (points.size > POINTS_MAX) points.delete(points.keys().next().value as string)
      return
    }
    if (known.node === node && known.hash === hash) return
    const message = `after transaction ${seq} it holds ${hash.slice(0, 16)}, node ${known.node} holds ${known.hash.slice(0, 16)}`
    this.#judge('hashes-agree', known.hash === hash, atMs, node, message)
  }

  /** What only the end tells: every acknowledged message was handed over, or waits; enough searches found somebody. */
  end(atMs: number): void {
    for (const [id, { node, to }] of this.#acked) {
      this.#judge('acked-kept', this.#reached.has(id), atMs, to, `message ${id} of node ${node} was acknowledged and is nowhere`)
    }
    const found = (this.#searches - this.#failed.length) / Math.max(1, this.#searches)
    if (found >= FOUND_MIN || this.#off.has('honest-found')) return
    for (const { node, atMs: failedMs } of this.#failed) this.#break('honest-found', failedMs, node, 'the search found no honest member')
  }

  verdicts(): Verdict[] {
    return INVARIANTS.map((invariant) => {
      const judged = this.#judged.get(invariant) ?? 0
      const brokenCount = this.#counts.get(invariant) ?? 0
      const state = this.#off.has(invariant) ? 'off' : brokenCount > 0 ? 'broken' : judged > 0 ? 'holds' : 'not-seen'
      return { invariant, says: SAYS[invariant], state, judged, brokenCount }
    })
  }

  /** names of those that broke */
  brokenNames(): InvariantName[] {
    return INVARIANTS.filter((name) => (this.#counts.get(name) ?? 0) > 0)
  }

  #count(invariant: InvariantName): void {
    this.#judged.set(invariant, (this.#judged.get(invariant) ?? 0) + 1)
  }

  #judge(invariant: InvariantName, holds: boolean, atMs: number, node: number, message: string): void {
    if (this.#off.has(invariant)) return
    this.#count(invariant)
    if (!holds) this.#break(invariant, atMs, node, message)
  }

  #break(invariant: InvariantName, atMs: number, node: number, message: string): void {
    this.#counts.set(invariant, (this.#counts.get(invariant) ?? 0) + 1)
    if (this.broken.length < BROKEN_MAX) this.broken.push({ invariant, atMs: Math.round(atMs), node, message })
  }
}

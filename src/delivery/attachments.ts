import { toHex } from '../../protocol/bytes.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'

export const ATTACH_LEASE_DEFAULT_MS = 30_000
export const ATTACH_LEASE_MIN_MS = 1_000
export const ATTACH_LEASE_MAX_MS = 3_600_000
/** Leases of one agent at a time; above it `ATTACHMENTS_MAX`. */
export const ATTACHMENTS_MAX = 16

export interface Attachment {
  /** 32 hex digits: who holds it may renew or end the lease */
  id: string
  agent: EidHex
  leaseMs: number
}

interface Held extends Attachment {
  endsAtMs: number
  cancel: () => void
}

/**
 * Which agents have a process of their own at work, by leases that it renews (G-16). In memory alone: when the node ends, so does every lease, and a
 * process that still lives takes another. One that dies is noticed when its lease ends.
 */
export class Attachments {
  readonly #clock: Clock
  readonly #random: Random
  readonly #changed: (agent: EidHex, now: 'attached' | 'detached') => void
  readonly #held = new Map<string, Held>()

  /** @param changed - told when the first lease of an agent begins and when the last one ends */
  constructor(
    { clock, random }: { clock: Clock; random: Random },
    changed: (agent: EidHex, now: 'attached' | 'detached') => void = () => {}
  ) {
    this.#clock = clock
    this.#random = random
    this.#changed = changed
  }

  has(agent: LocalAgent): boolean {
    return this.count(agent) > 0
  }

  count(agent: LocalAgent): number {
    return this.#of(homeOf(agent)).length
  }

  /** @throws RookeryError `ATTACHMENTS_MAX`, `LEASE_INVALID` */
  attach(agent: LocalAgent, { leaseMs = ATTACH_LEASE_DEFAULT_MS }: { leaseMs?: number | undefined } = {}): Attachment {
    checkLease(leaseMs)
    const home = homeOf(agent)
    const before = this.#of(home).length
    if (before >= ATTACHMENTS_MAX) {
      throw new RookeryError('ATTACHMENTS_MAX', `${ATTACHMENTS_MAX} processes are attached to ${agent.name} already`, {
        kind: 'refused',
        field: 'agent',
        value: agent.name,
        remedy: 'detach one of them, or wait until a lease ends'
      })
    }
    const id = toHex(this.#random.bytes(16))
    const held: Held = { id, agent: home, leaseMs, endsAtMs: 0, cancel: () => {} }
    this.#held.set(id, held)
    this.#prolong(held, leaseMs)
    if (before === 0) this.#changed(home, 'attached')
    return shown(held)
  }

  /** @throws RookeryError `ATTACHMENT_UNKNOWN` (it ended: attach again), `LEASE_INVALID` */
  renew(id: string, { leaseMs }: { leaseMs?: number | undefined } = {}): Attachment {
    const held = this.#held.get(id)
    if (held === undefined || held.endsAtMs <= this.#clock.monotonicMs()) {
      throw new RookeryError('ATTACHMENT_UNKNOWN', 'this lease has ended, or never was', {
        kind: 'notFound',
        field: 'id',
        value: id.slice(0, 64),
        remedy: 'attach again'
      })
    }
    if (leaseMs !== undefined) checkLease(leaseMs)
    this.#prolong(held, leaseMs ?? held.leaseMs)
    return shown(held)
  }

  detach(id: string): boolean {
    const held = this.#held.get(id)
    if (held === undefined) return false
    held.cancel()
    this.#held.delete(id)
    if (this.#of(held.agent).length === 0) this.#changed(held.agent, 'detached')
    return true
  }

  stop(): void {
    for (const { cancel } of this.#held.values()) cancel()
    this.#held.clear()
  }

  #prolong(held: Held, leaseMs: number): void {
    held.cancel()
    held.leaseMs = leaseMs
    held.endsAtMs = this.#clock.monotonicMs() + leaseMs
    held.cancel = this.#clock.after(leaseMs, () => this.detach(held.id))
  }

  #of(home: EidHex): Held[] {
    const nowMs = this.#clock.monotonicMs()
    return [...this.#held.values()].filter((one) => one.agent === home && one.endsAtMs > nowMs)
  }
}

function shown({ id, agent, leaseMs }: Held): Attachment {
  return { id, agent, leaseMs }
}

function checkLease(leaseMs: number): void {
  if (Number.isInteger(leaseMs) && leaseMs >= ATTACH_LEASE_MIN_MS && leaseMs <= ATTACH_LEASE_MAX_MS) return
  throw new RookeryError('LEASE_INVALID', `a lease is ${ATTACH_LEASE_MIN_MS} to ${ATTACH_LEASE_MAX_MS} ms`, {
    kind: 'usage',
    field: 'leaseMs',
    value: leaseMs,
    remedy: `leave it out for ${ATTACH_LEASE_DEFAULT_MS} ms`
  })
}

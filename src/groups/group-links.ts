import { compare, equals } from '../../protocol/bytes.ts'
import type { GroupMember } from '../../protocol/group/member.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Session } from '../sessions/session.ts'

/** The groups' channel of a session. */
export const GROUP_CHANNEL = 4
/** What is on its way to one peer for one group, before it acknowledges. */
const BATCH_ITEMS = 256
const BATCH_BYTES = 1_048_576
const DIAL_MS_MIN = 1_000
const DIAL_MS_MAX = 60_000
/** Up to so many members everyone is linked to everyone. */
const MESH_MEMBERS_MAX = 13

export type Connect = (agent: LocalAgent, to: Eid, options: { signal: AbortSignal }) => Promise<Session>

/**
 * Members that one member keeps sessions with: all of a small group. In a larger one, as on a ring in the order of EIDs, those 1, 2, 4 … places before
 * and behind it: at most 12 of 64, and what one writes reaches all over few others.
 */
export function neighboursOf(self: Eid, members: readonly Eid[]): Eid[] {
  const ring = [...members].sort(compare)
  if (ring.length <= MESH_MEMBERS_MAX) return ring.filter((one) => !equals(one, self))
  const at = ring.findIndex((one) => equals(one, self))
  const found = new Map<EidHex, Eid>()
  for (let step = 1; step <= ring.length / 2; step *= 2) {
    for (const place of [at + step, at - step]) {
      const one = ring[(place + ring.length) % ring.length] as Eid
      found.set(eidHex(one), one)
    }
  }
  return [...found.values()]
}

interface Components {
  clock: Clock
  logger: Logger
  connect: Connect
}

/** The sessions over which one agent's part of one group talks to others: sends what the core has for them, and dials members without one. */
export class GroupLinks {
  readonly #c: Components
  readonly #agent: LocalAgent
  readonly #core: GroupMember
  readonly #signal: AbortSignal
  /** by EID; the sessions of the agent */
  readonly #sessions = new Map<EidHex, Session>()
  readonly #sending = new Set<Session>()
  /** by EID, members that are being dialled or wait to be */
  readonly #dialling = new Map<EidHex, () => void>()

  constructor(components: Components, agent: LocalAgent, core: GroupMember, signal: AbortSignal) {
    this.#c = components
    this.#agent = agent
    this.#core = core
    this.#signal = signal
  }

  has(hex: EidHex): boolean {
    return this.#sessions.has(hex)
  }

  up(session: Session): void {
    const hex = eidHex(session.remote)
    this.#sessions.set(hex, session)
    this.#dialling.get(hex)?.()
    this.#dialling.delete(hex)
  }

  /** @returns whether this session was the one in use */
  down(hex: EidHex, session: Session): boolean {
    if (this.#sessions.get(hex) !== session) return false
    this.#sessions.delete(hex)
    return true
  }

  /** Sends whatever the core has to say, to everyone. */
  pump(): void {
    for (const session of this.#sessions.values()) if (!this.#sending.has(session)) void this.#send(session)
  }

  async #send(session: Session): Promise<void> {
    this.#sending.add(session)
    try {
      for (;;) {
        if (this.#sessions.get(eidHex(session.remote)) !== session) return
        const bounds = { itemsMax: BATCH_ITEMS, bytesMax: BATCH_BYTES }
        const items = this.#core.outbox(session.remote, this.#c.clock.monotonicMs(), bounds)
        if (items.length === 0) return
        // vectors and requests do not wait for what is durable
        const sent = items.map(({ kind, payload }) => {
          const done = session.send(GROUP_CHANNEL, kind, payload)
          return kind === ITEM_KINDS.live ? done.catch(ignored) : done
        })
        const outcomes = await Promise.allSettled(sent)
        const failed = outcomes.find((one) => one.status === 'rejected')
        if (failed !== undefined) {
          // what the peer lacks it asks for, here or elsewhere
          this.#c.logger.debug({ err: failed.reason }, 'an item of a group could not be sent')
          return
        }
      }
    } finally {
      this.#sending.delete(session)
    }
  }

  /** Dials the neighbours without a session: the member with the smaller EID at once, the other one a little later. */
  dial(): void {
    const { statement, self } = this.#core
    const members = statement.members.map((one) => one.eid)
    for (const member of neighboursOf(self, members)) {
      const hex = eidHex(member)
      if (this.#sessions.has(hex) || this.#dialling.has(hex)) continue
      this.#dialLater(member, hex, compare(self, member) < 0 ? 0 : DIAL_MS_MIN, DIAL_MS_MIN)
    }
  }

  #dialLater(member: Eid, hex: EidHex, delayMs: number, nextMs: number): void {
    const stop = new AbortController()
    const cancel = this.#c.clock.after(delayMs, () => void this.#dial(member, hex, nextMs, stop.signal))
    this.#dialling.set(hex, () => {
      cancel()
      stop.abort()
    })
  }

  async #dial(member: Eid, hex: EidHex, nextMs: number, stop: AbortSignal): Promise<void> {
    if (this.#signal.aborted || this.#core.isRemoved || stop.aborted) return
    try {
      await this.#c.connect(this.#agent, member, { signal: AbortSignal.any([this.#signal, stop]) })
    } catch (error) {
      if (this.#signal.aborted || stop.aborted) return
      this.#c.logger.debug({ err: error }, 'a member of a group cannot be reached yet')
    }
    this.#dialling.delete(hex)
    const isMember = this.#core.statement.members.some((one) => equals(one.eid, member))
    if (isMember && !this.#sessions.has(hex) && !this.#signal.aborted) {
      this.#dialLater(member, hex, nextMs, Math.min(nextMs * 2, DIAL_MS_MAX))
    }
  }

  stop(): void {
    for (const cancel of this.#dialling.values()) cancel()
    this.#dialling.clear()
    this.#sessions.clear()
  }
}

function ignored(): void {}

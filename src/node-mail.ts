import { fromHex, toHex } from '../protocol/bytes.ts'
import { objectIdOf } from '../protocol/delivery/object.ts'
import { awaitsDelivery } from '../protocol/delivery/outbox-state.ts'
import { type Eid, type EidHex, eidFromDid, eidHex, eid as eidOf } from '../protocol/identity/eid.ts'
import { OutboxDelivery } from './a2a/deliver-outbox.ts'
import { checkParams } from './a2a/params.ts'
import type { SendOutcome } from './a2a/send-message.ts'
import type { DrainReport } from './delivery/asleep-queue.ts'
import type { KeeperStore } from './delivery/keeper-store.ts'
import type { Outbox, OutboxEntry } from './delivery/outbox.ts'
import { OutboxRunner } from './delivery/outbox-runner.ts'
import { type KeeperRound, OwnKeepers } from './delivery/own-keepers.ts'
import { homeOf, type LocalAgent } from './identity/agent.ts'
import type { NodeParts } from './node-parts.ts'
import type { Session } from './sessions/session.ts'
import { stateClass } from './tasks/states.ts'
import type { JsonObject } from './tasks/todo.ts'

export interface MailComponents extends NodeParts {
  /** as {@link RookeryNode.send} with `waitMs: 0` */
  send: (input: { from: LocalAgent; to: Eid; message: JsonObject }, signal: AbortSignal) => Promise<SendOutcome>
  open: (from: LocalAgent, to: Eid, signal: AbortSignal) => Promise<Session>
  newest: (eid: Eid) => Eid
  drain: (agent: LocalAgent, signal: AbortSignal) => Promise<DrainReport | undefined>
}

/** Mail of a node: the outbox of its agents, and the keepers that hold mail for them (protocol/README.md §7). */
export class NodeMail {
  readonly outbox: Outbox
  readonly #c: MailComponents
  readonly #runner: OutboxRunner
  readonly #keepers: OwnKeepers
  readonly #ownKeepers: readonly Eid[]

  constructor(components: MailComponents) {
    const { config, outbox, agents, successions, clockGuard, queue } = components
    this.#c = components
    this.outbox = outbox
    this.#ownKeepers = config.keepers.map((did) => eidFromDid(did))
    const rootOf = (hex: EidHex) => successions.rootOf(hex)
    outbox.onEvent(({ entry }) => void this.#forgetCopy(entry))
    const agent = (home: EidHex) => agents.list().find((one) => homeOf(one) === home)
    const delivery = new OutboxDelivery({ ...components, agent }, { copies: config.outbox.copies })
    this.#runner = new OutboxRunner({
      ...components,
      logger: components.logger.child('outbox'),
      rootOf,
      attempt: (entry, audience, signal) => delivery.attempt(entry, audience, signal)
    })
    this.#keepers = new OwnKeepers({
      ...components,
      logger: components.logger.child('keepers'),
      queue,
      clockGuard,
      agents: () => agents.list(),
      keepersOf: () => this.#ownKeepers.filter((one) => agents.ofAnyEid(one) === undefined),
      formerOf: (one) => components.mailRecords.former(one).filter((eid) => agents.ofAnyEid(eid) === undefined),
      mailOf: (one) => components.mailRecords.published(one),
      bounds: () => config.queue,
      rootOf,
      taskEnded: async (id) => {
        const todo = await components.todos.get(id)
        return todo === undefined || stateClass(todo.state) === 'terminal'
      },
      slotOf: (one, issuer) => components.access.slotOf(homeOf(one), issuer),
      isOwn: (one, eid) => agents.ofAnyEid(eid)?.homeHex === homeOf(one)
    })
  }

  /** Tries what an earlier run left and asks the keepers, now and from then on. */
  begin(): void {
    const { sessions, locators, closing } = this.#c
    closing.push('outbox', 500, () => this.#runner.stop())
    closing.push('keepers', 500, () => this.#keepers.stop())
    sessions.onSession((session) => this.#seen(session.remote))
    sessions.onEvent((event) => {
      if (event.kind === 'resumed') this.#seen(eidFromDid(event.session.remote))
    })
    locators.onNewer((eid) => this.#seen(eid))
    for (const [home, record] of this.#c.keeper?.mailRecords() ?? []) this.#c.mailRecords.keepAlive(home, record)
    this.#runner.start()
    this.#keepers.start()
  }

  /**
   * Undertakes to deliver a message, whatever becomes of the audience, its host or this process; on disk when it resolves.
   * @throws RookeryError `OUTBOX_FULL`, `MESSAGE_ID_REUSED`, `STORE_WRITE_FAILED`; A2aError for a message that is none
   */
  async post(input: { from: LocalAgent; to: Eid; message: JsonObject; ttlMs?: number | undefined }): Promise<OutboxEntry> {
    const { from, to, message, ttlMs } = input
    checkParams('SendMessage', { message })
    const traceparent = this.#c.tracer.current()
    const { entry } = await this.outbox.add({ from: homeOf(from), to: eidHex(to), message, ttlMs, traceparent })
    void this.#runner.kick(entry.from, entry.to)
    return entry
  }

  /** Tries now what is not at its end. Resolves when the round has ended. */
  async retry(entry: OutboxEntry): Promise<void> {
    await this.#runner.kick(entry.from, entry.to)
  }

  progress(entry: OutboxEntry): ReturnType<OutboxRunner['progress']> {
    return this.#runner.progress(entry)
  }

  /** Asks all keepers of an agent now. */
  async fetch(agent: LocalAgent): Promise<KeeperRound> {
    return await this.#keepers.round(agent)
  }

  /** What this node holds for agents of other nodes. */
  async held(): ReturnType<KeeperStore['usage']> {
    return (await this.#c.keeper?.usage()) ?? []
  }

  /** An agent woke: what its keepers hold can have its effect, and what had it is confirmed to them. */
  woke(): void {
    this.#keepers.start()
  }

  async sweep(): Promise<void> {
    await this.outbox.sweep()
    await this.#c.keeper?.sweep()
  }

  /** The sealed copy of what needs no resending any more. */
  async #forgetCopy({ from, to, messageId, state }: OutboxEntry): Promise<void> {
    if (awaitsDelivery(state)) return
    const { crypto, outgoing, store, logger } = this.#c
    try {
      for (const audience of new Set([to, eidHex(this.#c.newest(eidOf(fromHex(to))))])) {
        const objectId = toHex(objectIdOf(crypto, eidOf(fromHex(from)), eidOf(fromHex(audience)), messageId))
        const removal = outgoing.removal({ issuer: from, audience, objectId })
        await store.commit(removal.ops)
        removal.done()
      }
    } catch (error) {
      logger.warn({ err: error }, 'a sealed copy could not be removed; it goes when it ends')
    }
  }

  #seen(peer: Eid): void {
    this.#runner.seen(eidHex(peer))
    const root = this.#c.successions.rootOf(eidHex(peer))
    if (this.#ownKeepers.some((one) => this.#c.successions.rootOf(eidHex(one)) === root)) this.#keepers.seen()
  }
}

/** Whether the owner lets this node keep for an audience, under any EID that it was known by (G-18). */
export function mayKeepFor(dids: readonly string[], rootOf: (hex: EidHex) => EidHex): (audience: EidHex) => boolean {
  const wanted = dids.map((did) => eidHex(eidFromDid(did)))
  return (audience) => wanted.includes(audience) || wanted.some((one) => rootOf(one) === rootOf(audience))
}

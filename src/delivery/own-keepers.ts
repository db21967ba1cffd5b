import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { QueueBounds } from '../../protocol/delivery/bounds.ts'
import { type Confirmation, signConfirmation } from '../../protocol/delivery/confirmation.ts'
import { NAMES_MAX, PAGE_OBJECTS_MAX } from '../../protocol/delivery/keeper-messages.ts'
import { DEPOSIT_OBJECT_BYTES_MAX, type MailboxRefusalCode } from '../../protocol/delivery/mailbox.ts'
import { decodeObject, type GovernedObject, verifyObject } from '../../protocol/delivery/object.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, type EidHex, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'
import type { Session } from '../sessions/session.ts'
import type { AsleepQueue, DrainReport } from './asleep-queue.ts'
import type { ClockGuard } from './clock-guard.ts'
import { type MailboxChannel, mailboxChannelOf } from './mailbox-channel.ts'
import type { ReplayCache } from './replay-cache.ts'

/** Keepers are asked again so often while all is well, and renewed by it; */
export const ROUND_MS = 5 * 60_000
/** after a round in which one was missed, sooner: twice as long each time, up to that. */
export const ROUND_AGAIN_MS = 10_000
const JITTER = 0.2
/** Messages whose task goes on, and whose keepers hear when it has ended; above it the oldest stays `delivered` to its sender, as after a restart. */
export const UNHANDLED_MAX = 1_000

export interface OwnKeepersComponents {
  queue: Pick<AsleepQueue, 'enqueue'>
  replay: Pick<ReplayCache, 'has'>
  clockGuard: Pick<ClockGuard, 'now' | 'held'>
  crypto: CryptoProvider
  clock: Clock
  random: Random
  logger: Logger
  agents: () => readonly LocalAgent[]
  keepersOf: (agent: LocalAgent) => readonly Eid[]
  /** keepers that it had before and that may still hold something: asked, not engaged */
  formerOf: (agent: LocalAgent) => readonly Eid[]
  /** the mail record that a keeper is to put again */
  mailOf: (agent: LocalAgent) => Uint8Array | undefined
  bounds: () => QueueBounds
  open: (agent: LocalAgent, keeper: Eid, signal: AbortSignal) => Promise<Session>
  /** validates what waits and hands it over; undefined while the agent takes no work */
  drain: (agent: LocalAgent, signal: AbortSignal) => Promise<DrainReport | undefined>
  rootOf: (eid: EidHex) => EidHex
  /** what an issuer's messages count against (G-13) */
  slotOf: (agent: LocalAgent, issuer: EidHex) => string
  isOwn: (agent: LocalAgent, eid: Eid) => boolean
  /** whether a task of ours has ended */
  taskEnded: (todo: string) => Promise<boolean>
}

/** What a round of an agent's keepers came to. */
export interface KeeperRound {
  /** keepers that answered, and those that did not or refused */
  met: number
  missed: number
  fetched: number
  /** objects that a keeper handed out though they are forged, for another, or malformed */
  faults: number
  confirmed: number
}

interface Item {
  readonly bytes: Uint8Array
  readonly object: GovernedObject
  readonly hash: Uint8Array
  readonly from: Set<Keeper>
  key: string | undefined
  /** the task that it became, where this round saw it */
  todo: string | undefined
  verdict: { state: 'delivered' } | { state: 'refused'; reason: string } | undefined
}

/** Confirmed as delivered, while its task goes on. */
interface Unhandled {
  readonly agent: string
  readonly todo: string
  readonly about: Pick<Confirmation, 'objectHash' | 'id' | 'issuer' | 'audience'>
  readonly untilMs: number
  /** who is to hear */
  readonly keepers: Set<EidHex>
}

interface Keeper {
  readonly eid: Eid
  readonly channel: MailboxChannel
}

/**
 * Fetches on return what the keepers of our agents hold (protocol/README.md §7): from all that can be reached, put in the order in which each issuer sealed, into the
 * agent's own queue and through the same drain as everything else. Only what had its effect, or never will, is confirmed and released.
 */
export class OwnKeepers {
  readonly #c: OwnKeepersComponents
  readonly #stopping = new AbortController()
  readonly #running = new Map<string, Promise<KeeperRound>>()
  /** by issuer and id */
  readonly #unhandled = new Map<string, Unhandled>()
  #failures = 0
  #cancel: () => void = () => {}

  constructor(components: OwnKeepersComponents) {
    this.#c = components
  }

  /** A round now and from then on. */
  start(): void {
    this.#cancel()
    if (this.#stopping.signal.aborted) return
    const rounds = this.#c.agents().filter((agent) => this.#c.keepersOf(agent).length + this.#c.formerOf(agent).length > 0)
    if (rounds.length === 0) return
    void Promise.all(rounds.map((agent) => this.round(agent))).then(
      (reports) => this.#next(reports.some(({ missed }) => missed > 0)),
      (error: unknown) => {
        if (this.#stopping.signal.aborted) return
        this.#c.logger.warn({ err: error }, 'keepers could not be asked and are asked again')
        this.#next(true)
      }
    )
  }

  /** A keeper proved that it is there: after a round that missed one, the next comes now. */
  seen(): void {
    if (this.#failures > 0 && this.#running.size === 0) this.start()
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new RookeryError('NODE_STOPPING', 'the node stops', { kind: 'unavailable' }))
    this.#cancel()
    await Promise.allSettled(this.#running.values())
  }

  #next(missed: boolean): void {
    if (this.#stopping.signal.aborted) return
    this.#failures = missed ? this.#failures + 1 : 0
    const wholeMs = missed ? Math.min(ROUND_MS, ROUND_AGAIN_MS * 2 ** Math.min(20, this.#failures - 1)) : ROUND_MS
    this.#cancel()
    this.#cancel = this.#c.clock.after(Math.round(wholeMs * (1 - JITTER * randomFraction(this.#c.random))), () => this.start())
  }

  /** Asks all keepers of an agent; a second call joins the first. */
  round(agent: LocalAgent): Promise<KeeperRound> {
    let running = this.#running.get(agent.name)
    if (running === undefined) {
      running = this.#round(agent).finally(() => this.#running.delete(agent.name))
      this.#running.set(agent.name, running)
    }
    return running
  }

  async #round(agent: LocalAgent): Promise<KeeperRound> {
    const { signal } = this.#stopping
    const report: KeeperRound = { met: 0, missed: 0, fetched: 0, faults: 0, confirmed: 0 }
    if (this.#c.clockGuard.held() !== undefined) return report
    const items = new Map<string, Item>()
    const met: Keeper[] = []
    const all = [
      ...this.#c.keepersOf(agent).map((eid) => ({ eid, isFormer: false })),
      ...this.#c.formerOf(agent).map((eid) => ({ eid, isFormer: true }))
    ]
    // At once, so that one which cannot be reached holds up no other; few, by the owner's own list.
    await Promise.all(
      all.map(async ({ eid, isFormer }) => {
        try {
          met.push(await this.#fetch(agent, { eid, isFormer }, items, report))
          report.met++
        } catch (error) {
          signal.throwIfAborted()
          // nobody hurries for the sake of one that was let go
          if (!isFormer) report.missed++
          const code = error instanceof RookeryError ? error.code : 'INTERNAL'
          this.#c.logger.warn({ agent: agent.name, keeper: eidToDid(eid), code }, 'a keeper could not be asked; it is asked again')
        }
      })
    )
    signal.throwIfAborted()
    report.fetched = items.size
    // Stable, so that of one millisecond the order of arrival stands.
    await this.#take(
      agent,
      [...items.values()].sort((a, b) => a.object.issuedAtMs - b.object.issuedAtMs)
    )
    report.confirmed = await this.#release(agent, [...items.values()])
    await this.#tellHandled(agent, met)
    return report
  }

  /** Engages the keeper, or renews, unless it is a former one; then reads all its pages. A keeper that never ends is left at the bounds that it granted. */
  async #fetch(
    agent: LocalAgent,
    { eid, isFormer }: { eid: Eid; isFormer: boolean },
    items: Map<string, Item>,
    report: KeeperRound
  ): Promise<Keeper> {
    const { signal } = this.#stopping
    const session = await this.#c.open(agent, eid, signal)
    const channel = mailboxChannelOf(session, this.#c.clock)
    const keeper: Keeper = { eid, channel }
    if (!isFormer) {
      const mail = this.#c.mailOf(agent)
      const rotations = agent.rotationProofs?.() ?? []
      const kept = await channel.ask(
        {
          type: 'keep',
          bounds: this.#c.bounds(),
          ...(mail === undefined ? {} : { mail }),
          ...(rotations.length === 0 ? {} : { rotations })
        },
        { signal }
      )
      if (kept.type === 'refusal') throw refused(kept.code)
    }
    const { messagesMax, bytesMax } = this.#c.bounds()
    let after = 0
    let count = 0
    let bytes = 0
    for (let more = true; more; ) {
      const page = await channel.ask({ type: 'fetch', after }, { signal })
      if (page.type === 'refusal') throw refused(page.code)
      for (const object of page.objects) {
        this.#sort(agent, object, keeper, items, report)
        bytes += object.length
      }
      count += page.objects.length
      more =
        page.more &&
        page.objects.length > 0 &&
        page.next > after &&
        count < messagesMax + PAGE_OBJECTS_MAX &&
        bytes <= bytesMax + DEPOSIT_OBJECT_BYTES_MAX
      after = page.next
    }
    return keeper
  }

  #sort(agent: LocalAgent, bytes: Uint8Array, keeper: Keeper, items: Map<string, Item>, report: KeeperRound): void {
    const { crypto, clockGuard, isOwn, logger } = this.#c
    try {
      const object = decodeObject(bytes, { bytesMax: DEPOSIT_OBJECT_BYTES_MAX })
      verifyObject(crypto, object, { nowMs: clockGuard.now(), audience: isOwn(agent, object.audience) ? object.audience : agent.eid })
      const hash = crypto.sha256(bytes)
      const held = items.get(toHex(hash))
      if (held !== undefined) held.from.add(keeper)
      else items.set(toHex(hash), { bytes, object, hash, from: new Set([keeper]), key: undefined, todo: undefined, verdict: undefined })
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      if (error.code === 'OBJECT_EXPIRED' || error.code === 'OBJECT_FUTURE') return
      report.faults++
      logger.warn(
        { agent: agent.name, keeper: eidToDid(keeper.eid), code: error.code },
        'a keeper handed out an object that no issuer signed for us'
      )
    }
  }

  /** Into the agent's queue and out of it again, as far as its bounds and its mode let; what is left is fetched again another time. */
  async #take(agent: LocalAgent, items: readonly Item[]): Promise<void> {
    const { signal } = this.#stopping
    let isAwake = true
    for (const item of items) {
      signal.throwIfAborted()
      if (await this.#hadEffect(item)) continue
      let taken = await this.#enqueue(agent, item)
      if (taken === 'full' && isAwake) {
        isAwake = await this.#drain(agent, items)
        if (isAwake) taken = await this.#enqueue(agent, item)
      }
      if (taken === 'full') break
    }
    await this.#drain(agent, items)
  }

  async #enqueue(agent: LocalAgent, item: Item): Promise<'queued' | 'full' | 'ended'> {
    const { audience, issuer } = item.object
    // The depositor is not known here, and the issuer signed: it is to him that the message counts.
    const principal = `eid:${this.#c.rootOf(eidHex(issuer))}`
    const answer = await this.#c.queue.enqueue({
      audience: eidHex(audience),
      principal,
      slot: this.#c.slotOf(agent, eidHex(issuer)),
      object: item.bytes
    })
    if (answer.status === 'full') return 'full'
    if (answer.status === 'queued') item.key = answer.record.key
    else if (answer.status !== 'expired')
      item.verdict = { state: 'refused', reason: answer.status === 'conflict' ? 'OBJECT_CONFLICT' : 'TOO_LARGE' }
    return answer.status === 'queued' ? 'queued' : 'ended'
  }

  async #hadEffect(item: Item): Promise<boolean> {
    if (item.verdict === undefined && (await this.#c.replay.has(eidHex(item.object.issuer), toHex(item.object.id))))
      item.verdict = { state: 'delivered' }
    return item.verdict !== undefined
  }

  /** @returns false while the agent takes no work */
  async #drain(agent: LocalAgent, items: readonly Item[]): Promise<boolean> {
    const report = await this.#c.drain(agent, this.#stopping.signal)
    if (report === undefined) return false
    for (const item of items) {
      if (item.key === undefined) continue
      const event = report.events.find(({ key }) => key === item.key)
      item.todo ??= event?.todo
      if (await this.#hadEffect(item)) continue
      if (event?.outcome === 'invalid') item.verdict = { state: 'refused', reason: event.reason ?? 'INVALID' }
    }
    return true
  }

  async #release(agent: LocalAgent, items: readonly Item[]): Promise<number> {
    const words: Word[] = []
    for (const { verdict, object, hash, from, todo } of items) {
      if (verdict === undefined) continue
      const about = { objectHash: hash, id: object.id, issuer: object.issuer, audience: object.audience }
      const goesOn = verdict.state === 'delivered' && todo !== undefined && !(await this.#c.taskEnded(todo))
      const isOver = verdict.state === 'delivered' && todo !== undefined && !goesOn
      if (goesOn) this.#remember({ agent: agent.name, todo, about, untilMs: object.expiresAtMs, keepers: keysOf(from) })
      words.push({ bytes: this.#word(agent, about, isOver ? { state: 'handled' } : verdict), to: [...from] })
    }
    await this.#send(agent, words)
    return words.length
  }

  #word(agent: LocalAgent, about: Unhandled['about'], said: Pick<Confirmation, 'state' | 'reason'>): Uint8Array {
    return signConfirmation(agent.signer, { ...about, ...said, atMs: this.#c.clockGuard.now() })
  }

  #remember(one: Unhandled): void {
    const name = `${eidHex(one.about.issuer)}/${toHex(one.about.id)}`
    this.#unhandled.delete(name)
    if (this.#unhandled.size >= UNHANDLED_MAX) this.#unhandled.delete(this.#unhandled.keys().next().value as string)
    this.#unhandled.set(name, one)
  }

  /** Tasks that ended since their messages were confirmed: whoever kept those tells the senders more. */
  async #tellHandled(agent: LocalAgent, met: readonly Keeper[]): Promise<void> {
    const nowMs = this.#c.clockGuard.now()
    for (const [name, one] of this.#unhandled) {
      if (one.agent !== agent.name) continue
      const to = met.filter(({ eid }) => one.keepers.has(eidHex(eid)))
      if (one.untilMs <= nowMs) this.#unhandled.delete(name)
      else if (to.length > 0 && (await this.#c.taskEnded(one.todo))) {
        const told = await this.#send(agent, [{ bytes: this.#word(agent, one.about, { state: 'handled' }), to }])
        for (const { eid } of told) one.keepers.delete(eidHex(eid))
        if (one.keepers.size === 0) this.#unhandled.delete(name)
      }
    }
  }

  /** @returns the keepers that took all of what they were told */
  async #send(agent: LocalAgent, words: readonly Word[]): Promise<Keeper[]> {
    const { signal } = this.#stopping
    const byKeeper = new Map<Keeper, Uint8Array[]>()
    for (const { bytes, to } of words) for (const keeper of to) byKeeper.set(keeper, [...(byKeeper.get(keeper) ?? []), bytes])
    const told: Keeper[] = []
    for (const [keeper, all] of byKeeper) {
      try {
        for (let at = 0; at < all.length; at += NAMES_MAX)
          await keeper.channel.ask({ type: 'release', confirmations: all.slice(at, at + NAMES_MAX) }, { signal })
        told.push(keeper)
      } catch (error) {
        signal.throwIfAborted()
        this.#c.logger.warn(
          { agent: agent.name, keeper: eidToDid(keeper.eid), err: error },
          'a keeper was not told what it need not hold; it is told again'
        )
      }
    }
    return told
  }
}

/** A confirmation, and who is to have it. */
interface Word {
  readonly bytes: Uint8Array
  readonly to: readonly Keeper[]
}

function keysOf(keepers: ReadonlySet<Keeper>): Set<EidHex> {
  return new Set([...keepers].map(({ eid }) => eidHex(eid)))
}

function refused(code: MailboxRefusalCode): RookeryError {
  return new RookeryError('KEEPER_REFUSED', `the keeper answered ${code}`, {
    kind: 'refused',
    data: { code },
    remedy: 'its owner lists this agent under keeper.for, or another keeper is named under keepers'
  })
}

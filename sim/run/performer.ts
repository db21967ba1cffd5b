import { equals, utf8 } from '../../protocol/bytes.ts'
import { QUEUE_BOUNDS_DEFAULT } from '../../protocol/delivery/bounds.ts'
import { type Eid, eid, eidToDid } from '../../protocol/identity/eid.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../src/errors.ts'
import { homeOf } from '../../src/identity/agent.ts'
import type { Clock } from '../../src/platform/clock.ts'
import type { Session } from '../../src/sessions/session.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { derivedBytes } from '../engine/seeds.ts'
import type { SimAction } from '../scenario/events.ts'
import { probeCookie } from './cookie-probe.ts'
import type { Fact } from './facts.ts'
import type { Outcome } from './recorder.ts'

/** A channel that the node itself serves for nothing */
export const ECHO_CHANNEL = 32
const SLEEPERS_WAIT_MS = 5_000
/** sessions of one node that an audit looks at */
const SESSIONS_SEEN_MAX = 1_000
const MESSAGE = /^sim-(\d+)$/
/** What a session says when the other end holds other hashes: every error of a chain names one of these. */
const ANOTHER_CHAIN = /rolling hash|another chain|two chains|terminal checksum|another transaction/

export interface Performed {
  outcome: Outcome
  facts: Fact[]
  /** whom a search showed, as places in the plan; -1 for a stranger */
  found?: number[]
}

type NodeAction = Exclude<SimAction, { do: 'partition' | 'heal' | 'attack' | 'kill' | 'restart' }>

/** Does on a real node what a plan says, in the thread where the node runs. */
export class Performer {
  readonly #seed: number
  readonly #clock: Clock
  readonly #indexByDid = new Map<string, number>()
  readonly #eids: Eid[] = []
  /** messages that an agent's handler was called for since the last audit */
  readonly #handed = new Map<number, number[]>()
  /** a handler that a crash cut short is called again, which is no second notification */
  readonly #everHanded = new Set<string>()
  readonly #diverged = new Map<number, { to: number; detail: string }[]>()
  /** sessions that are open, by node; a node's own bound bounds them */
  readonly #sessions = new Map<number, Set<Session>>()
  readonly #nodes: number
  readonly #patienceMs: number
  #probes = 0

  constructor({ seed, nodes, clock, patienceMs }: { seed: number; nodes: number; clock: Clock; patienceMs?: number | undefined }) {
    this.#patienceMs = patienceMs ?? SLEEPERS_WAIT_MS
    this.#seed = seed
    this.#nodes = nodes
    this.#clock = clock
  }

  #eidOf(index: number): Eid {
    let known = this.#eids[index]
    if (known === undefined) {
      known = eid(nodeCrypto.ed25519.publicKey(derivedBytes(this.#seed, 'agent-key', index)))
      this.#eids[index] = known
    }
    return known
  }

  #indexOf(did: string): number {
    if (this.#indexByDid.size === 0) for (let i = 0; i < this.#nodes; i++) this.#indexByDid.set(eidToDid(this.#eidOf(i)), i)
    return this.#indexByDid.get(did) ?? -1
  }

  /** Puts an echo and a mailbox on a node that has started. */
  async prepare({ node, agent, index }: SimNode): Promise<void> {
    const sessions = new Set<Session>()
    this.#sessions.set(index, sessions)
    node.sessions.onSession((session) => {
      echo(session)
      sessions.add(session)
      void session.closed.then(() => sessions.delete(session))
    })
    node.sessions.onEvent((event) => {
      const isOfHashes = event.kind === 'diverged' || (event.kind === 'ended' && ANOTHER_CHAIN.test(event.error ?? ''))
      if (!isOfHashes) return
      const list = this.#diverged.get(index) ?? []
      this.#diverged.set(index, list)
      list.push({ to: this.#indexOf(event.session.remote), detail: event.error ?? event.reason })
    })
    await node.onTask(
      agent,
      async ({ message, attempt }) => {
        const id = MESSAGE.exec(String(message.messageId))?.[1]
        const isFirst = attempt === 1 || !this.#everHanded.has(`${index} ${id}`)
        if (id !== undefined && isFirst) {
          this.#everHanded.add(`${index} ${id}`)
          const list = this.#handed.get(index) ?? []
          this.#handed.set(index, list)
          list.push(Number(id))
        }
        return { text: 'done' }
      },
      { sideEffects: 'none' }
    )
  }

  /** @throws RookeryError and whatever else the node throws: it did not go well */
  async perform(sim: SimNode, action: NodeAction, signal: AbortSignal): Promise<Performed> {
    const { node, agent } = sim
    const startedMs = this.#clock.monotonicMs()
    const facts: Fact[] = []
    const well = (more: Omit<Outcome, 'action'> = {}): Performed => ({
      outcome: { action, latencyMs: this.#clock.monotonicMs() - startedMs, ...more },
      facts
    })
    switch (action.do) {
      case 'announce':
        await node.spaces.announce({ name: action.space, curator: agent }, { signal })
        return well()
      case 'join': {
        const { stored } = await node.spaces.join({ name: action.space, agent }, { signal })
        if (stored === 0) throw new RookeryError('SIM_NOT_STORED', 'no registrar took the join', { kind: 'unavailable' })
        return well()
      }
      case 'leave':
        await node.spaces.leave({ name: action.space, agent }, { signal })
        return well()
      case 'discover':
        return await this.#discover(sim, action, signal, well, facts)
      case 'publish':
        await node.locators.publish(agent, { signal })
        return well()
      case 'openSession':
        return await this.#openSession(sim, action.to, signal, well)
      case 'send': {
        const message = { messageId: `sim-${action.id}`, role: 'ROLE_USER', parts: [{ text: 'x'.repeat(action.bytes) }] }
        const to = this.#eidOf(action.to)
        const { outcome } = await node.send({ from: agent, to, message }, { waitMs: 0, signal })
        if (outcome !== 'task' && outcome !== 'message' && outcome !== 'queued') {
          throw new RookeryError(outcome === 'asleep' ? 'AGENT_ASLEEP' : 'QUEUE_FULL', 'the message was not taken', { kind: 'unavailable' })
        }
        facts.push({ fact: 'acked', id: action.id, node: action.node, to: action.to })
        return well()
      }
      case 'sleep':
        await node.sleep(agent, { signal, ...(action.forMs === undefined ? {} : { untilMs: this.#clock.nowMs() + action.forMs }) })
        return well()
      case 'wake':
        if (agent.reachability.mode === 'sleep') await node.wake(agent, { signal })
        else await node.setMode(agent, { mode: 'always_on' }, { signal })
        return well()
    }
  }

  async #discover(
    { node, index }: SimNode,
    { space, by }: Extract<NodeAction, { do: 'discover' }>,
    signal: AbortSignal,
    well: (more?: Omit<Outcome, 'action'>) => Performed,
    facts: Fact[]
  ): Promise<Performed> {
    const found = new Set<number>()
    let hops: number | undefined
    if (by === 'anonymous') {
      for await (const { did } of node.discover({ name: space }, { signal })) found.add(this.#indexOf(did))
    } else {
      const name = by === 'topic' ? space : parentOf(space)
      const result = await node.spaces.find({ name }, { signal })
      hops = result.registrars.hops
      const nowMs = this.#clock.nowMs()
      for (const { did, expiresAtMs } of result.members) {
        found.add(this.#indexOf(did))
        facts.push({ fact: 'served', node: index, expiresAtMs, nowMs })
      }
    }
    const performed = well({ ...(hops === undefined ? {} : { hops }) })
    return { ...performed, found: [...found] }
  }

  async #openSession(
    { node, agent, index }: SimNode,
    to: number,
    signal: AbortSignal,
    well: (more?: Omit<Outcome, 'action'>) => Performed
  ): Promise<Performed> {
    const target = this.#eidOf(to)
    const { address } = await node.locators.resolve(target, { signal, fresh: true })
    const session = await node.sessions.open(agent, target, address, { signal })
    const echoed = Promise.withResolvers<Uint8Array>()
    session.onChannel(ECHO_CHANNEL, async ({ payload }) => echoed.resolve(payload.slice()))
    const sent = utf8(`node ${index} greets node ${to}`)
    const sentMs = this.#clock.monotonicMs()
    await session.send(ECHO_CHANNEL, ITEM_KINDS.live, sent, { signal })
    const got = await Promise.race([echoed.promise, whenAborted(signal)])
    if (!equals(got, sent)) throw new RookeryError('SIM_ECHO_WRONG', 'what came back is not what was sent', { kind: 'internal' })
    return well({ handshakeMs: session.info().handshakeMs, roundTripMs: this.#clock.monotonicMs() - sentMs })
  }

  /** Half a session of a stranger, by way of another node. */
  async probe(caller: SimNode, target: SimNode, signal: AbortSignal): Promise<Fact[]> {
    return await probeCookie(caller, target, this.#eidOf(target.index), { seed: this.#seed, number: this.#probes++, signal })
  }

  /** Where its sessions stand, as it says. */
  chains({ index }: Pick<SimNode, 'index'>): Fact[] {
    return [...(this.#sessions.get(index) ?? [])].slice(0, SESSIONS_SEEN_MAX).flatMap((session) => {
      const { id, local, remote } = session.info()
      const { tx, acked, rx } = session.vectors()
      const fact = (sender: string, { seq, hash }: { seq: string; hash: string }): Fact[] =>
        seq === '0' ? [] : [{ fact: 'chain', node: index, chain: `${id} ${sender}`, seq, hash }]
      return [...fact(local, acked), ...fact(local, tx), ...fact(remote, rx)]
    })
  }

  /**
   * What a node holds now.
   * @param awake - it is woken first, and what waits is handed over
   */
  async audit(
    { node, agent, index }: SimNode,
    awake: 'woken' | 'as-it-is',
    signal: AbortSignal
  ): Promise<{ facts: Fact[]; queued: number }> {
    const facts: Fact[] = []
    const { messages, bytes } = await node.queueUsage(agent)
    // the protocol's own bounds (OD-29), which every node of the simulator has: not what a node says of itself
    facts.push({ fact: 'queue', node: index, length: messages, bound: QUEUE_BOUNDS_DEFAULT.messagesMax })
    facts.push({ fact: 'queue', node: index, length: bytes, bound: QUEUE_BOUNDS_DEFAULT.bytesMax })
    for (const length of ofPeers(await node.queue.list(homeOf(agent)))) {
      facts.push({ fact: 'queue', node: index, length, bound: QUEUE_BOUNDS_DEFAULT.messagesPerPeerMax })
    }
    if (awake === 'woken' && messages > 0) {
      await node.setMode(agent, { mode: 'always_on' }, { signal }).catch(() => {})
      const untilMs = this.#clock.monotonicMs() + this.#patienceMs
      while ((await node.queueUsage(agent)).messages > 0 && this.#clock.monotonicMs() < untilMs) await this.#clock.sleep(50, { signal })
    }
    const waiting = await node.queue.list(homeOf(agent))
    facts.push({ fact: 'waiting', node: index, ids: waiting.flatMap(({ objectId }) => MESSAGE.exec(objectId)?.[1] ?? []).map(Number) })
    for (const id of this.#handed.get(index) ?? []) facts.push({ fact: 'notified', id, node: index })
    this.#handed.delete(index)
    for (const { to, detail } of this.#diverged.get(index) ?? []) facts.push({ fact: 'hashes', node: index, to, agree: false, detail })
    this.#diverged.delete(index)
    facts.push(...this.chains({ index }))
    for (const { cookies, txSeq, txAcked, remote } of node.sessions.list().slice(0, SESSIONS_SEEN_MAX)) {
      const isProven = /[1-9a-f]/.test(cookies.initiator) && /[1-9a-f]/.test(cookies.responder)
      facts.push({ fact: 'session-state', node: index, cookie: isProven ? 'valid' : 'none' })
      const agree = BigInt(txAcked) <= BigInt(txSeq)
      facts.push({ fact: 'hashes', node: index, to: this.#indexOf(remote), agree, detail: `${txAcked} acked of ${txSeq}` })
    }
    for (const { did, refused } of node.evidence.list()) {
      if (refused) facts.push({ fact: 'blacklisted', node: index, victim: this.#indexOf(did), victimIs: 'honest' })
    }
    return { facts, queued: waiting.length }
  }
}

/** How many of them each peer has waiting. */
function ofPeers(records: readonly { principal: string; slot?: string }[]): number[] {
  const counts = new Map<string, number>()
  for (const { principal, slot = principal } of records) counts.set(slot, (counts.get(slot) ?? 0) + 1)
  return [...counts.values()]
}

export function parentOf(space: string): string {
  const name = space.replace(/@\d+$/, '')
  const cut = name.lastIndexOf('.')
  return cut > name.indexOf('/') ? name.slice(0, cut) : name
}

/** The called side sends back what it gets; the caller puts its own handler in place of this one. */
function echo(session: Session): void {
  session.onChannel(ECHO_CHANNEL, async ({ kind, payload }) => {
    await session.send(ECHO_CHANNEL, kind, payload.slice())
  })
}

export function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

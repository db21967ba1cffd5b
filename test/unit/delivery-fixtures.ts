import type { AbstractBatchOperation } from 'abstract-level'
import { MemoryLevel } from 'memory-level'
import { toHex, utf8 } from '../../protocol/bytes.ts'
import type { QueueBounds } from '../../protocol/delivery/bounds.ts'
import { mailboxKid, objectIdOf, PURPOSE_A2A_MESSAGE, sealObject } from '../../protocol/delivery/object.ts'
import { type EidHex, eid, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ClockGuard } from '../../src/delivery/clock-guard.ts'
import { Drain, type DrainInit } from '../../src/delivery/drain.ts'
import { LevelAsleepQueue } from '../../src/delivery/level-asleep-queue.ts'
import { ReplayCache } from '../../src/delivery/replay-cache.ts'
import { RookeryError } from '../../src/errors.ts'
import type { AgentReachability, LocalAgent } from '../../src/identity/agent.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { channelItems } from '../../src/sessions/channel-items.ts'
import type { Inbound, Session, SessionInfo } from '../../src/sessions/session.ts'
import { bytesCodec, Store } from '../../src/store/store.ts'
import type { JsonObject, Todo, TodoCreate } from '../../src/tasks/todo.ts'

export const crypto = nodeCrypto
const HOUR_MS = 3_600_000

/** A LevelDB in memory whose batches fail, whole, when told. */
export class FaultyLevel extends MemoryLevel<string, Uint8Array> {
  fault: (() => Error | undefined) | undefined
  /** a batch takes as long as this */
  gate: Promise<unknown> | undefined
  batches = 0

  constructor() {
    super({ valueEncoding: 'view', storeEncoding: 'view' })
  }

  async _batch(operations: AbstractBatchOperation<this, string, Uint8Array>[], options: object): Promise<void> {
    this.batches++
    await this.gate
    const error = this.fault?.()
    if (error !== undefined) throw error
    // biome-ignore lint/suspicious/noExplicitAny: the private hook of abstract-level is not in its types
    await (MemoryLevel.prototype as any)._batch.call(this, operations, options)
  }
}

export const diskFull = () => Object.assign(new Error('IO error: No space left on device'), { code: 'LEVEL_IO_ERROR' })

let seeds = 0
export function localAgent(
  name: string,
  reachability: AgentReachability = { mode: 'sleep' }
): LocalAgent & { reachability: AgentReachability } {
  const seed = crypto.sha256(utf8(`agent ${name} ${seeds++}`))
  const secret = crypto.sha256(seed)
  const mailboxKey = crypto.x25519.publicKey(secret)
  const kid = toHex(mailboxKid(crypto, mailboxKey))
  const self = eid(crypto.ed25519.publicKey(seed))
  return {
    name,
    eid: self,
    eidHex: eidHex(self),
    did: eidToDid(self),
    description: '',
    signer: { publicKey: self, sign: (message) => crypto.ed25519.sign(seed, message) },
    mailboxKey,
    mailboxSecret: (kidHex) => (kidHex === kid ? secret : undefined),
    reachability
  }
}

export interface SealOptions {
  messageId?: string
  text?: string
  purpose?: string
  issuedAtMs?: number
  lifeMs?: number
  plaintext?: Uint8Array
}

export function requestOf(messageId: string, text = 'hello'): Uint8Array {
  return utf8(JSON.stringify({ method: 'SendMessage', params: { message: { messageId, role: 'ROLE_USER', parts: [{ text }] } } }))
}

let ephemerals = 0
export function seal(from: LocalAgent, to: LocalAgent, nowMs: number, options: SealOptions = {}): Promise<Uint8Array> {
  const messageId = options.messageId ?? 'm-1'
  const issuedAtMs = options.issuedAtMs ?? nowMs
  return sealObject(crypto, {
    signer: from.signer,
    audience: to.eid,
    mailboxKey: to.mailboxKey,
    id: objectIdOf(crypto, from.eid, to.eid, messageId),
    purpose: options.purpose ?? PURPOSE_A2A_MESSAGE,
    issuedAtMs,
    expiresAtMs: issuedAtMs + (options.lifeMs ?? HOUR_MS),
    plaintext: options.plaintext ?? requestOf(messageId, options.text),
    ephemeralSecret: crypto.sha256(utf8(`ephemeral ${ephemerals++}`))
  })
}

/** Creates Todos in one commit with what goes alongside, and finds them again by caller and messageId. */
export class FakeTodos {
  readonly created: TodoCreate[] = []
  /** called with how many have their place in the store */
  onIssued: (count: number) => void = () => {}
  issued = 0
  refusal: (() => RookeryError | undefined) | undefined
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  async create(input: TodoCreate): Promise<{ todo: Todo; created: boolean }> {
    const refusal = this.refusal?.()
    if (refusal !== undefined) throw refusal
    const table = this.#store.table('fake-todos', bytesCodec)
    const key = toHex(utf8(`${input.caller.id} ${String(input.message.messageId)}`))
    const content = utf8(JSON.stringify(input.message))
    const held = await table.get(key)
    if (held !== undefined && toHex(held) !== toHex(content)) {
      throw new RookeryError('MESSAGE_ID_REUSED', 'other content', { kind: 'conflict' })
    }
    const todo = { id: key, agent: input.agent, caller: input.caller.id, state: 'pending' } as Todo
    if (held !== undefined) return { todo, created: false }
    const written = this.#store.commit([table.put(key, content), ...(input.alongside ?? [])])
    this.onIssued(++this.issued)
    await written
    this.created.push(input)
    return { todo, created: true }
  }

  async count(): Promise<number> {
    let count = 0
    for await (const _ of this.#store.table('fake-todos', bytesCodec).keys()) count++
    return count
  }

  messages(): JsonObject[] {
    return this.created.map((input) => input.message)
  }
}

export interface BenchInit extends DrainInit {
  bounds?: Partial<QueueBounds>
  objectBytesMax?: number
  namesMax?: number
}

/** One node's delivery parts over one LevelDB; `restart` builds them anew over what is on disk. */
export async function bench(init: BenchInit = {}, clock = new ManualClock(), level = new FaultyLevel()) {
  const store = new Store(level)
  const clockGuard = await ClockGuard.open({ store, clock })
  const bounds = { messagesMax: 500, bytesMax: 2 * 1_048_576, messagesPerPeerMax: 50, ttlMaxMs: 7 * 24 * HOUR_MS, ...init.bounds }
  const queue = await LevelAsleepQueue.open(
    { store, crypto, clockGuard, logger: silentLogger },
    { bounds: () => bounds, ...(init.objectBytesMax !== undefined ? { objectBytesMax: init.objectBytesMax } : {}) }
  )
  const replay = await ReplayCache.open({ store }, init.namesMax === undefined ? {} : { namesMax: init.namesMax })
  const todos = new FakeTodos(store)
  const drain = new Drain({ queue, replay, clockGuard, todos, store, crypto, clock, logger: silentLogger }, init)
  return { level, store, clock, clockGuard, bounds, queue, replay, todos, drain, restart: () => bench(init, clock, level) }
}

export const principalOf = (agent: LocalAgent): string => `eid:${agent.eidHex}`

/** Two ends of one session in memory: durable items resolve once the other side's handler has. */
export function sessionPair(a: LocalAgent, b: LocalAgent) {
  const ends = Promise.withResolvers<{ reason: string }>()
  const make = (local: LocalAgent, remote: LocalAgent) => {
    const handlers = new Map<number, (item: Inbound) => Promise<void>>()
    let turn: Promise<void> = Promise.resolve()
    const end = {
      sent: [] as Inbound[],
      lose: undefined as ((item: Inbound) => boolean) | undefined,
      change: undefined as ((item: Inbound) => Inbound) | undefined,
      /** hands an item to this side's handlers, one after the other */
      receive(item: Inbound): Promise<void> {
        const taken = turn.then(() => handlers.get(item.channel)?.(item))
        turn = taken.then(
          () => undefined,
          () => undefined
        )
        return taken.then(() => undefined)
      },
      peer: undefined as unknown as { receive(item: Inbound): Promise<void> },
      session: undefined as unknown as Session
    }
    end.session = {
      local,
      remote: remote.eid,
      info: () => ({ id: '00' }) as SessionInfo,
      vectors: () => {
        throw new Error('an end in memory keeps no vectors')
      },
      async send(channel, kind, payload) {
        const item: Inbound = { channel, kind, payload, position: () => [] }
        end.sent.push(item)
        if (end.lose?.(item) === true) return
        await end.peer.receive(end.change?.(item) ?? item)
      },
      onChannel: (channel, handler) => {
        handlers.set(channel, handler)
      },
      onKind: () => {},
      close: async () => ends.resolve({ reason: 'closed' }),
      closed: ends.promise,
      contract: undefined,
      get states(): never {
        throw new Error('a fake session has no state')
      },
      breach: () => {},
      details: () => Promise.reject(new Error('a fake session has no facts')),
      items: (channel) => channelItems(end.session, channel),
      onEvent: () => () => {},
      [Symbol.asyncDispose]: async () => ends.resolve({ reason: 'closed' })
    }
    return end
  }
  const left = make(a, b)
  const right = make(b, a)
  left.peer = right
  right.peer = left
  return { left, right, end: (reason: string) => ends.resolve({ reason }) }
}

export const asEidHex = (text: string): EidHex => text as EidHex

import { MemoryLevel } from 'memory-level'
import { base58btc } from 'multiformats/bases/base58'
import { eid, eidHex, eidToDid } from '../../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../../src/errors.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import type { ByteStream, ConnectionInfo } from '../../../src/net/byte-stream.ts'
import type { Host, PeerAddress } from '../../../src/net/host.ts'
import { type Clock, ManualClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import {
  createSessionManager,
  type RunningSessionManager,
  type SessionAgents,
  type SessionManagerComponents,
  type SessionManagerInit,
  type SessionPolicy
} from '../../../src/sessions/create-session-manager.ts'
import type { Inbound, Session, SessionOpenOptions } from '../../../src/sessions/session.ts'
import type { KeySlots } from '../../../src/state/key-slots.ts'
import { Store } from '../../../src/store/store.ts'

const BUFFER_BYTES_MAX = 262_144

/** One direction of a stream: what was written and not yet read. */
class Pipe {
  readonly chunks: Uint8Array[] = []
  bytes = 0
  ended = false
  failure: RookeryError | undefined
  readonly waiting = new Set<() => void>()
  /** bytes in all, for tests that look at what an attacker was sent */
  carried = 0

  changed(): void {
    for (const wake of [...this.waiting]) wake()
    this.waiting.clear()
  }

  async until(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    await new Promise<void>((resolve, reject) => {
      const wake = () => {
        signal?.removeEventListener('abort', abort)
        resolve()
      }
      const abort = () => {
        this.waiting.delete(wake)
        reject(signal?.reason)
      }
      this.waiting.add(wake)
      signal?.addEventListener('abort', abort, { once: true })
    })
  }
}

/** A {@link ByteStream} that is a pair of pipes, with back-pressure at the same bound as the real one. */
export class MemoryStream implements ByteStream {
  readonly protocol: string
  readonly connection: ConnectionInfo
  readonly closed: Promise<void>
  readonly #gone = Promise.withResolvers<void>()
  readonly incoming: Pipe
  readonly outgoing: Pipe
  /** the other end */
  partner: MemoryStream | undefined

  constructor(protocol: string, connection: ConnectionInfo, incoming: Pipe, outgoing: Pipe) {
    this.protocol = protocol
    this.connection = connection
    this.incoming = incoming
    this.outgoing = outgoing
    this.closed = this.#gone.promise
  }

  async read(length: number, options: { signal?: AbortSignal } = {}): Promise<Uint8Array> {
    const bytes = new Uint8Array(length)
    await this.readInto(bytes, options)
    return bytes
  }

  async readInto(target: Uint8Array, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    const pipe = this.incoming
    const { length } = target
    while (pipe.bytes < length) {
      if (pipe.failure !== undefined) throw pipe.failure
      if (pipe.ended) throw new RookeryError('STREAM_ENDED', 'the stream ended', { kind: 'unavailable' })
      await pipe.until(signal)
    }
    let at = 0
    while (at < length) {
      const first = pipe.chunks[0] as Uint8Array
      const taken = first.subarray(0, length - at)
      target.set(taken, at)
      at += taken.length
      if (taken.length === first.length) pipe.chunks.shift()
      else pipe.chunks[0] = first.subarray(taken.length)
    }
    pipe.bytes -= length
    pipe.changed()
  }

  async write(bytes: Uint8Array, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    const pipe = this.outgoing
    if (pipe.failure !== undefined || pipe.ended) {
      throw pipe.failure ?? new RookeryError('STREAM_RESET', 'the stream is closed', { kind: 'unavailable' })
    }
    pipe.chunks.push(bytes.slice())
    pipe.bytes += bytes.length
    pipe.carried += bytes.length
    pipe.changed()
    while (pipe.bytes > BUFFER_BYTES_MAX && pipe.failure === undefined) await pipe.until(signal)
    if (pipe.failure !== undefined) throw pipe.failure
  }

  async closeWrite(): Promise<void> {
    this.outgoing.ended = true
    this.outgoing.changed()
    this.#settle()
  }

  async close(): Promise<void> {
    this.outgoing.ended = true
    this.incoming.ended = true
    this.incoming.chunks.length = 0
    this.incoming.bytes = 0
    this.outgoing.changed()
    this.incoming.changed()
    this.#settle()
  }

  reset(reason: Error): void {
    for (const pipe of [this.incoming, this.outgoing]) {
      pipe.failure ??= new RookeryError('STREAM_RESET', `the stream was dropped: ${reason.message}`, { kind: 'unavailable' })
      pipe.changed()
    }
    this.#settle()
  }

  #settle(): void {
    if ((this.outgoing.ended && this.incoming.ended) || this.outgoing.failure !== undefined) {
      this.#gone.resolve()
      if (this.partner !== undefined) this.partner.#gone.resolve()
    }
  }
}

/** Hosts in one process that reach each other by PeerId; connections are made at the first stream and can be cut. */
export class MemoryNet {
  readonly hosts = new Map<string, MemoryHost>()
  readonly streams: { a: MemoryStream; b: MemoryStream; connection: string }[] = []
  #next = 0
  readonly #connections = new Map<string, string>()

  connection(from: string, to: string): string {
    const key = [from, to].sort().join()
    let id = this.#connections.get(key)
    if (id === undefined) {
      id = `c${this.#next++}`
      this.#connections.set(key, id)
    }
    return id
  }

  /** Streams that this host opened or took carry nothing more, and nobody is told; a new connection can be made. */
  mute(host: string): void {
    for (const key of [...this.#connections.keys()]) if (key.split(',').includes(host)) this.#connections.delete(key)
    for (const { a, b } of this.streams) {
      for (const stream of [a, b]) {
        stream.read = () => new Promise(() => {})
        stream.write = () => new Promise(() => {})
        stream.reset = () => {}
      }
    }
  }

  /** Drops every stream between the two and forgets the connection. */
  cut(a: string, b: string): void {
    const key = [a, b].sort().join()
    const id = this.#connections.get(key)
    this.#connections.delete(key)
    for (const pair of this.streams) if (pair.connection === id) pair.a.reset(new Error('cut'))
    for (const [from, to] of [
      [a, b],
      [b, a]
    ] as const) {
      for (const listener of this.hosts.get(from)?.peerListeners ?? []) listener({ kind: 'disconnect', peer: to })
    }
  }
}

export class MemoryHost implements Host {
  readonly peer: string
  readonly peerListeners = new Set<(event: { kind: 'connect' | 'disconnect'; peer: string }) => void>()
  readonly #net: MemoryNet
  readonly #handlers = new Map<string, (stream: ByteStream) => Promise<void>>()
  aborted = 0

  constructor(net: MemoryNet, seed: number) {
    this.#net = net
    this.peer = base58btc.baseEncode(Uint8Array.from({ length: 38 }, (_, i) => (i < 6 ? i : seed)))
    net.hosts.set(this.peer, this)
  }

  addresses(): string[] {
    return [`/memory/${this.peer}`]
  }

  peers(): string[] {
    return []
  }

  info(other: string, direction: 'inbound' | 'outbound'): ConnectionInfo {
    const id = this.#net.connection(this.peer, other)
    return {
      id,
      peer: other,
      remoteAddr: `/memory/${other}`,
      transport: 'memory',
      direction,
      abort: () => {
        this.aborted += 1
        this.#net.cut(this.peer, other)
      }
    }
  }

  #vanished = false

  /** Its process is gone: it opens nothing more. */
  vanish(): void {
    this.#vanished = true
  }

  async openStream(target: PeerAddress, protocol: string, { signal }: { signal?: AbortSignal } = {}): Promise<MemoryStream> {
    signal?.throwIfAborted()
    if (this.#vanished) throw new RookeryError('DIAL_FAILED', 'the process is gone', { kind: 'unavailable' })
    const other = this.#net.hosts.get(target.peer)
    const handler = other?.handlerOf(protocol)
    if (other === undefined || handler === undefined) {
      throw new RookeryError('DIAL_FAILED', `${target.peer} cannot be reached`, { kind: 'unavailable' })
    }
    const [there, back] = [new Pipe(), new Pipe()]
    const mine = new MemoryStream(protocol, this.info(other.peer, 'outbound'), back, there)
    const theirs = new MemoryStream(protocol, other.info(this.peer, 'inbound'), there, back)
    mine.partner = theirs
    theirs.partner = mine
    this.#net.streams.push({ a: mine, b: theirs, connection: mine.connection.id })
    void handler(theirs).catch((error: Error) => theirs.reset(error))
    return mine
  }

  handlerOf(protocol: string) {
    return this.#handlers.get(protocol)
  }

  async handle(protocol: string, handler: (stream: ByteStream) => Promise<void>): Promise<void> {
    this.#handlers.set(protocol, handler)
  }

  async unhandle(protocol: string): Promise<void> {
    this.#handlers.delete(protocol)
  }

  onPeer(listener: (event: { kind: 'connect' | 'disconnect'; peer: string }) => void): () => void {
    this.peerListeners.add(listener)
    return () => this.peerListeners.delete(listener)
  }

  readonly connectionListeners = new Set<(connection: { peer: string; id: string }) => void>()

  onConnection(listener: (connection: { peer: string; id: string }) => void): () => void {
    this.connectionListeners.add(listener)
    return () => this.connectionListeners.delete(listener)
  }

  readonly addressListeners = new Set<() => void>()

  onAddressesChanged(listener: () => void): () => void {
    this.addressListeners.add(listener)
    return () => this.addressListeners.delete(listener)
  }

  get dht(): never {
    throw new TypeError('sessions need no DHT')
  }

  async stop(): Promise<void> {}
}

/** An agent with a fixed seed; its mailbox is not used by sessions. */
export function agentOf(byte: number): LocalAgent {
  const seed = new Uint8Array(32).fill(byte)
  const value = eid(nodeCrypto.ed25519.publicKey(seed))
  return {
    name: `agent-${byte}`,
    eid: value,
    eidHex: eidHex(value),
    did: eidToDid(value),
    description: '',
    signer: { publicKey: value, sign: (message) => nodeCrypto.ed25519.sign(seed, message) },
    mailboxKey: new Uint8Array(32),
    mailboxSecret: () => undefined,
    reachability: { mode: 'always_on' }
  }
}

export interface Node {
  host: Host
  agents: LocalAgent[]
  manager: RunningSessionManager
  store: Store
  sessions: Session[]
  /** what its sessions were handed, in order */
  inbox: Inbound[]
  /** the next session that becomes ready, this one or a later */
  nextSession(): Promise<Session>
  /** resolves once `count` items are in the inbox */
  received(count: number): Promise<Inbound[]>
}

export interface NodeInit extends SessionManagerInit {
  policy?: SessionPolicy
  /** channels that record into the inbox; default 1 and 2 */
  channels?: number[]
  handler?: (item: Inbound) => Promise<void>
  /** what an earlier process left; default: nothing */
  store?: Store
  /** in place of the fixed agents: they may rotate */
  sessionAgents?: SessionAgents
  rotated?: SessionManagerComponents['rotated']
  /** in place of keys that go with the process */
  eseKeys?: KeySlots
  ready?: SessionManagerComponents['ready']
}

export function memoryStore(): Store {
  return new Store(new MemoryLevel<string, Uint8Array>({ valueEncoding: 'view' }))
}

/** A session manager on any host, with channels 1 and 2 recorded. */
export async function nodeOn(host: Host, clock: Clock, agents: LocalAgent[], init: NodeInit = {}, seed = 1): Promise<Node> {
  const { policy, channels = [1, 2], handler, store = memoryStore(), sessionAgents, rotated, ready, eseKeys, ...settings } = init
  const manager = await createSessionManager(
    {
      host,
      clock,
      random: seededRandom(seed),
      crypto: nodeCrypto,
      logger: silentLogger,
      store,
      agents: sessionAgents ?? { list: () => agents, byEid: (one) => agents.find(({ eidHex: hex }) => hex === eidHex(one)) },
      ...(rotated === undefined ? {} : { rotated }),
      ...(eseKeys === undefined ? {} : { eseKeys }),
      ...(ready === undefined ? {} : { ready }),
      ...(policy === undefined ? {} : { policy })
    },
    settings
  )
  const sessions: Session[] = []
  const inbox: Inbound[] = []
  const waiters = new Set<() => void>()
  const changed = () => {
    for (const wake of [...waiters]) wake()
  }
  const until = (condition: () => boolean) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (!condition()) return
        waiters.delete(check)
        resolve()
      }
      waiters.add(check)
      check()
    })
  manager.onSession((session) => {
    sessions.push(session)
    for (const channel of channels) {
      session.onChannel(channel, async (item) => {
        inbox.push({ ...item, payload: item.payload.slice() })
        changed()
        await handler?.(item)
      })
    }
    changed()
  })
  return {
    host,
    agents,
    manager,
    store,
    sessions,
    inbox,
    async nextSession() {
      const count = sessions.length
      await until(() => sessions.length > count)
      return sessions[count] as Session
    },
    async received(count) {
      await until(() => inbox.length >= count)
      return inbox
    }
  }
}

/** Two nodes with one agent each on one memory network and one clock that moves when told. */
export class Pair {
  readonly clock = new ManualClock()
  readonly net = new MemoryNet()
  readonly a: Node
  readonly b: Node

  private constructor(clock: ManualClock, net: MemoryNet, a: Node, b: Node) {
    this.clock = clock
    this.net = net
    this.a = a
    this.b = b
  }

  static async create(init: { a?: NodeInit; b?: NodeInit; seeds?: [number, number] } = {}): Promise<Pair> {
    const clock = new ManualClock()
    const net = new MemoryNet()
    const [seedA, seedB] = init.seeds ?? [0xa1, 0xb2]
    const a = await nodeOn(new MemoryHost(net, 1), clock, [agentOf(seedA)], init.a, 1)
    const b = await nodeOn(new MemoryHost(net, 2), clock, [agentOf(seedB)], init.b, 2)
    return new Pair(clock, net, a, b)
  }

  get agentA(): LocalAgent {
    return this.a.agents[0] as LocalAgent
  }

  get agentB(): LocalAgent {
    return this.b.agents[0] as LocalAgent
  }

  /** A's session to B. */
  open(options: SessionOpenOptions = {}): Promise<Session> {
    return this.a.manager.open(this.agentA, this.agentB.eid, { peer: this.b.host.peer, addrs: [] }, options)
  }

  openBack(): Promise<Session> {
    return this.b.manager.open(this.agentB, this.agentA.eid, { peer: this.a.host.peer, addrs: [] })
  }
}

/** Lets promises that are due settle; no timer of ours is involved. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}

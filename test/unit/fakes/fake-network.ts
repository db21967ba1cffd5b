import { compare, toHex, utf8 } from '../../../protocol/bytes.ts'
import { selectDhtValue, validateDhtValue } from '../../../protocol/records/dht-value.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../../src/errors.ts'
import type { ByteStream } from '../../../src/net/byte-stream.ts'
import type { Dht, Host, PeerAddress } from '../../../src/net/host.ts'
import type { Clock } from '../../../src/platform/clock.ts'

type Handler = (stream: ByteStream) => Promise<void>

/** One direction of a stream: bytes in, exact reads out. */
class Pipe {
  readonly #chunks: Uint8Array[] = []
  #held = 0
  #ended = false
  #error: Error | undefined
  #wake: () => void = () => {}

  push(bytes: Uint8Array): void {
    this.#chunks.push(bytes.slice())
    this.#held += bytes.length
    this.#wake()
  }

  end(): void {
    this.#ended = true
    this.#wake()
  }

  fail(error: Error): void {
    this.#error ??= error
    this.#wake()
  }

  async read(length: number, signal?: AbortSignal): Promise<Uint8Array> {
    for (;;) {
      signal?.throwIfAborted()
      if (this.#error !== undefined) throw this.#error
      if (this.#held >= length) break
      if (this.#ended) throw new RookeryError('STREAM_ENDED', 'the stream ended', { kind: 'unavailable' })
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        signal?.addEventListener('abort', () => resolve(), { once: true })
      })
    }
    const out = new Uint8Array(length)
    for (let at = 0; at < length; ) {
      const chunk = this.#chunks[0] as Uint8Array
      const taken = chunk.subarray(0, length - at)
      out.set(taken, at)
      at += taken.length
      if (taken.length === chunk.length) this.#chunks.shift()
      else this.#chunks[0] = chunk.subarray(taken.length)
    }
    this.#held -= length
    return out
  }
}

let connections = 0

function streamPair(protocol: string, from: FakeHost, to: FakeHost): [ByteStream, ByteStream] {
  const there = new Pipe()
  const back = new Pipe()
  const id = `fake-${connections++}`
  const side = (read: Pipe, write: Pipe, other: FakeHost, direction: 'inbound' | 'outbound'): ByteStream => {
    const closed = Promise.withResolvers<void>()
    return {
      protocol,
      connection: { id, peer: other.peer, remoteAddr: other.addrs[0] ?? '/memory/none', transport: 'memory', direction, abort() {} },
      read: (length, options) => read.read(length, options?.signal),
      async readInto(target, options) {
        target.set(await read.read(target.length, options?.signal))
      },
      async write(bytes) {
        write.push(bytes)
      },
      async closeWrite() {
        write.end()
      },
      async close() {
        write.end()
        closed.resolve()
      },
      reset(reason) {
        const error = new RookeryError('STREAM_RESET', reason.message, { kind: 'unavailable' })
        write.fail(error)
        read.fail(error)
        closed.resolve()
      },
      closed: closed.promise
    }
  }
  return [side(back, there, to, 'outbound'), side(there, back, from, 'inbound')]
}

/** Hosts that reach each other by name, with a DHT that follows our validators. Everything is in order and at once. */
export class FakeNetwork {
  readonly hosts = new Map<string, FakeHost>()
  readonly clock: Clock
  /** streams opened so far, by protocol */
  readonly opened = new Map<string, number>()

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** @param addrs - what the host says of its own addresses */
  add(name: string, addrs: string[] = [`/memory/${name}`]): FakeHost {
    const host = new FakeHost(this, name, addrs)
    this.hosts.set(host.peer, host)
    return host
  }

  /** Both learn of each other, as after a dial. */
  meet(...hosts: FakeHost[]): void {
    for (const a of hosts) for (const b of hosts) if (a !== b) a.learn(b)
  }
}

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

export class FakeHost implements Host {
  readonly peer: string
  readonly #network: FakeNetwork
  readonly #handlers = new Map<string, Handler>()
  readonly #known = new Set<FakeHost>()
  readonly #listeners = new Set<(event: { kind: 'connect' | 'disconnect'; peer: string }) => void>()
  readonly #addressListeners = new Set<() => void>()
  readonly values = new Map<string, Uint8Array>()
  addrs: string[]
  online = true
  dhtMode: 'client' | 'server' = 'server'
  /** errors of handlers, as a host counts them */
  readonly handlerErrors: unknown[] = []
  /** answers nothing to DHT look-ups, as one who hides a record */
  hides = false
  /** answers DHT look-ups with this whatever it holds */
  lies: Uint8Array | undefined

  constructor(network: FakeNetwork, name: string, addrs: string[]) {
    this.#network = network
    this.addrs = addrs
    const hash = nodeCrypto.sha256(utf8(name))
    this.peer = `12D3KooW${[...hash].map((byte) => BASE58[byte % 58]).join('')}`
  }

  addresses(): string[] {
    return [...this.addrs]
  }

  peers(): string[] {
    return [...this.#known].filter((host) => host.online).map((host) => host.peer)
  }

  learn(host: FakeHost): void {
    if (this.#known.has(host)) return
    this.#known.add(host)
    for (const listener of this.#listeners) listener({ kind: 'connect', peer: host.peer })
  }

  setAddresses(addrs: string[]): void {
    this.addrs = addrs
    for (const listener of this.#addressListeners) listener()
  }

  async openStream(target: PeerAddress, protocol: string): Promise<ByteStream> {
    const host = this.#network.hosts.get(target.peer)
    if (host === undefined || !host.online || !this.online) {
      throw new RookeryError('DIAL_FAILED', `no way to ${target.peer}`, { kind: 'unavailable' })
    }
    const handler = host.#handlers.get(protocol)
    if (handler === undefined) throw new RookeryError('PROTOCOL_UNSUPPORTED', protocol, { kind: 'refused' })
    this.learn(host)
    host.learn(this)
    this.#network.opened.set(protocol, (this.#network.opened.get(protocol) ?? 0) + 1)
    const [ours, theirs] = streamPair(protocol, this, host)
    handler(theirs).catch((error: unknown) => {
      host.handlerErrors.push(error)
      theirs.reset(error instanceof Error ? error : new Error(String(error)))
    })
    return ours
  }

  async handle(protocol: string, handler: Handler): Promise<void> {
    this.#handlers.set(protocol, handler)
  }

  /** What serves a protocol here. */
  handler(protocol: string): Handler {
    return this.#handlers.get(protocol) as Handler
  }

  async unhandle(protocol: string): Promise<void> {
    this.#handlers.delete(protocol)
  }

  onPeer(listener: (event: { kind: 'connect' | 'disconnect'; peer: string }) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  onConnection(): () => void {
    return () => {}
  }

  onAddressesChanged(listener: () => void): () => void {
    this.#addressListeners.add(listener)
    return () => this.#addressListeners.delete(listener)
  }

  /** Everyone reachable over those we know, nearest to the key first. */
  #closest(key: Uint8Array): FakeHost[] {
    const reached = new Set<FakeHost>([this])
    for (const host of reached) for (const next of host.#known) if (next.online) reached.add(next)
    const place = nodeCrypto.sha256(key)
    const distance = (host: FakeHost) => nodeCrypto.sha256(utf8(host.peer)).map((byte, i) => byte ^ (place[i] as number))
    return [...reached].filter((host) => host.online).sort((a, b) => compare(distance(a), distance(b)))
  }

  #store(key: Uint8Array, value: Uint8Array): boolean {
    const nowMs = this.#network.clock.nowMs()
    validateDhtValue(nodeCrypto, key, value, nowMs)
    const held = this.#value(key)
    if (held !== undefined && compare(held, value) !== 0 && selectDhtValue(key, held, value).winner === 'held') return false
    this.values.set(toHex(key), value)
    return true
  }

  #value(key: Uint8Array): Uint8Array | undefined {
    if (this.lies !== undefined) return this.lies
    const held = this.values.get(toHex(key))
    if (held === undefined || this.hides) return undefined
    try {
      validateDhtValue(nodeCrypto, key, held, this.#network.clock.nowMs())
      return held
    } catch {
      return undefined
    }
  }

  readonly dht: Dht = {
    closestPeers: async (key, options) =>
      this.#closest(key)
        .slice(0, options?.countMax ?? 20)
        .map((host) => ({ peer: host.peer, addrs: host.addresses() })),
    lookUpSelf: async () => {},
    neighbours: (max) =>
      this.#closest(utf8(this.peer))
        .filter((host) => host !== this)
        .slice(0, max)
        .map((host) => ({ peer: host.peer, addrs: host.addresses() })),
    put: async (key, value) => {
      if (!this.online) throw new RookeryError('DIAL_FAILED', 'the node is off', { kind: 'unavailable' })
      const closest = this.#closest(key).slice(0, 20)
      const stored = closest.filter((host) => host.#store(key, value)).length
      return { stored, asked: closest.length, known: closest.length }
    },
    values: (key) => this.#values(key),
    closerKnown: (key, max) => Math.min(max, this.#closest(key).indexOf(this)),
    routingTableSize: () => this.#known.size,
    nodes: async () => this.#network.hosts.size,
    takeInConnected: async () => {},
    table: () => this.peers(),
    nearestKnown: (key, max) => {
      const known = new Set(this.peers())
      return this.#closest(key)
        .map(({ peer }) => peer)
        .filter((peer) => known.has(peer))
        .slice(0, max)
    },
    held: (key) => this.#value(key),
    mode: () => this.dhtMode
  }

  async *#values(key: Uint8Array): AsyncIterable<Uint8Array> {
    const seen = new Set<string>()
    for (const host of this.#closest(key).slice(0, 20)) {
      const value = host.#value(key)
      if (value === undefined || seen.has(toHex(value))) continue
      seen.add(toHex(value))
      yield value
    }
  }

  async stop(): Promise<void> {
    this.online = false
  }
}

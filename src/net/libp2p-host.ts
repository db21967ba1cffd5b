import type { Connection, Libp2p, PeerId, Stream } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { allowManyListeners } from '../platform/many-listeners.ts'
import type { Random } from '../platform/random.ts'
import type { ByteStream } from './byte-stream.ts'
import type { DhtDatastore } from './dht-datastore.ts'
import { DhtModeKeeper } from './dht-mode.ts'
import { askDialBack, DIAL_BACK_MS, DIAL_BACK_PROTOCOL, DialBack } from './dial-back.ts'
import type { Dht, Host, PeerAddress } from './host.ts'
import { connectionInfo, Libp2pByteStream } from './libp2p-stream.ts'
import { byTransport, isPublicAddr, transportOf, withoutPeer } from './multiaddrs.ts'
import { NatReachability } from './nat-reachability.ts'
import type { CircuitClient, CircuitServer, ReachabilityInit } from './nat-services.ts'
import type { PeerMemory } from './peer-memory.ts'
import { Rejoin } from './rejoin.ts'
import { TableCare } from './table-care.ts'

/** stop() leaves what has not ended after this time. */
const STOP_TIMEOUT_MS = 4_500
/** A connection that was open before and does not negotiate a stream in this time may be dead: a new one is dialled beside it, and the first to answer carries the stream. */
const REUSE_PATIENCE_MS = 1_000
/** Dialling, however many addresses there are, and negotiating */
const OPEN_TIMEOUT_MS = 20_000
/** Where a peer can be reached both ways, its relays are tried beside its own addresses when those have not answered by then. */
const RELAY_BESIDE_MS = 1_000
/** Connections from which on multicast is no longer needed, and dials that it may have under way */
const DISCOVERED_MAX = 16
const DISCOVERING_MAX = 4
const SWEEP_INTERVAL_MS = 60_000
const INBOUND_STREAMS_MAX = 256
const OUTBOUND_STREAMS_MAX = 1_024

export interface Libp2pHostComponents {
  clock: Clock
  random: Random
  logger: Logger
  libp2p: Libp2p
  datastore: DhtDatastore
  peers: PeerMemory
  /** dials over relays; absent over transports that know none */
  circuits?: CircuitClient | undefined
  circuitServer?: CircuitServer | undefined
  /** addresses of this machine with their networks */
  interfaces?: (() => string[]) | undefined
}

export interface Libp2pHostInit {
  bootstrap: readonly { peer: string; addrs: readonly string[] }[]
  isPublic: boolean
  /** peers that a key has */
  bucketSize: number
  /** absent: the mode stays as it is set */
  autoMode?: { mode(): 'client' | 'server'; setMode(mode: 'client' | 'server'): Promise<void> } | undefined
  /** absent: nothing is done about it */
  reachability?: ReachabilityInit | undefined
}

interface Opened {
  connection: Connection
  stream: Stream
}

/** {@link Host} over a libp2p node. */
export class Libp2pHost implements Host {
  readonly peer: string
  readonly dht: Dht
  readonly reachability: NatReachability | undefined
  readonly #c: Libp2pHostComponents
  readonly #init: Libp2pHostInit
  readonly #stopped = new AbortController()
  readonly #rejoin: Rejoin
  readonly #tableCare: TableCare
  readonly #modeKeeper: DhtModeKeeper | undefined
  readonly #peerListeners = new Set<(event: { kind: 'connect' | 'disconnect'; peer: string }) => void>()
  readonly #addressListeners = new Set<() => void>()
  #addressesTold = ''
  #stopping: Promise<void> | undefined
  #cancelSweep: (() => void) | undefined
  #discovering = 0
  /** inbound streams whose handler threw */
  handlersFailed = 0

  constructor(components: Libp2pHostComponents, init: Libp2pHostInit, makeDht: (addresses: () => string[], signal: AbortSignal) => Dht) {
    this.#c = components
    this.#init = init
    allowManyListeners(this.#stopped.signal)
    this.peer = components.libp2p.peerId.toString()
    this.dht = makeDht(() => this.addresses(), this.#stopped.signal)
    this.#rejoin = new Rejoin(components, {
      connected: () => components.libp2p.getPeers().length,
      candidates: () => this.#candidates(),
      dial: async (target) => {
        const scope = this.#scope(undefined, OPEN_TIMEOUT_MS)
        await this.#dial(target, scope.signal, false).finally(() => scope.release())
      }
    })
    this.#tableCare = new TableCare(components, {
      size: () => this.dht.routingTableSize(),
      enough: init.bucketSize,
      lookUpSelf: (signal) => this.dht.lookUpSelf({ signal }),
      lookUp: (key, signal) => this.dht.closestPeers(key, { signal }),
      takeIn: (signal) => this.dht.takeInConnected({ signal })
    })
    const { libp2p } = components
    const { autoMode, reachability } = init
    const { circuits, interfaces } = components
    if (reachability !== undefined && circuits !== undefined && interfaces !== undefined) {
      this.reachability = new NatReachability(
        { ...components, client: circuits, server: components.circuitServer, interfaces },
        { settings: reachability, isPublic: init.isPublic, dial: (target, signal) => this.#dial(target, signal, false) }
      )
    }
    if (reachability === undefined ? autoMode !== undefined : reachability.autonat) {
      this.#modeKeeper = new DhtModeKeeper(components, {
        mode: () => this.dht.mode(),
        setMode: autoMode === undefined ? undefined : (mode) => autoMode.setMode(mode),
        judged: (verdict) => this.reachability?.judge(verdict),
        addresses: () => this.#directAddresses(),
        peers: () => this.reachability?.witnesses() ?? this.peers(),
        ask: (peer, signal) => this.#askDialBack(peer, signal)
      })
    }
    libp2p.addEventListener('peer:connect', (event) => this.#onConnect(event.detail))
    libp2p.addEventListener('peer:disconnect', (event) => this.#onDisconnect(event.detail))
    libp2p.addEventListener('self:peer:update', () => this.#onAddresses())
  }

  /** Looks for the network; called once libp2p listens. */
  begin(): void {
    this.#addressesTold = this.addresses().join()
    this.#rejoin.start()
    this.#scheduleSweep()
    this.reachability?.begin()
    if (this.#modeKeeper !== undefined && this.#directAddresses().length === 0) this.#modeKeeper.addressesChanged()
  }

  /** Answers who asks whether we can reach it; called before the host begins. */
  async serveDialBacks(): Promise<void> {
    const dialBack = new DialBack(this.#c.clock, async (peer, addrs, signal) => {
      if (this.#init.isPublic && !addrs.every((addr) => isPublicAddr(multiaddr(addr)))) throw new Error('not a public address')
      const connection = await this.#c.libp2p.dial(
        addrs.map((addr) => multiaddr(`${withoutPeer(addr)}/p2p/${peer}`)),
        { signal, force: true }
      )
      await connection.close()
    })
    await this.handle(DIAL_BACK_PROTOCOL, (stream) => dialBack.serve(stream), { inboundStreamsMax: 4 })
  }

  async #askDialBack(peer: string, signal: AbortSignal): Promise<boolean | undefined> {
    const scope = this.#scope(signal, DIAL_BACK_MS)
    try {
      const stream = await this.openStream({ peer, addrs: [] }, DIAL_BACK_PROTOCOL, { signal: scope.signal })
      return await askDialBack(stream, this.#directAddresses(), scope.signal)
    } catch {
      return undefined // one that cannot be asked says nothing
    } finally {
      scope.release()
    }
  }

  /** A peer that multicast told of. Dialled while we have few, since anyone on the LAN can name any number. */
  discovered(peer: string, addrs: readonly string[]): void {
    if (peer === this.peer || this.#stopped.signal.aborted || this.peers().includes(peer)) return
    if (this.peers().length >= DISCOVERED_MAX || this.#discovering >= DISCOVERING_MAX) return
    this.#discovering++
    const scope = this.#scope(undefined, OPEN_TIMEOUT_MS)
    void this.#dial({ peer, addrs }, scope.signal, false)
      .catch((error: unknown) => this.#c.logger.debug({ peer, error: String(error) }, 'a peer of this LAN does not answer'))
      .finally(() => {
        this.#discovering--
        scope.release()
      })
  }

  addresses(): string[] {
    return this.#c.libp2p
      .getMultiaddrs()
      .map((addr) => withoutPeer(addr.toString()))
      .sort(byTransport)
  }

  #directAddresses(): string[] {
    return this.addresses().filter((addr) => transportOf(addr) !== 'relay')
  }

  peers(): string[] {
    return this.#c.libp2p.getPeers().map(String)
  }

  async openStream(target: PeerAddress, protocol: string, options: { signal?: AbortSignal } = {}): Promise<ByteStream> {
    this.#checkRunning()
    options.signal?.throwIfAborted()
    const scope = this.#scope(options.signal, OPEN_TIMEOUT_MS)
    try {
      const open = this.#newestConnection(parsePeer(target.peer))
      const dialled = async (signal: AbortSignal, force: boolean): Promise<Opened> => {
        const connection = await this.#dial(target, signal, force)
        return { connection, stream: await this.#newStream(connection, protocol, signal) }
      }
      const opened = open === undefined ? await dialled(scope.signal, false) : await this.#reuse(open, protocol, scope.signal, dialled)
      return this.#byteStream(opened.stream, opened.connection)
    } catch (error) {
      options.signal?.throwIfAborted()
      this.#checkRunning()
      throw named(error, target, protocol)
    } finally {
      scope.release()
    }
  }

  /**
   * A peer that restarted has a newer connection than the dead one we may still hold, so the newest is the one to trust; one over a relay, whose
   * bytes and time are limited, where there is no other.
   */
  #newestConnection(id: PeerId): Connection | undefined {
    const open = this.#c.libp2p.getConnections(id).filter((connection) => connection.status === 'open')
    const isRelayed = ({ limits }: Connection) => Number(limits !== undefined)
    return open.sort((a, b) => isRelayed(a) - isRelayed(b) || b.timeline.open - a.timeline.open)[0]
  }

  /**
   * Opens a stream on a connection we have. The peer may have died or restarted without a word, and QUIC tells only after its idle time;
   * a live connection is never dropped for being slow, since sessions share it.
   */
  async #reuse(
    connection: Connection,
    protocol: string,
    signal: AbortSignal,
    dialled: (signal: AbortSignal, force: boolean) => Promise<Opened>
  ): Promise<Opened> {
    const losing = new AbortController()
    allowManyListeners(losing.signal)
    const give = () => losing.abort(signal.reason)
    signal.addEventListener('abort', give, { once: true })
    const answered = new AbortController()
    const first = this.#newStream(connection, protocol, losing.signal).then((stream) => ({ connection, stream }))
    const slow = this.#c.clock.sleep(REUSE_PATIENCE_MS, { signal: answered.signal })
    try {
      const early = await Promise.race([first, slow.then(() => undefined)]).catch((error: unknown) => {
        if (isName(error, 'UnsupportedProtocolError', 'TooManyOutboundProtocolStreamsError')) throw error
        return undefined
      })
      signal.throwIfAborted()
      if (early !== undefined) return early
      const second = dialled(losing.signal, true)
      const winner = await Promise.any([first, second]).catch((error: AggregateError) => {
        throw error.errors[1]
      })
      for (const attempt of [first, second]) {
        void attempt
          .then(({ stream }) => stream !== winner.stream && stream.abort(new Error('another connection was faster')))
          .catch(() => {})
      }
      return winner
    } finally {
      signal.removeEventListener('abort', give)
      answered.abort()
      slow.catch(() => {})
      first.catch(() => {})
      losing.abort(new Error('another connection was faster'))
    }
  }

  #newStream(connection: Connection, protocol: string, signal: AbortSignal): Promise<Stream> {
    return connection.newStream(protocol, { signal, maxOutboundStreams: OUTBOUND_STREAMS_MAX, runOnLimitedConnection: true })
  }

  /**
   * Directly, and over the peer's relays beside it where that has not answered after a second. libp2p by itself tries address after address, six
   * seconds each, and relays last: who sits behind a router would be given up before it came to them.
   */
  async #dial(target: PeerAddress, signal: AbortSignal, force: boolean): Promise<Connection> {
    const { circuits, clock } = this.#c
    const relayed = circuits === undefined ? [] : await this.#relayedAddrs(target)
    const others = target.addrs.filter((addr) => transportOf(addr) !== 'relay')
    if (circuits === undefined || relayed.length === 0) return await this.#dialDirect(target, signal, force)
    const settled = new AbortController()
    const overRelays = async () => {
      for (const addr of relayed.slice(0, -1)) {
        try {
          return await circuits.dial(addr, signal)
        } catch {
          signal.throwIfAborted()
        }
      }
      return await circuits.dial(relayed.at(-1) as Multiaddr, signal)
    }
    if (others.length === 0) return await overRelays()
    const direct = this.#dialDirect({ ...target, addrs: others }, signal, force)
    const failed = direct.then(
      () => undefined,
      () => undefined
    )
    const beside = Promise.race([clock.sleep(RELAY_BESIDE_MS, { signal: settled.signal }).catch(() => undefined), failed]).then(
      async () => {
        if (settled.signal.aborted) throw new Error('a direct connection is there')
        return await overRelays()
      }
    )
    try {
      return await Promise.any([direct, beside])
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof AggregateError ? error.errors[0] : error
    } finally {
      settled.abort()
    }
  }

  /** Of the target, or where it names no address, of what the peer told of itself. */
  async #relayedAddrs(target: PeerAddress): Promise<Multiaddr[]> {
    const known =
      target.addrs.length > 0
        ? target.addrs
        : await this.#c.libp2p.peerStore.get(parsePeer(target.peer)).then(
            ({ addresses }) => addresses.map((one) => one.multiaddr.toString()),
            () => []
          )
    return known.flatMap((addr) => {
      if (transportOf(addr) !== 'relay') return []
      try {
        const parsed = multiaddr(`${withoutPeer(addr)}/p2p/${target.peer}`)
        return this.#init.isPublic && !isPublicAddr(parsed) ? [] : [parsed]
      } catch {
        return []
      }
    })
  }

  async #dialDirect(target: PeerAddress, signal: AbortSignal, force: boolean): Promise<Connection> {
    const { libp2p } = this.#c
    const id = parsePeer(target.peer)
    const addrs = target.addrs.flatMap((addr) => {
      try {
        return [multiaddr(`${withoutPeer(addr)}/p2p/${target.peer}`)]
      } catch {
        return [] // an address that we cannot read is one that we cannot dial
      }
    })
    if (addrs.length === 0) return libp2p.dial(id, { signal, force })
    try {
      return await libp2p.dial(addrs, { signal, force })
    } catch (error) {
      signal.throwIfAborted()
      const known = await libp2p.peerStore.get(id).catch(() => undefined)
      const given = new Set(addrs.map((addr) => withoutPeer(addr.toString())))
      if (known === undefined || known.addresses.every((one) => given.has(withoutPeer(one.multiaddr.toString())))) throw error
      return libp2p.dial(id, { signal, force })
    }
  }

  async handle(
    protocol: string,
    handler: (stream: ByteStream) => Promise<void>,
    options: { inboundStreamsMax?: number } = {}
  ): Promise<void> {
    await this.#c.libp2p.handle(
      protocol,
      (stream, connection) => {
        const bytes = this.#byteStream(stream, connection)
        // not awaited: libp2p counts its own negotiation time until a handler returns
        void handler(bytes).catch((error: unknown) => {
          this.handlersFailed++
          const reason = error instanceof Error ? error : new Error(String(error))
          this.#c.logger.debug({ protocol, peer: bytes.connection.peer, error: reason.message }, 'a stream handler failed')
          bytes.reset(reason)
        })
      },
      {
        maxInboundStreams: options.inboundStreamsMax ?? INBOUND_STREAMS_MAX,
        maxOutboundStreams: OUTBOUND_STREAMS_MAX,
        runOnLimitedConnection: true
      }
    )
  }

  async unhandle(protocol: string): Promise<void> {
    await this.#c.libp2p.unhandle(protocol)
  }

  onPeer(listener: (event: { kind: 'connect' | 'disconnect'; peer: string }) => void): () => void {
    this.#peerListeners.add(listener)
    return () => this.#peerListeners.delete(listener)
  }

  onConnection(listener: (connection: { peer: string; id: string }) => void): () => void {
    const opened = ({ detail }: CustomEvent<Connection>) => listener({ peer: detail.remotePeer.toString(), id: detail.id })
    this.#c.libp2p.addEventListener('connection:open', opened)
    return () => this.#c.libp2p.removeEventListener('connection:open', opened)
  }

  onAddressesChanged(listener: () => void): () => void {
    this.#addressListeners.add(listener)
    return () => this.#addressListeners.delete(listener)
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    const { libp2p, clock, logger } = this.#c
    this.#rejoin.stop()
    this.#tableCare.stop()
    this.#modeKeeper?.stop()
    this.reachability?.stop()
    this.#cancelSweep?.()
    this.#stopped.abort(new RookeryError('HOST_STOPPED', 'the node stops', { kind: 'unavailable' }))
    const gaveUp = Promise.withResolvers<'late'>()
    const cancel = clock.after(STOP_TIMEOUT_MS, () => gaveUp.resolve('late'))
    const ended = await Promise.race([
      Promise.resolve(libp2p.stop()).then(
        () => 'stopped' as const,
        (error: unknown) => {
          logger.warn({ error: String(error) }, 'libp2p did not stop cleanly')
          return 'stopped' as const
        }
      ),
      gaveUp.promise
    ])
    cancel()
    if (ended === 'late') {
      for (const connection of libp2p.getConnections()) connection.abort(new Error('the node stops'))
      logger.warn({ afterMs: STOP_TIMEOUT_MS }, 'libp2p did not stop in time and was left')
    }
    this.#peerListeners.clear()
    this.#addressListeners.clear()
  }

  #checkRunning(): void {
    if (this.#stopped.signal.aborted) throw this.#stopped.signal.reason
  }

  #byteStream(stream: Stream, connection: Connection): ByteStream {
    return new Libp2pByteStream(stream, connectionInfo(connection), this.#c.clock)
  }

  /** One listener on the caller's signal and one on ours, gone again with `release`; libp2p hangs its many on the inner one. */
  #scope(signal: AbortSignal | undefined, timeoutMs: number): { signal: AbortSignal; release(): void } {
    const controller = new AbortController()
    allowManyListeners(controller.signal)
    const sources = [signal, this.#stopped.signal]
    const abort = () => controller.abort(sources.find((source) => source?.aborted === true)?.reason)
    for (const source of sources) source?.addEventListener('abort', abort, { once: true })
    if (sources.some((source) => source?.aborted === true)) abort()
    const cancel = this.#c.clock.after(timeoutMs, () => controller.abort(new Error(`no answer within ${timeoutMs} ms`)))
    return {
      signal: controller.signal,
      release() {
        cancel()
        for (const source of sources) source?.removeEventListener('abort', abort)
      }
    }
  }

  #candidates(): { peer: string; addrs: readonly string[]; origin: 'bootstrap' | 'remembered' }[] {
    const fromList = this.#init.bootstrap.map((entry) => ({ ...entry, origin: 'bootstrap' as const }))
    const named = new Set(fromList.map(({ peer }) => peer).concat(this.peer))
    const remembered = this.#c.peers.list().filter(({ peer }) => !named.has(peer))
    return [...fromList, ...remembered.map((entry) => ({ ...entry, origin: 'remembered' as const }))]
  }

  #onConnect(id: PeerId): void {
    const peer = id.toString()
    this.#rejoin.connected()
    this.#tableCare.peerArrived()
    this.#modeKeeper?.peerArrived()
    this.reachability?.peerArrived()
    this.#tell({ kind: 'connect', peer })
    void this.#remember(id).catch((error: unknown) => this.#c.logger.debug({ peer, error: String(error) }, 'a peer was not remembered'))
  }

  /** Dialled addresses only: where an inbound connection came from is a port nobody listens on. */
  async #remember(id: PeerId): Promise<void> {
    const outbound = this.#c.libp2p
      .getConnections(id)
      .filter((connection) => connection.direction === 'outbound' && connection.limits === undefined)
    const addrs = outbound.map((connection) => withoutPeer(connection.remoteAddr.toString()))
    await this.#c.peers.met(id.toString(), this.#init.isPublic ? addrs.filter((addr) => isPublicAddr(multiaddr(addr))) : addrs)
  }

  #onDisconnect(id: PeerId): void {
    this.#tell({ kind: 'disconnect', peer: id.toString() })
    if (!this.#stopped.signal.aborted && this.#c.libp2p.getPeers().length === 0) this.#rejoin.isolated()
  }

  #tell(event: { kind: 'connect' | 'disconnect'; peer: string }): void {
    for (const listener of [...this.#peerListeners]) {
      try {
        listener(event)
      } catch (error) {
        this.#c.logger.error({ error: String(error) }, 'a peer listener failed')
      }
    }
  }

  #onAddresses(): void {
    const now = this.addresses().join()
    if (now === this.#addressesTold || this.#stopped.signal.aborted) return
    this.#addressesTold = now
    this.#modeKeeper?.addressesChanged()
    for (const listener of [...this.#addressListeners]) {
      try {
        listener()
      } catch (error) {
        this.#c.logger.error({ error: String(error) }, 'an address listener failed')
      }
    }
  }

  #scheduleSweep(): void {
    this.#cancelSweep = this.#c.clock.after(SWEEP_INTERVAL_MS, () => {
      this.#c.datastore.sweep()
      this.#scheduleSweep()
    })
  }
}

function parsePeer(text: string): PeerId {
  try {
    return peerIdFromString(text)
  } catch (cause) {
    throw new RookeryError('PEER_INVALID', `"${text.slice(0, 80)}" is no PeerId`, {
      kind: 'usage',
      field: 'peer',
      value: text.slice(0, 80),
      cause
    })
  }
}

function isName(error: unknown, ...names: string[]): boolean {
  return error instanceof Error && names.includes(error.name)
}

function named(error: unknown, target: PeerAddress, protocol: string): unknown {
  if (error instanceof RookeryError) return error
  if (isName(error, 'UnsupportedProtocolError')) {
    return new RookeryError('PROTOCOL_UNSUPPORTED', `the peer does not speak ${protocol}`, {
      kind: 'unavailable',
      field: 'protocol',
      value: protocol,
      cause: error
    })
  }
  if (isName(error, 'TooManyOutboundProtocolStreamsError')) {
    return new RookeryError('STREAM_LIMIT', `too many open streams of ${protocol} to this peer`, {
      kind: 'unavailable',
      data: { streamsMax: OUTBOUND_STREAMS_MAX },
      cause: error
    })
  }
  return new RookeryError('DIAL_FAILED', `cannot reach ${target.peer}: ${error instanceof Error ? error.message : String(error)}`, {
    kind: 'unavailable',
    field: 'peer',
    value: target.peer,
    data: { addrs: [...target.addrs] },
    remedy: 'check that the peer runs and that one of its addresses can be reached from here',
    cause: error
  })
}

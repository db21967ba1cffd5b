import type { Connection, Libp2p, PeerId } from '@libp2p/interface'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { PeerAddress } from './host.ts'
import { isPublicAddr, transportOf, withoutPeer } from './multiaddrs.ts'
import type { CircuitClient, CircuitServer, ReachabilityInit } from './nat-services.ts'
import { type NetworkChange, NetworkWatch } from './network-watch.ts'
import { isOfOwnNetwork } from './own-networks.ts'
import { type HostReachability, ReachabilityBook, type ReachabilityReport } from './reachability.ts'
import { RelayKeeper } from './relay-keeper.ts'

const EXTERNAL_MAX = 8
/** Addresses of one relay that we tell: a locator takes eight in all */
const ADDRS_PER_RELAY_MAX = 2
/** Peers that came over a relay and are dialled directly, at once */
const UPGRADES_MAX = 16
/** What the peer tells of itself takes so long to arrive; then it is dialled for so long. */
const IDENTIFY_MS = 1_500
const UPGRADE_MS = 8_000
/** After our network changed a connection must answer within this, or it is dropped. */
const ALIVE_MS = 8_000
const PING = '/ipfs/ping/1.0.0'

export interface NatReachabilityComponents {
  clock: Clock
  random: Random
  logger: Logger
  libp2p: Libp2p
  client: CircuitClient
  server: CircuitServer | undefined
  /** addresses of this machine with their networks, such as `192.168.1.7/24`, in a settled order */
  interfaces: () => string[]
}

export interface NatReachabilityInit {
  settings: ReachabilityInit
  isPublic: boolean
  /** opens a direct connection to a relay */
  dial(target: PeerAddress, signal: AbortSignal): Promise<Connection>
}

/** Keeps a node reachable: judges by what peers say, holds places at relays, goes over to direct connections, and follows changes of the network. */
export class NatReachability implements HostReachability {
  readonly #c: NatReachabilityComponents
  readonly #init: NatReachabilityInit
  readonly #book: ReachabilityBook
  readonly #keeper: RelayKeeper
  readonly #watch: NetworkWatch
  readonly #stopping = new AbortController()
  #upgrading = 0
  #upgrades = { tried: 0, direct: 0 }

  constructor(components: NatReachabilityComponents, init: NatReachabilityInit) {
    const { clock, client } = components
    this.#c = components
    this.#init = init
    this.#book = new ReachabilityBook(clock)
    this.#keeper = new RelayKeeper(components, {
      reserve: async (relay, signal) => {
        const { remotePeer } = await init.dial(relay, signal)
        signal.throwIfAborted()
        await client.reserve(remotePeer)
      },
      release: () => client.release(),
      held: (relays) => {
        this.#book.hold(relays)
        this.#tellAddresses()
      }
    })
    this.#watch = new NetworkWatch(clock, (change) => void this.#networkChanged(change), components.interfaces)
    client.onLost((relay) => this.#keeper.lost(relay))
    components.libp2p.addEventListener('connection:open', ({ detail }) => this.#onConnection(detail))
  }

  begin(): void {
    if (this.#init.settings.relay === 'always') this.#keeper.want(true)
    this.#watch.start()
  }

  /** What a round of dial-backs came to. */
  judge(verdict: 'direct' | 'private'): void {
    if (this.#book.judged !== verdict)
      this.#c.logger.info({ verdict }, verdict === 'direct' ? 'peers can dial this node' : 'peers cannot dial this node')
    this.#book.judge(verdict)
    if (this.#init.settings.relay === 'auto') this.#keeper.want(verdict === 'private')
  }

  /** Addresses as they are told: those of our relays in place of what libp2p would say of them. */
  announced(addrs: readonly Multiaddr[]): Multiaddr[] {
    const self = this.#c.libp2p.peerId.toString()
    const direct = addrs.filter((addr) => transportOf(addr.toString()) !== 'relay')
    const relayed = this.#keeper.relays.flatMap(({ peer, addrs: of }) =>
      of.slice(0, ADDRS_PER_RELAY_MAX).map((addr) => multiaddr(`${addr}/p2p/${peer}/p2p-circuit/p2p/${self}`))
    )
    return [...direct, ...relayed]
  }

  /** Peers whose word counts: reached directly, and of another network where there are such; who stands on the same link sees no router. */
  witnesses(): string[] {
    const direct = this.#c.libp2p.getConnections().filter(({ limits }) => limits === undefined)
    const own = this.#c.interfaces()
    const outside = direct.filter(({ remoteAddr }) => !isOfOwnNetwork(remoteAddr.toString(), own))
    return [...new Set((outside.length > 0 ? outside : direct).map(({ remotePeer }) => remotePeer.toString()))]
  }

  report(): ReachabilityReport {
    const { server, libp2p, client } = this.#c
    const addresses = libp2p.getMultiaddrs().map((addr) => withoutPeer(addr.toString()))
    const direct = addresses.filter((addr) => transportOf(addr) !== 'relay')
    return {
      state: this.#book.state,
      sinceMs: this.#book.sinceMs,
      relays: this.#book.relays,
      external: (this.#book.judged === 'direct' ? direct : client.observed()).slice(0, EXTERNAL_MAX),
      upgrades: { ...this.#upgrades },
      ...(server === undefined ? {} : { serving: { reservations: server.reservations, reservationsMax: server.reservationsMax } })
    }
  }

  onChange(listener: (report: ReachabilityReport) => void): () => void {
    return this.#book.onChange(() => listener(this.report()))
  }

  findRelaysWith(find: (signal: AbortSignal) => Promise<PeerAddress[]>): void {
    const self = this.#c.libp2p.peerId.toString()
    const isAble = (addr: string) => transportOf(addr) !== 'relay' && (!this.#init.isPublic || isPublicAddr(multiaddr(addr)))
    this.#keeper.findWith(async (signal) =>
      (await find(signal)).flatMap(({ peer, addrs }) => {
        const able = addrs.filter(isAble)
        return peer === self || able.length === 0 ? [] : [{ peer, addrs: able }]
      })
    )
  }

  /** A peer arrived: it may know of relays. */
  peerArrived(): void {
    if (this.#keeper.relays.length === 0) this.#keeper.soon()
  }

  stop(): void {
    this.#watch.stop()
    this.#keeper.stop()
    this.#stopping.abort(new Error('the host stops'))
  }

  /** Peers, the DHT and our own listeners hear of addresses through libp2p's own record of this node. */
  #tellAddresses(): void {
    const { libp2p, logger } = this.#c
    const multiaddrs = libp2p.getMultiaddrs().map((addr) => multiaddr(withoutPeer(addr.toString())))
    libp2p.peerStore
      .patch(libp2p.peerId, { multiaddrs })
      .catch((error: unknown) => logger.warn({ error: String(error) }, 'new addresses could not be told to peers'))
  }

  #onConnection(connection: Connection): void {
    const { libp2p } = this.#c
    if (connection.limits !== undefined) {
      if (connection.direction === 'inbound') void this.#upgrade(connection)
      return
    }
    const relayed = libp2p.getConnections(connection.remotePeer).some(({ limits }) => limits !== undefined)
    if (relayed) this.#upgrades.direct++
  }

  /**
   * The peer came over a relay, so it cannot dial us; we may be able to dial it. On the internet libp2p's DCUtR does this, and only for public
   * addresses; here it is done for private ones.
   */
  async #upgrade(relayed: Connection): Promise<void> {
    const { settings, isPublic } = this.#init
    if (!settings.dcutr) return
    this.#upgrades.tried++
    if (isPublic || this.#upgrading >= UPGRADES_MAX) return
    const { clock, libp2p, logger } = this.#c
    const peer = relayed.remotePeer
    const patience = new AbortController()
    const give = () => patience.abort(this.#stopping.signal.reason)
    this.#stopping.signal.addEventListener('abort', give, { once: true })
    const cancel = clock.after(IDENTIFY_MS + UPGRADE_MS, () => patience.abort(new Error('the peer does not answer')))
    this.#upgrading++
    try {
      await clock.sleep(IDENTIFY_MS, { signal: patience.signal })
      const addrs = await this.#directAddrs(peer)
      if (addrs.length === 0 || this.#isDirect(peer)) return
      await libp2p.dial(addrs, { signal: patience.signal, force: true })
      logger.info({ peer: peer.toString() }, 'a direct connection took the place of one over a relay')
      await relayed.close({ signal: patience.signal })
    } catch (error) {
      if (!this.#stopping.signal.aborted)
        logger.debug({ peer: peer.toString(), error: String(error) }, 'no direct connection to a peer that came over a relay')
    } finally {
      this.#upgrading--
      cancel()
      this.#stopping.signal.removeEventListener('abort', give)
    }
  }

  async #directAddrs(peer: PeerId): Promise<Multiaddr[]> {
    const known = await this.#c.libp2p.peerStore.get(peer)
    return known.addresses
      .map(({ multiaddr: addr }) => withoutPeer(addr.toString()))
      .filter((addr) => transportOf(addr) !== 'relay')
      .map((addr) => multiaddr(`${addr}/p2p/${peer}`))
  }

  #isDirect(peer: PeerId): boolean {
    return this.#c.libp2p.getConnections(peer).some(({ limits, status }) => limits === undefined && status === 'open')
  }

  async #networkChanged(change: NetworkChange): Promise<void> {
    const { logger, libp2p } = this.#c
    logger.info({ ...change }, 'the addresses of this machine changed')
    this.#tellAddresses()
    this.#keeper.networkChanged()
    await Promise.all(libp2p.getConnections().map((connection) => this.#dropIfDead(connection)))
  }

  async #dropIfDead(connection: Connection): Promise<void> {
    const { clock, logger } = this.#c
    const patience = new AbortController()
    const cancel = clock.after(ALIVE_MS, () => patience.abort(new Error(`no answer within ${ALIVE_MS} ms after the network changed`)))
    try {
      const stream = await connection.newStream(PING, { signal: patience.signal, runOnLimitedConnection: true })
      stream.abort(new Error('it answers'))
    } catch {
      if (!patience.signal.aborted) return
      logger.info({ peer: connection.remotePeer.toString() }, 'a connection did not outlive the change of the network')
      connection.abort(patience.signal.reason)
    } finally {
      cancel()
    }
  }
}

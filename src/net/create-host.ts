import { noise } from '@chainsafe/libp2p-noise'
import { yamux } from '@chainsafe/libp2p-yamux'
import { bootstrap } from '@libp2p/bootstrap'
import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import type { Libp2pEvents, PeerDiscovery, PeerId, PeerUpdate, TypedEventTarget } from '@libp2p/interface'
import { FaultTolerance, type Libp2p, type Transport } from '@libp2p/interface'
import { type KadDHTComponents, kadDHT, passthroughMapper } from '@libp2p/kad-dht'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { ping } from '@libp2p/ping'
import { plaintext } from '@libp2p/plaintext'
import type { Multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Store } from '../store/store.ts'
import { boundTable } from './bounded-table.ts'
import { ConnectionShares } from './connection-shares.ts'
import { KademliaDht } from './dht.ts'
import { DhtDatastore } from './dht-datastore.ts'
import { type KadRpc, Lookup } from './dht-lookup.ts'
import type { DhtModeSetting } from './dht-mode.ts'
import { checkValue, DHT_NAMESPACES, type DhtRules } from './dht-rules.ts'
import { findNode } from './find-node.ts'
import type { Host } from './host.ts'
import { type IdentifyComponents, LeanIdentify } from './identify.ts'
import { Libp2pHost } from './libp2p-host.ts'
import { libp2pLogger } from './libp2p-log.ts'
import { ListenLog } from './listen-log.ts'
import { byDialOrder, isLinkLocal, isPublicAddr, parseAddr, parseBootstrap, transportOf } from './multiaddrs.ts'
import type { CircuitClient, CircuitServer, ReachabilityInit } from './nat-services.ts'
import { closestInTable } from './nearest-in-table.ts'
import { keepInBook, PeerBook } from './peer-book.ts'
import { PeerMemory } from './peer-memory.ts'
import { verifyByIdentify } from './table-verify.ts'
import { type Traffic, trafficMetrics } from './traffic.ts'

/** libp2p's own priority of what no program waits for */
const TABLE_DIAL = { priority: 50 }
export const KAD_PROTOCOL = '/rookery/kad/1.0.0'

/**
 * Buckets split down to this many bits of a place, and each holds k at most: so many nodes, 2^8 k, may there be until a node no longer has room for
 * all its neighbours. kad-dht's own 6 bits leave newcomers unknown from 64 k on.
 */
const TABLE_PREFIX_BITS = 8
/** Inbound dials a second from one address; libp2p's 5 refuses the second node of a busy machine. */
const INBOUND_DIALS_PER_S = 100
/**
 * Which protocol an inbound stream speaks is said within this. libp2p's negotiation holds about 9 KiB of every stream, ended or not, until the
 * time is over: at its own 10 s a flood of 1,500 streams a second holds 140 MiB.
 */
const NEGOTIATION_MS = 3_000
const CONNECTIONS_MAX = 300
const YAMUX_STREAM_WINDOW_BYTES = 1024 * 1024

export type TransportFactory = (components: never) => Transport

/** What a host stands on: a Node process and a page differ in this alone. */
export interface HostPlatform {
  /** @param listen - addresses that will be listened on */
  transports(profile: 'quic' | 'memory', listen: readonly string[], clock: Clock): Promise<TransportFactory[]>
  /** where a host of profile `quic` listens if nothing is said */
  readonly listenDefault: readonly string[]
  /** what finds peers of this LAN */
  lanDiscovery?(): (components: never) => PeerDiscovery
  /** what makes a host reachable behind a router */
  readonly nat?: {
    client(): CircuitClient
    server(init: ReachabilityInit['relayServer']): CircuitServer
    services(init: ReachabilityInit, isPublic: boolean, server: CircuitServer | undefined): Record<string, unknown>
    /** addresses of this machine with their networks, such as `192.168.1.7/24`, in a settled order */
    interfaces(): string[]
  }
}

export interface HostComponents {
  clock: Clock
  random: Random
  logger: Logger
  crypto: CryptoProvider
  /** remembers DHT values and peers over a restart; without one they live in memory */
  store?: Store | undefined
  /** what may stand in the DHT */
  validator: DhtRules
  /** counts what is sent; without one nothing is counted */
  traffic?: Traffic | undefined
  /** in place of libp2p's memory transport, in profile `memory` */
  memoryTransport?: ((components: never) => Transport) | undefined
}

export interface HostInit {
  /** Ed25519 seed of the PeerId, 32 bytes; never an agent's */
  privateKey: Uint8Array
  /** multiaddrs; default: QUIC and TCP on free ports of all interfaces, both families */
  listen?: readonly string[] | undefined
  /** multiaddrs told to others instead of those listened on */
  announce?: readonly string[] | undefined
  /** multiaddrs that end with /p2p/… */
  bootstrap?: readonly string[] | undefined
  mdns?: boolean | undefined
  /** `memory`: in one process, in clear, for simulations */
  profile?: 'quic' | 'memory' | undefined
  /** `public`: private addresses are neither stored, passed on nor dialled */
  network?: 'lan' | 'public' | undefined
  connectionsMax?: number | undefined
  /** which network an address lies in, for its share of the connections; default: public addresses by /24 and /48, others bear none */
  networkOf?: ((addr: string) => string | undefined) | undefined
  /** absent: no relay is sought and nobody is asked, but others are dialled over theirs */
  reachability?: ReachabilityInit | undefined
  dht?:
    | {
        kBucketSize?: number | undefined
        alpha?: number | undefined
        disjointPaths?: number | undefined
        /** default `server`; over the memory transport `auto` is a server */
        mode?: DhtModeSetting | undefined
        protocol?: string | undefined
        initialQuerySelfIntervalMs?: number | undefined
        querySelfIntervalMs?: number | undefined
        bytesMax?: number | undefined
        /** `by-prefix`: k peers for each number of leading bits that they share with us, for networks of many nodes in one process */
        table?: 'every-bucket' | 'by-prefix' | undefined
      }
    | undefined
}

/**
 * Starts a libp2p host with our DHT on a platform; in a Node process `createHost` (./node-host.ts) does.
 * @throws RookeryError `ADDRESS_INVALID`, `PORT_IN_USE`, `LISTEN_FAILED`, `QUIC_UNAVAILABLE`; then nothing is left running
 */
export async function createHostOn(platform: HostPlatform, components: HostComponents, init: HostInit): Promise<Host> {
  const { clock, random, logger, crypto, store, validator, traffic, memoryTransport } = components
  const log = logger.child('net')
  const profile = init.profile ?? 'quic'
  const network = init.network ?? 'lan'
  const isPublic = network === 'public'
  const privateKey = await generateKeyPairFromSeed('Ed25519', init.privateKey)
  const self = peerIdFromPrivateKey(privateKey)
  const listen = (init.listen ?? (profile === 'memory' ? [`/memory/${self}`] : platform.listenDefault)).map((addr, i) =>
    parseAddr(addr, `listen[${i}]`).toString()
  )
  const announce = (init.announce ?? []).map((addr, i) => parseAddr(addr, `announce[${i}]`).toString())
  const bootstrapPeers = bootstrapList(init.bootstrap ?? [], self.toString(), isPublic, log)

  const datastore = new DhtDatastore(
    { clock, crypto, rules: validator, store },
    init.dht?.bytesMax === undefined ? {} : { bytesMax: init.dht.bytesMax }
  )
  datastore.setPlace(crypto.sha256(self.toMultihash().bytes))
  await datastore.load()
  const memoryOfPeers = new PeerMemory({ clock, store })
  await memoryOfPeers.load()

  const kadProtocol = init.dht?.protocol ?? KAD_PROTOCOL
  const kBucketSize = init.dht?.kBucketSize ?? 20
  const alpha = init.dht?.alpha ?? 3
  const disjointPaths = init.dht?.disjointPaths ?? (profile === 'memory' ? 1 : 3)
  const isAuto = init.dht?.mode === 'auto' && profile !== 'memory'
  // on the internet a node is a client until it knows an address of its own that is public
  const startsAsClient = init.dht?.mode === 'client' || (isAuto && (isPublic || listen.length === 0))
  const listening = new ListenLog()
  const discovery: ((c: { peerStore: never; logger: never; connectionManager: never }) => PeerDiscovery)[] = []
  if (bootstrapPeers.length > 0) {
    const list = bootstrapPeers.flatMap(({ addrs, peer }) => addrs.map((addr) => `${addr}/p2p/${peer}`))
    discovery.push(bootstrap({ list, timeout: 1_000 }) as never)
  }
  // libp2p only notes what it discovers on the LAN; the host dials it
  let onLan: (peer: string, addrs: string[]) => void = () => {}
  if (init.mdns === true && platform.lanDiscovery !== undefined) {
    const make = platform.lanDiscovery()
    discovery.push((c) => {
      const found = make(c as never)
      found.addEventListener('peer', ({ detail }) => onLan(detail.id.toString(), detail.multiaddrs.map(String)))
      return found
    })
  }

  const connectionsMax = init.connectionsMax ?? CONNECTIONS_MAX
  const shares = new ConnectionShares({ connectionsMax, networkOf: init.networkOf })
  const nat = profile === 'memory' ? undefined : platform.nat
  const circuits = nat?.client()
  const reachability = nat === undefined ? undefined : init.reachability
  const circuitServer = reachability?.relayServer.enabled === true ? nat?.server(reachability.relayServer) : undefined
  const factories =
    profile === 'memory' && memoryTransport !== undefined ? [memoryTransport] : await platform.transports(profile, listen, clock)
  let announced = (addrs: Multiaddr[]): Multiaddr[] => addrs.filter((addr) => transportOf(addr.toString()) !== 'relay')
  let who: LeanIdentify | undefined
  const libp2p = await createLibp2p({
    start: false,
    privateKey,
    datastore,
    logger: libp2pLogger(log),
    ...(traffic === undefined ? {} : { metrics: () => trafficMetrics(traffic) }),
    addresses: {
      listen,
      announce,
      announceFilter: (addrs: Multiaddr[]) => announced(addrs.filter(isPublic ? isPublicAddr : (addr) => !isLinkLocal(addr)))
    },
    transports: [...factories, ...(circuits === undefined ? [] : [circuits.make])].map(
      (make) => (c: never) => listening.watch(make(c))
    ) as never,
    transportManager: { faultTolerance: FaultTolerance.NO_FATAL },
    connectionEncrypters: profile === 'memory' ? [plaintext()] : [noise()],
    streamMuxers: [yamux({ enableKeepAlive: profile !== 'memory', streamOptions: { maxStreamWindowSize: YAMUX_STREAM_WINDOW_BYTES } })],
    connectionMonitor: { enabled: false },
    connectionManager: {
      maxConnections: connectionsMax,
      inboundConnectionThreshold: INBOUND_DIALS_PER_S,
      maxIncomingPendingConnections: INBOUND_DIALS_PER_S,
      inboundStreamProtocolNegotiationTimeout: NEGOTIATION_MS,
      addressSorter: (a, b) => byDialOrder(a.multiaddr, b.multiaddr)
    },
    connectionGater: {
      ...(isPublic
        ? {
            denyDialMultiaddr: (addr: Multiaddr) => !isPublicAddr(addr),
            filterMultiaddrForPeer: (_peer: unknown, addr: Multiaddr) => isPublicAddr(addr)
          }
        : { denyDialMultiaddr: () => false }),
      denyInboundConnection: (connection) => shares.refusesNetwork(connection),
      denyInboundEncryptedConnection: (peer, connection) => shares.refusesPeer(peer, connection),
      denyInboundRelayReservation: (source) => circuitServer?.refuses(source) ?? true
    },
    peerDiscovery: discovery as never,
    services: {
      ...((reachability === undefined ? {} : nat?.services(reachability, isPublic, circuitServer)) as Record<string, never>),
      identify: (c: IdentifyComponents) => {
        who = new LeanIdentify(c, clock)
        return who.service
      },
      ping: ping(),
      dht: (c: KadDHTComponents) => {
        const kad = kadDHT({
          protocol: kadProtocol,
          kBucketSize,
          prefixLength: TABLE_PREFIX_BITS,
          alpha,
          disjointPaths,
          clientMode: startsAsClient,
          allowQueryWithZeroPeers: true,
          initialQuerySelfInterval: init.dht?.initialQuerySelfIntervalMs ?? 1_000,
          ...(init.dht?.querySelfIntervalMs === undefined ? {} : { querySelfInterval: init.dht.querySelfIntervalMs }),
          peerInfoMapper: isPublic ? (info) => ({ ...info, multiaddrs: info.multiaddrs.filter(isPublicAddr) }) : passthroughMapper,
          validators: kadValidators(validator, clock),
          selectors: kadSelectors(validator)
        })(c)
        return kad as unknown as KadRpc
      }
    }
  })

  const kad = libp2p.services.dht
  const { kb } = kad.routingTable
  verifyByIdentify(kad.routingTable, {
    connections: (peer) => libp2p.getConnections(peer),
    dial: (peer, options) => libp2p.dial(peer, { ...options, ...TABLE_DIAL }),
    identified: (connection) => who?.identified(connection),
    nowMs: () => clock.nowMs()
  })
  if (init.dht?.table === 'by-prefix') {
    const placeOf = (peer: PeerId) => crypto.sha256(peer.toMultihash().bytes)
    boundTable(kad.routingTable, { own: placeOf(self), k: kBucketSize, placeOf })
  }
  kb.closest = (place, options) => closestInTable(kb.root, place, { count: options?.count ?? kBucketSize, exclude: options?.exclude })
  const { peerStore } = libp2p
  const isAllowed = (addr: Multiaddr) => !isPublic || isPublicAddr(addr)
  const { events } = peerStore as unknown as { events: TypedEventTarget<Libp2pEvents> }
  const changed = (detail: PeerUpdate, isSelf: boolean) =>
    void events.safeDispatchEvent(isSelf ? 'self:peer:update' : 'peer:update', { detail })
  const isConnected = (peer: PeerId) => libp2p.getConnections(peer).length > 0
  keepInBook(peerStore, new PeerBook({ self, clock, isConnected, isAllowed, changed }))
  const connected = async (wanted: (peer: string) => boolean = () => true) => {
    const ids = libp2p.getPeers().filter((id) => wanted(id.toString()))
    const servers = await Promise.all(
      ids.map(async (id) => {
        const known = await peerStore.get(id).catch(() => undefined)
        return known?.protocols.includes(kadProtocol) === true ? [id] : []
      })
    )
    return servers.flat()
  }
  const ask = async (peer: PeerId, key: Uint8Array, signal: AbortSignal) => {
    const named = await findNode(() => libp2p.dialProtocol(peer, kadProtocol, { signal }), key, signal)
    for (const one of named) {
      if (one.id.equals(self) || one.multiaddrs.length === 0) continue
      await peerStore.merge(one.id, { multiaddrs: one.multiaddrs })
      void kad.onPeerConnect(one).catch(() => {})
    }
    return named
  }
  const lookup = new Lookup({ kad, self, crypto, clock, connected, findNode: ask, isAllowed }, { kBucketSize, alpha, disjointPaths })
  const host = new Libp2pHost(
    {
      clock,
      random,
      logger: log,
      libp2p: libp2p as unknown as Libp2p,
      datastore,
      peers: memoryOfPeers,
      circuits,
      circuitServer,
      interfaces: nat === undefined ? undefined : () => nat.interfaces()
    },
    {
      bootstrap: bootstrapPeers,
      isPublic,
      bucketSize: kBucketSize,
      reachability,
      autoMode: isAuto ? { mode: () => kad.getMode(), setMode: (mode) => kad.setMode(mode) } : undefined
    },
    (addresses, signal) =>
      new KademliaDht({ kad, peer: self, peerStore, datastore, lookup, crypto, clock, random, signal, addresses, connected })
  )
  onLan = (peer, addrs) => host.discovered(peer, addrs)
  const { reachability: keeper } = host
  if (keeper !== undefined) announced = (addrs) => keeper.announced(addrs)
  try {
    await host.serveDialBacks()
    await libp2p.start()
    listening.check(listen, log)
    if (isAuto && isPublic && host.addresses().length > 0) await kad.setMode('server')
  } catch (error) {
    await host.stop()
    throw error
  }
  host.begin()
  return host
}

function kadValidators(rules: DhtRules, clock: Clock) {
  const check = (key: Uint8Array, value: Uint8Array) => checkValue(rules, key, value, clock.nowMs())
  // `pk` is kad-dht's own; without a rule of ours here, holders would keep public keys for anyone
  return Object.fromEntries([...DHT_NAMESPACES, 'pk'].map((name) => [name, check]))
}

function kadSelectors(rules: DhtRules) {
  const best = (key: Uint8Array, values: Uint8Array[]) => {
    let at = 0
    for (let i = 1; i < values.length; i++) {
      if (rules.select(key, values[at] as Uint8Array, values[i] as Uint8Array) === 'offered') at = i
    }
    return at
  }
  return Object.fromEntries(DHT_NAMESPACES.map((name) => [name, best]))
}

/** Malformed entries are the operator's mistake; duplicates, ourselves and private ones on a public node are only told. */
function bootstrapList(entries: readonly string[], self: string, isPublic: boolean, log: Logger): { peer: string; addrs: string[] }[] {
  const byPeer = new Map<string, string[]>()
  entries.forEach((entry, position) => {
    const { peer, addr } = parseBootstrap(entry, position)
    const dialled = addr.decapsulateCode(421).toString()
    const known = byPeer.get(peer) ?? []
    if (peer === self) log.warn({ position, entry }, 'a bootstrap entry is this node itself and is left out')
    else if (known.includes(dialled)) log.warn({ position, entry }, 'a bootstrap entry stands in the list twice')
    else if (isPublic && !isPublicAddr(addr))
      log.warn({ position, entry }, 'a bootstrap entry that is no public IP address is not dialled on a public node')
    else byPeer.set(peer, [...known, dialled])
  })
  return [...byPeer].map(([peer, addrs]) => ({ peer, addrs }))
}

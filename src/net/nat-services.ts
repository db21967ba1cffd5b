import { autoNAT } from '@libp2p/autonat'
import { circuitRelayServer, circuitRelayTransport } from '@libp2p/circuit-relay-v2'
import { dcutr } from '@libp2p/dcutr'
import type { Connection, PeerId, Stream, Transport } from '@libp2p/interface'
import { uPnPNAT } from '@libp2p/upnp-nat'
import type { Multiaddr } from '@multiformats/multiaddr'
import { machineAddresses } from '../platform/interfaces.ts'

/** Settings `reachability`, in ms and bytes. */
export interface ReachabilityInit {
  readonly autonat: boolean
  readonly relay: 'auto' | 'always' | 'off'
  readonly relayServer: {
    readonly enabled: boolean
    readonly reservationsMax: number
    readonly bytesMax: number
    readonly durationMs: number
  }
  readonly dcutr: boolean
  readonly upnp: boolean
}

/** Places that one IP address may hold at our relay: many PeerIds cost nothing. */
export const RESERVATIONS_PER_IP_MAX = 8
/** Carried connections of one peer at a time, in each direction */
const CARRIED_PER_PEER_MAX = 64

/** What the circuit relay transport keeps of places at relays. */
interface ReservationStore extends EventTarget {
  addRelay(peer: PeerId, type: 'configured'): Promise<unknown>
  hasReservation(peer: PeerId): boolean
  cancelReservations(): void
}

/** Parts of libp2p that it gives to transports and services alone. */
interface Internals {
  transportManager: { dial(addr: Multiaddr, options: { signal: AbortSignal }): Promise<Connection> }
  addressManager: { getObservedAddrs(): Multiaddr[] }
}

interface CircuitTransport extends Transport {
  reservationStore: ReservationStore
  onStop(stream: Stream, connection: Connection): Promise<void>
}

/** The client side of circuit relay v2: dials over relays, and holds places at those that it is told to. */
export class CircuitClient {
  #transport: CircuitTransport | undefined
  #internals: Internals | undefined

  /** A transport factory for libp2p. */
  readonly make = (components: never): Transport => {
    this.#internals = components
    const transport = circuitRelayTransport({ maxInboundStopStreams: CARRIED_PER_PEER_MAX, maxOutboundStopStreams: CARRIED_PER_PEER_MAX })(
      components
    ) as unknown as CircuitTransport
    const onStop = transport.onStop
    // libp2p would ask whoever brings such a stream for a place, and tell the world of it as a relay of ours
    transport.onStop = async (stream, connection) => {
      if (transport.reservationStore.hasReservation(connection.remotePeer)) return await onStop(stream, connection)
      stream.abort(new Error('no place is held at this relay'))
    }
    this.#transport = transport
    return transport
  }

  /** Dials over a relay, beside whatever dials to that peer are under way. */
  async dial(addr: Multiaddr, signal: AbortSignal): Promise<Connection> {
    if (this.#internals === undefined) throw new Error('the transport is not set up')
    return await this.#internals.transportManager.dial(addr, { signal })
  }

  /** Addresses of ours that peers see, nobody having dialled them yet. */
  observed(): string[] {
    return this.#internals?.addressManager.getObservedAddrs().map(String) ?? []
  }

  /** Asks a connected relay for a place, and renews it. @throws the relay's refusal */
  async reserve(relay: PeerId): Promise<void> {
    await this.#transport?.reservationStore.addRelay(relay, 'configured')
  }

  release(): void {
    this.#transport?.reservationStore.cancelReservations()
  }

  onLost(listener: (relay: string) => void): void {
    this.#transport?.reservationStore.addEventListener('relay:removed', (event) => {
      listener((event as CustomEvent<{ relay: PeerId }>).detail.relay.toString())
    })
  }
}

/** Our own relay: who holds a place, and who may have one. */
export class CircuitServer {
  readonly reservationsMax: number
  readonly #init: ReachabilityInit['relayServer']
  #reservations: (() => Iterable<readonly [string, Multiaddr]>) | undefined
  #size: () => number = () => 0
  #connections: { connectionManager: { getConnections(peer: PeerId): Connection[] } } | undefined

  constructor(init: ReachabilityInit['relayServer']) {
    this.#init = init
    this.reservationsMax = init.reservationsMax
  }

  get reservations(): number {
    return this.#size()
  }

  readonly make = (components: never) => {
    this.#connections = components
    const { reservationsMax, bytesMax, durationMs } = this.#init
    const service = circuitRelayServer({
      maxInboundHopStreams: CARRIED_PER_PEER_MAX,
      maxOutboundHopStreams: CARRIED_PER_PEER_MAX,
      maxOutboundStopStreams: CARRIED_PER_PEER_MAX,
      reservations: { maxReservations: reservationsMax, defaultDataLimit: BigInt(bytesMax), defaultDurationLimit: durationMs }
    })(components)
    this.#reservations = () => [...service.reservations.entries()].map(([holder, { addr }]) => [holder.toString(), addr] as const)
    this.#size = () => service.reservations.size
    return service
  }

  refuses(peer: PeerId): boolean {
    const seen = this.#connections?.connectionManager.getConnections(peer) ?? []
    return isOneTooMany(
      peer.toString(),
      seen.map(({ remoteAddr }) => remoteAddr),
      this.#reservations?.() ?? []
    )
  }
}

/** Whether a peer, seen at these addresses, asks for more than the places of its IP. Who holds one may renew it. */
export function isOneTooMany(peer: string, seen: readonly Multiaddr[], held: Iterable<readonly [string, Multiaddr]>): boolean {
  const ips = new Set(seen.map(ipOf))
  let others = 0
  for (const [holder, addr] of held) {
    if (holder === peer) return false
    if (ips.has(ipOf(addr))) others++
  }
  return others >= RESERVATIONS_PER_IP_MAX
}

const ipOf = (addr: Multiaddr) => addr.getComponents()[0]?.value

/** Addresses of this machine, such as `192.168.1.7/24`, in a settled order; without those of one link alone, which are told to nobody. */
export function interfaceAddresses(): string[] {
  const all = machineAddresses().flatMap(({ cidr }) => (cidr === null ? [] : [cidr]))
  return [...new Set(all)].filter((cidr) => !/^fe[89ab]/i.test(cidr)).sort()
}

/**
 * libp2p's services for nodes behind routers. AutoNAT, hole punching and UPnP deal with addresses of the internet alone: in a private network
 * they would say and do nothing.
 */
export function natServices(init: ReachabilityInit, isPublic: boolean, server: CircuitServer | undefined): Record<string, unknown> {
  return {
    ...(init.autonat && isPublic ? { autonat: autoNAT() } : {}),
    ...(init.dcutr && isPublic ? { dcutr: dcutr() } : {}),
    ...(init.upnp ? { upnp: uPnPNAT({ portMappingDescription: 'rookery', autoConfirmAddress: !(init.autonat && isPublic) }) } : {}),
    ...(server === undefined ? {} : { relay: server.make })
  }
}

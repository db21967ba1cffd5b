import type { ByteStream } from './byte-stream.ts'
import type { HostReachability } from './reachability.ts'

/** Where a node can be dialled. */
export interface PeerAddress {
  /** PeerId, text form */
  readonly peer: string
  /** multiaddrs, with or without the /p2p part; empty: whatever the peer store knows */
  readonly addrs: readonly string[]
}

/** A peer that a look-up found. */
export interface FoundPeer extends PeerAddress {
  /** RPCs in a row that led to it: 0 for ourselves, 1 for a peer of our own table; absent where the DHT does not tell */
  readonly hops?: number
}

export interface HostFault {
  /** for people, with what helps */
  detail: string
  /** `time`: it is being mended; `restart`: only another process can */
  needs: 'time' | 'restart'
}

/** The libp2p host as the rest of the node sees it; nothing above src/net imports libp2p. */
export interface Host {
  readonly peer: string
  /** addresses others can dial, without /p2p, newest knowledge first */
  addresses(): string[]
  /** peers with an open connection */
  peers(): string[]
  /**
   * Opens a stream of `protocol`, dialling if there is no connection.
   * @throws RookeryError `DIAL_FAILED`, `PROTOCOL_UNSUPPORTED`, `STREAM_LIMIT`; or the signal's reason
   */
  openStream(target: PeerAddress, protocol: string, options?: { signal?: AbortSignal }): Promise<ByteStream>
  /**
   * Serves a protocol. The handler owns its stream: it closes it or hands it on; returning alone ends nothing. One that throws resets its
   * stream, is counted and logged, and hurts nothing else.
   */
  handle(protocol: string, handler: (stream: ByteStream) => Promise<void>, options?: { inboundStreamsMax?: number }): Promise<void>
  unhandle(protocol: string): Promise<void>
  /** Called with the PeerId on the first connection and after the last. Returns the unsubscriber. */
  onPeer(listener: (event: { kind: 'connect' | 'disconnect'; peer: string }) => void): () => void
  /** Called for every connection that opens, with its id as in {@link ConnectionInfo}. Returns the unsubscriber. */
  onConnection(listener: (connection: { peer: string; id: string }) => void): () => void
  /** Called when our own dialable addresses change. */
  onAddressesChanged(listener: () => void): () => void
  readonly dht: Dht
  /** how others reach this node; absent where no transport goes through a network, or nobody asked for it */
  readonly reachability?: HostReachability | undefined
  /** what is wrong with its sockets; absent or undefined: nothing that is known */
  fault?(): HostFault | undefined
  stop(): Promise<void>
}

/** The part of Kademlia that we use: what kad-dht's own put and get do not promise, protocol/README.md §3 says how to get. */
export interface Dht {
  /** The peers closest to `key` that the network knows, nearest first, ourselves included where we belong. */
  closestPeers(key: Uint8Array, options?: { signal?: AbortSignal; countMax?: number }): Promise<FoundPeer[]>
  /** The peers of our own table closest to ourselves, nearest first; no look-up. */
  neighbours(max: number): PeerAddress[]
  /** Looks ourselves up, by which we fill our table and become known to our neighbours. */
  lookUpSelf(options?: { signal?: AbortSignal }): Promise<void>
  /** Stores at the closest peers; tells how many took it. Our own copy goes through the same rules. */
  put(key: Uint8Array, value: Uint8Array, options?: { signal?: AbortSignal }): Promise<{ stored: number; asked: number; known: number }>
  /** Asks the closest peers one by one; yields each distinct value that passes the validator, as it comes. */
  values(key: Uint8Array, options?: { signal?: AbortSignal }): AsyncIterable<Uint8Array>
  /** How many peers of our own table lie closer to `key` than we do; counted up to `max`, without a look-up. */
  closerKnown(key: Uint8Array, max: number): number
  routingTableSize(): number
  /** Puts peers that are connected and serve the DHT, but miss in our own table, into it, where they answer. */
  takeInConnected(options?: { signal?: AbortSignal }): Promise<void>
  /** PeerIds of our own table. */
  table(): string[]
  /** Those of our own table that lie nearest to `key`, without a look-up: nobody learns that we are interested. */
  nearestKnown(key: Uint8Array, max: number): string[]
  /** The live value that this node holds for others under `key`. */
  held(key: Uint8Array): Uint8Array | undefined
  mode(): 'client' | 'server'
}

import type { MultiaddrConnection, PeerId } from '@libp2p/interface'
import { networkOf } from './multiaddrs.ts'

/** Part of all connections that come from one public network, /24 or /48; the rest is for others. */
export const NETWORK_SHARE = 1 / 8
/** But so many in any case, also on a node of few connections. */
export const NETWORK_CONNECTIONS_MIN = 8
/** Of one PeerId. Two that dial each other at once hold two; one that was killed and comes again holds more until QUIC has noticed. */
export const PEER_CONNECTIONS_MAX = 16

/**
 * How many of the connections that others opened each network and each peer holds, from the first byte to the close, handshakes under way included. Without
 * a share one host holds all places with connections that say nothing, and a node that is full takes nobody.
 */
export class ConnectionShares {
  readonly #networkMax: number
  readonly #networkOf: (addr: string) => string | undefined
  /** by network and by PeerId; an entry goes with its last connection, so there are no more than connections */
  readonly #held = new Map<string, number>()

  /** @param init.networkOf - undefined for an address that bears no share; default: public addresses alone bear one */
  constructor(init: { connectionsMax: number; networkOf?: ((addr: string) => string | undefined) | undefined }) {
    this.#networkMax = Math.max(NETWORK_CONNECTIONS_MIN, Math.floor(init.connectionsMax * NETWORK_SHARE))
    this.#networkOf = init.networkOf ?? networkOf
  }

  /** networks and peers that hold a connection */
  get size(): number {
    return this.#held.size
  }

  /** Counts a connection that begins, unless its network has its share. */
  refusesNetwork(connection: Pick<MultiaddrConnection, 'remoteAddr' | 'addEventListener'>): boolean {
    const network = this.#networkOf(connection.remoteAddr.toString())
    return network !== undefined && !this.#enter(`net ${network}`, this.#networkMax, connection)
  }

  /** Counts one that has proved its PeerId, unless that peer has its share. */
  refusesPeer(peer: Pick<PeerId, 'toString'>, connection: Pick<MultiaddrConnection, 'addEventListener'>): boolean {
    return !this.#enter(`peer ${peer}`, PEER_CONNECTIONS_MAX, connection)
  }

  #enter(name: string, max: number, connection: Pick<MultiaddrConnection, 'addEventListener'>): boolean {
    const held = this.#held.get(name) ?? 0
    if (held >= max) return false
    this.#held.set(name, held + 1)
    connection.addEventListener('close', () => this.#leave(name), { once: true })
    return true
  }

  #leave(name: string): void {
    const left = (this.#held.get(name) ?? 1) - 1
    if (left > 0) this.#held.set(name, left)
    else this.#held.delete(name)
  }
}

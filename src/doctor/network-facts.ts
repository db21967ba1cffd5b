import type { ReachabilityReport } from '../net/reachability.ts'
import type { NetworkKind } from '../spaces/address-scope.ts'
import type { RegistrarReport } from '../spaces/registrar-book.ts'

/** One attempt to reach a peer at one address, or over the connection that there is. */
export interface DialFact {
  addr: string
  transport: string
  outcome: 'reached' | 'failed'
  /** why it failed */
  reason?: string
}

/** What the newest and the oldest signed records that one peer holds say of the time; ms since the Unix epoch. */
export interface PeerTimeFact {
  peer: string
  /** when its newest record was signed: it is that late at least, as far as its signer knows */
  newestSignedMs: number
  /** when its first record runs out: a registrar shows none that has run out, so it is not later than that */
  firstExpiresMs: number
}

/** All that {@link diagnoseNetwork} looks at; nothing else decides. */
export interface NetworkFacts {
  nowMs: number
  uptimeMs: number
  scope: NetworkKind
  /** whether multicast DNS looks for nodes of the same link */
  mdns: boolean
  bootstrap: DialFact[]
  /** addresses that others are told, with whether each can be dialled from anywhere */
  addresses: { addr: string; transport: string; isPublic: boolean }[]
  peers: number
  routingTableSize: number
  dhtMode: 'client' | 'server'
  /** what this machine says to a datagram from itself to itself; the reason where it says no */
  udp: { outcome: 'works' | 'failed'; reason?: string }
  /** by what the connected peers are reached */
  connections: { transport: string; count: number }[]
  /** connected peers that were asked to dial back by a new connection, and what they said */
  dialBacks: { asked: number; reached: number; failed: number }
  /** how others reach this node, as it judges itself; absent in memory */
  reachability?: Pick<ReachabilityReport, 'state' | 'relays' | 'external'> & { relay: 'auto' | 'always' | 'off'; upnp: boolean }
  peerTimes: PeerTimeFact[]
  /** why queues are held: the node's own clock jumped */
  clockHeld?: string
  faultyRegistrars: RegistrarReport[]
}

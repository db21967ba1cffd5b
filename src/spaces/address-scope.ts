import type { PeerAddress } from '../net/host.ts'
import { isPublicAddr, parseAddr, peerOf, withoutPeer } from '../net/multiaddrs.ts'

/** `lan` also dials, publishes and follows private addresses; `public` never does. */
export type NetworkKind = 'public' | 'lan'

/** Text that is no multiaddr is reachable nowhere. */
export function isReachable(addr: string, network: NetworkKind): boolean {
  try {
    const parsed = parseAddr(addr, 'address')
    return network === 'lan' || isPublicAddr(parsed)
  } catch {
    return false
  }
}

/** What a record of someone else says, without what this network does not dial. */
export function reachableAddrs(addrs: readonly string[], network: NetworkKind): string[] {
  return addrs.filter((addr) => isReachable(addr, network))
}

/** A multiaddr that ends with its peer's id, as a target to dial; undefined when it names none or lies outside the network. */
export function seedTarget(addr: string, network: NetworkKind): PeerAddress | undefined {
  if (!isReachable(addr, network)) return undefined
  const peer = peerOf(parseAddr(addr, 'seed'))
  return peer === undefined ? undefined : { peer, addrs: [withoutPeer(addr)] }
}

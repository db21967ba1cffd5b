import type { PeerAddress } from '../net/host.ts'
import { isPublicAddr, parseAddr, peerOf, withoutPeer } from '../net/multiaddrs.ts'

/** `lan` also dials, publishes and follows private addresses; `public` never does. */
export type NetworkKind = 'public' | 'lan'

/**
 * The network that a public address lies in, /24 or /48, as text; undefined for addresses that share one without sharing an owner:
 * loopback, private, relayed, by name.
 */
export function networkOf(addr: string): string | undefined {
  if (!isReachable(addr, 'public') || addr.includes('/p2p-circuit')) return undefined
  const ip = addr.split('/')[2] as string
  if (!ip.includes(':')) return `${ip.split('.').slice(0, 3).join('.')}.0/24`
  return `${ip6Groups(ip).slice(0, 3).join(':')}::/48`
}

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

/** Eight hexadecimal groups without leading zeros. */
function ip6Groups(ip: string): string[] {
  const [head = '', tail] = ip.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0')
  return [...left, ...zeros, ...right].map((group) => Number.parseInt(group, 16).toString(16))
}

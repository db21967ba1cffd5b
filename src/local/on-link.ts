import { BlockList, isIP } from 'node:net'
import { machineAddresses } from '../platform/interfaces.ts'

/** One address of this machine, with its network. */
export interface OwnAddress {
  readonly address: string
  /** such as `192.168.1.7/24` */
  readonly cidr: string
}

/** The addresses of this machine; loopback is a link of its own. */
export function ownAddresses(): OwnAddress[] {
  return machineAddresses().flatMap(({ address, cidr }) => (cidr === null ? [] : [{ address, cidr }]))
}

/** Whether an IP lies in a network that this machine has an address in: nothing beyond a router does. */
export function isOnLink(ip: string, own: readonly OwnAddress[]): boolean {
  const family = isIP(ip)
  if (family === 0) return false
  const networks = new BlockList()
  for (const { cidr } of own) {
    const [network = '', prefix = ''] = cidr.split('/')
    if (isIP(network) === family) networks.addSubnet(network, Number(prefix), family === 4 ? 'ipv4' : 'ipv6')
  }
  return networks.check(ip, family === 4 ? 'ipv4' : 'ipv6')
}

/** The IP of a multiaddr; undefined where it begins with none, as a relayed one or a name does. */
export function ipOf(addr: string): string | undefined {
  if (addr.includes('/p2p-circuit')) return undefined
  const [, kind, ip] = addr.split('/')
  return (kind === 'ip4' || kind === 'ip6') && ip !== undefined && isIP(ip) !== 0 ? ip : undefined
}

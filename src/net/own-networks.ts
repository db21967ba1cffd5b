import { BlockList, isIP } from 'node:net'

/** Whether a direct multiaddr lies in a network that one of these interfaces is in; loopback counts as one. */
export function isOfOwnNetwork(addr: string, own: readonly { cidr: string | null }[]): boolean {
  const [, , ip = ''] = addr.split('/')
  const family = isIP(ip)
  if (family === 0 || addr.includes('/p2p-circuit')) return false
  const networks = new BlockList()
  for (const { cidr } of own) {
    const [network = '', prefix = ''] = cidr?.split('/') ?? []
    if (isIP(network) === family) networks.addSubnet(network, Number(prefix), family === 4 ? 'ipv4' : 'ipv6')
  }
  return networks.check(ip, family === 4 ? 'ipv4' : 'ipv6')
}

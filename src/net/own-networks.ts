import { IpRanges, ipBytes } from '../platform/ip-ranges.ts'

/** Whether a direct multiaddr lies in one of these networks, such as `192.168.1.7/24`. */
export function isOfOwnNetwork(addr: string, own: readonly string[]): boolean {
  const [, , text = ''] = addr.split('/')
  const ip = ipBytes(text)
  return ip !== undefined && !addr.includes('/p2p-circuit') && new IpRanges(own).has(ip)
}

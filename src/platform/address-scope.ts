import { BlockList, isIPv4, isIPv6 } from 'node:net'

/** `public`: the whole internet may be meant; `loopback`: this machine; `internal`: anything else that a stranger must not make us call. */
export type AddressScope = 'public' | 'loopback' | 'internal'

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

/**
 * Special-purpose addresses of IANA's registries (RFC 6890): none of them is a host of the internet at large. The one list of this software:
 * what is dialled, published and called goes by it.
 */
const SPECIAL_V4 = new BlockList()
for (const [net, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4]
] as const) {
  SPECIAL_V4.addSubnet(net, bits, 'ipv4')
}

/** IPv6 is judged the other way round: only global unicast is public, and of it not what carries an IPv4 address or documents. */
const GLOBAL_V6 = new BlockList()
GLOBAL_V6.addSubnet('2000::', 3, 'ipv6')
const SPECIAL_V6 = new BlockList()
for (const [net, bits] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20]
] as const) {
  SPECIAL_V6.addSubnet(net, bits, 'ipv6')
}

/** True for an IPv4 address of the internet at large; text that is no IPv4 address is none. */
export function isGlobal4(ip: string): boolean {
  return isIPv4(ip) && !LOOPBACK.check(ip, 'ipv4') && !SPECIAL_V4.check(ip, 'ipv4')
}

/** True for an IPv6 address of the internet at large. One that carries an IPv4 address (`::ffff:…`, 6to4, Teredo, NAT64) is none: anyone may choose what it carries. */
export function isGlobal6(ip: string): boolean {
  return isIPv6(ip) && !ip.includes('%') && GLOBAL_V6.check(ip, 'ipv6') && !SPECIAL_V6.check(ip, 'ipv6')
}

/** Where an IP address leads; IPv4 inside IPv6 counts as the IPv4 address. Text that is no address is `internal`. */
export function addressScope(address: string): AddressScope {
  if (isIPv4(address)) {
    if (LOOPBACK.check(address, 'ipv4')) return 'loopback'
    return isGlobal4(address) ? 'public' : 'internal'
  }
  if (!isIPv6(address) || address.includes('%')) return 'internal'
  const inner = mappedV4(address)
  if (inner !== undefined) return addressScope(inner)
  if (LOOPBACK.check(address, 'ipv6')) return 'loopback'
  return isGlobal6(address) ? 'public' : 'internal'
}

/** The IPv4 address of `::ffff:a.b.c.d`, however it is written. */
function mappedV4(address: string): string | undefined {
  const host = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const match = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(host)
  if (match === null) return undefined
  const [high, low] = [Number.parseInt(match[1] as string, 16), Number.parseInt(match[2] as string, 16)]
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')
}

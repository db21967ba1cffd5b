import { IpRanges, ipBytes } from './ip-ranges.ts'

/** `public`: the whole internet may be meant; `loopback`: this machine; `internal`: anything else that a stranger must not make us call. */
export type AddressScope = 'public' | 'loopback' | 'internal'

const LOOPBACK = new IpRanges(['127.0.0.0/8', '::1/128'])

/**
 * Special-purpose addresses of IANA's registries (RFC 6890): none of them is a host of the internet at large. The one list of this software:
 * what is dialled, published and called goes by it.
 */
const SPECIAL_V4 = new IpRanges([
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3'
])

/** IPv6 is judged the other way round: only global unicast is public, and of it not what carries an IPv4 address or documents. */
const GLOBAL_V6 = new IpRanges(['2000::/3'])
const SPECIAL_V6 = new IpRanges(['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'])

/** `::ffff:a.b.c.d` */
const MAPPED_V4 = new IpRanges(['::ffff:0:0/96'])

/** True for an IPv4 address of the internet at large; text that is no IPv4 address is none. */
export function isGlobal4(ip: string): boolean {
  const bytes = ipBytes(ip)
  return bytes?.length === 4 && !SPECIAL_V4.has(bytes)
}

/** True for an IPv6 address of the internet at large. One that carries an IPv4 address (`::ffff:…`, 6to4, Teredo, NAT64) is none: anyone may choose what it carries. */
export function isGlobal6(ip: string): boolean {
  const bytes = ipBytes(ip)
  return bytes?.length === 16 && GLOBAL_V6.has(bytes) && !SPECIAL_V6.has(bytes)
}

/** Where an IP address leads; IPv4 inside IPv6 counts as the IPv4 address. Text that is no address is `internal`. */
export function addressScope(address: string): AddressScope {
  const bytes = ipBytes(address)
  if (bytes === undefined) return 'internal'
  if (MAPPED_V4.has(bytes)) return addressScope([...bytes.subarray(12)].join('.'))
  if (LOOPBACK.has(bytes)) return 'loopback'
  return isGlobal4(address) || isGlobal6(address) ? 'public' : 'internal'
}

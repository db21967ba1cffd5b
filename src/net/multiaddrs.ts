import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { RookeryError } from '../errors.ts'
import { isGlobal4, isGlobal6 } from '../platform/address-scope.ts'
import type { ConnectionInfo } from './byte-stream.ts'

/** True for addresses that a node on the public internet may dial: an IP literal that is globally reachable. Names are not: what they resolve to can change between the look and the dial. */
export function isPublicAddr(addr: Multiaddr): boolean {
  const first = addr.getComponents()[0]
  const ip = first?.value
  if (ip === undefined) return false
  if (first?.name === 'ip4') return isGlobal4(ip)
  if (first?.name === 'ip6') return isGlobal6(ip)
  return false
}

export function transportOf(addr: string): ConnectionInfo['transport'] {
  if (addr.includes('/p2p-circuit')) return 'relay'
  if (addr.includes('/webtransport')) return 'webtransport'
  if (addr.includes('/webrtc')) return 'webrtc'
  if (addr.includes('/quic-v1')) return 'quic'
  if (addr.startsWith('/memory/')) return 'memory'
  return addr.includes('/ws') ? 'websocket' : 'tcp'
}

const PREFERENCE: readonly ConnectionInfo['transport'][] = ['quic', 'webtransport', 'memory', 'tcp', 'webrtc', 'websocket', 'relay']

/** QUIC before TCP before relays; addresses of one transport keep their order. */
export function byTransport(a: string, b: string): number {
  return PREFERENCE.indexOf(transportOf(a)) - PREFERENCE.indexOf(transportOf(b))
}

/** A loopback address of another machine is ours when we dial it, so it comes last; then {@link byTransport}. */
export function byDialOrder(a: Multiaddr, b: Multiaddr): -1 | 0 | 1 {
  const difference = Number(isLoopback(a)) - Number(isLoopback(b)) || byTransport(a.toString(), b.toString())
  return Math.sign(difference) as -1 | 0 | 1
}

function isLoopback(addr: Multiaddr): boolean {
  const ip = addr.getComponents()[0]?.value
  return ip === '::1' || ip?.startsWith('127.') === true
}

/** fe80::/10 means nothing without the interface it was seen on, so it is not told to anyone. */
export function isLinkLocal(addr: Multiaddr): boolean {
  const first = addr.getComponents()[0]
  return first?.name === 'ip6' && /^fe[89ab]/i.test(first.value ?? '')
}

/** The multiaddr without a trailing `/p2p/…`. */
export function withoutPeer(addr: string): string {
  return addr.replace(/\/p2p\/[^/]+$/, '')
}

/** The PeerId that a multiaddr ends with. */
export function peerOf(addr: Multiaddr): string | undefined {
  return addr.getComponents().findLast((component) => component.name === 'p2p')?.value
}

/** @throws RookeryError `ADDRESS_INVALID`, naming position and value */
export function parseAddr(text: string, field: string): Multiaddr {
  try {
    return multiaddr(text)
  } catch (cause) {
    throw new RookeryError('ADDRESS_INVALID', `${field} is no multiaddr: ${String(text).slice(0, 200)}`, {
      kind: 'config',
      field,
      value: String(text).slice(0, 200),
      remedy: 'write it like /ip4/203.0.113.7/udp/4001/quic-v1',
      cause
    })
  }
}

/** @throws RookeryError `ADDRESS_INVALID` unless the entry is a multiaddr that ends with the peer's id */
export function parseBootstrap(text: string, position: number): { peer: string; addr: Multiaddr } {
  const field = `bootstrap[${position}]`
  const addr = parseAddr(text, field)
  const peer = peerOf(addr)
  if (peer === undefined) {
    throw new RookeryError('ADDRESS_INVALID', `${field} does not name its peer: ${text.slice(0, 200)}`, {
      kind: 'config',
      field,
      value: text.slice(0, 200),
      remedy: 'end it with /p2p/<PeerId>; `rookery status` of that node prints it'
    })
  }
  return { peer, addr }
}

/**
 * The network that a public address lies in, /24 or /48, as text; undefined for addresses that share one without sharing an owner:
 * loopback, private, relayed, by name.
 */
export function networkOf(addr: string): string | undefined {
  if (addr.includes('/p2p-circuit') || !isPublicText(addr)) return undefined
  const ip = addr.split('/')[2] as string
  if (!ip.includes(':')) return `${ip.split('.').slice(0, 3).join('.')}.0/24`
  return `${ip6Groups(ip).slice(0, 3).join(':')}::/48`
}

function isPublicText(addr: string): boolean {
  try {
    return isPublicAddr(parseAddr(addr, 'address'))
  } catch {
    return false
  }
}

/** Eight hexadecimal groups without leading zeros. */
function ip6Groups(ip: string): string[] {
  const [head = '', tail] = ip.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0')
  return [...left, ...zeros, ...right].map((group) => Number.parseInt(group, 16).toString(16))
}

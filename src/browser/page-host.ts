import type { Connection, CreateListenerOptions, DialTransportOptions, Listener, Transport } from '@libp2p/interface'
import { transportSymbol } from '@libp2p/interface'
import { webSockets } from '@libp2p/websockets'
import { webTransport } from '@libp2p/webtransport'
import type { Multiaddr } from '@multiformats/multiaddr'
import type { HostPlatform, TransportFactory } from '../net/create-host.ts'

/** What a page can dial, and that it listens nowhere. */
export const page: HostPlatform = {
  listenDefault: [],
  async transports() {
    const list: unknown[] = [webSockets()]
    if ('WebTransport' in globalThis) list.push(webTransport())
    if ('RTCPeerConnection' in globalThis) list.push((components: never) => new WebRtcDirect(components))
    return list as TransportFactory[]
  }
}

/** Dials `/webrtc-direct`. Its code is fetched with the first such dial: most pages never need it. */
class WebRtcDirect implements Transport {
  readonly [transportSymbol] = true
  readonly [Symbol.toStringTag] = 'rookery/webrtc-direct'
  readonly #components: never
  #loaded: Promise<Transport> | undefined

  constructor(components: never) {
    this.#components = components
  }

  // biome-ignore lint/suspicious/noExplicitAny: the events of one transport are its own
  async dial(addr: Multiaddr, options: DialTransportOptions<any>): Promise<Connection> {
    this.#loaded ??= import('@libp2p/webrtc').then(({ webRTCDirect }) => webRTCDirect()(this.#components) as unknown as Transport)
    const transport = await this.#loaded.catch((error: unknown) => {
      this.#loaded = undefined // a chunk that did not come is asked for again with the next dial
      throw error
    })
    return await transport.dial(addr, options)
  }

  createListener(_options: CreateListenerOptions): Listener {
    throw new Error('a page listens nowhere')
  }

  listenFilter(): Multiaddr[] {
    return []
  }

  dialFilter(addrs: Multiaddr[]): Multiaddr[] {
    return addrs.filter((addr) => {
      const names = addr.getComponents().map(({ name }) => name)
      return names.includes('webrtc-direct') && names.includes('certhash') && names.includes('udp')
    })
  }
}

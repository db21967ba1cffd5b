import type {
  ComponentLogger,
  Connection,
  CreateListenerOptions,
  DialTransportOptions,
  Listener,
  ListenerEvents,
  PeerId,
  Transport
} from '@libp2p/interface'
import { serviceCapabilities, TypedEventEmitter, transportSymbol } from '@libp2p/interface'
import { CODE_P2P, type Multiaddr } from '@multiformats/multiaddr'
import { Memory } from '@multiformats/multiaddr-matcher'
import type { DirectNetwork, Listening } from './direct-network.ts'

interface Components {
  peerId: PeerId
  logger: ComponentLogger
  registrar: { getProtocols(): string[] }
}

/** A libp2p transport over memory without encryption, negotiation or frames: the bytes of a stream go straight to the other end. */
export function directTransport(network: DirectNetwork, index: number): (components: never) => Transport {
  return (components) => new DirectTransport(network, index, components as Components)
}

class DirectTransport implements Transport {
  readonly [transportSymbol] = true as const
  readonly [Symbol.toStringTag] = 'sim/direct'
  readonly [serviceCapabilities]: string[] = ['@libp2p/transport']
  readonly #network: DirectNetwork
  readonly #index: number
  readonly #components: Components

  constructor(network: DirectNetwork, index: number, components: Components) {
    this.#network = network
    this.#index = index
    this.#components = components
  }

  async dial(address: Multiaddr, options: DialTransportOptions): Promise<Connection> {
    options.signal?.throwIfAborted()
    const parts = address.getComponents()
    const to = parts.find(({ code }) => code === CODE_P2P)?.value ?? parts[0]?.value
    if (to === undefined) throw new Error(`${address} names no peer`)
    const signal = options.signal ?? new AbortController().signal
    return await this.#network.dial(this.#self(options, signal), to, { signal, upgrader: options.upgrader })
  }

  createListener(options: CreateListenerOptions): Listener {
    return new DirectListener(this.#network, this.#components.peerId, (signal) => this.#self(options, signal))
  }

  listenFilter(addresses: Multiaddr[]): Multiaddr[] {
    return addresses.filter((address) => Memory.exactMatch(address))
  }

  dialFilter(addresses: Multiaddr[]): Multiaddr[] {
    return addresses.filter((address) => Memory.matches(address))
  }

  #self({ upgrader }: Pick<CreateListenerOptions, 'upgrader'>, signal: AbortSignal): Listening {
    const { peerId, logger, registrar } = this.#components
    return { peer: peerId, index: this.#index, upgrader, logger, signal, speaks: (protocol) => registrar.getProtocols().includes(protocol) }
  }
}

class DirectListener extends TypedEventEmitter<ListenerEvents> implements Listener {
  readonly #network: DirectNetwork
  readonly #peer: PeerId
  readonly #self: (signal: AbortSignal) => Listening
  readonly #closing = new AbortController()
  #address: Multiaddr | undefined

  constructor(network: DirectNetwork, peer: PeerId, self: (signal: AbortSignal) => Listening) {
    super()
    this.#network = network
    this.#peer = peer
    this.#self = self
  }

  async listen(address: Multiaddr): Promise<void> {
    this.#address = address
    this.#network.listen(this.#self(this.#closing.signal))
    queueMicrotask(() => this.safeDispatchEvent('listening'))
  }

  getAddrs(): Multiaddr[] {
    return this.#address === undefined ? [] : [this.#address]
  }

  updateAnnounceAddrs(): void {}

  async close(): Promise<void> {
    this.#network.unlisten(this.#peer)
    this.#address = undefined
    this.#closing.abort(new Error('the node stops'))
    queueMicrotask(() => this.safeDispatchEvent('close'))
  }
}

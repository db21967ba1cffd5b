import { mdns } from '@libp2p/mdns'
import { memory } from '@libp2p/memory'
import { tcp } from '@libp2p/tcp'
import { webSockets } from '@libp2p/websockets'
import { webTransport } from '@libp2p/webtransport'
import { RookeryError } from '../errors.ts'
import { createHostOn, type HostComponents, type HostInit, type HostPlatform, type TransportFactory } from './create-host.ts'
import type { Host } from './host.ts'
import { CircuitClient, CircuitServer, interfaceAddresses, natServices } from './nat-services.ts'
import type { QuicWatch } from './quic-watch.ts'
import { withPromptUpgrades } from './websocket-guard.ts'

const MDNS_SERVICE = '_rookery._udp.local'
/** Unread bytes of one QUIC stream that the peer may have under way beyond what we read */
const QUIC_STREAM_WINDOW_BYTES = 2 * 1024 * 1024
const QUIC_CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024

export const LISTEN_DEFAULT: readonly string[] = [
  '/ip4/0.0.0.0/udp/0/quic-v1',
  '/ip6/::/udp/0/quic-v1',
  '/ip4/0.0.0.0/tcp/0',
  '/ip6/::/tcp/0'
]

type Watchers = Pick<HostComponents, 'clock' | 'random' | 'logger'> & { told: (watch: QuicWatch) => void }

const node: Omit<HostPlatform, 'transports'> = {
  listenDefault: LISTEN_DEFAULT,
  lanDiscovery: () => mdns({ serviceTag: MDNS_SERVICE }) as never,
  nat: {
    client: () => new CircuitClient(),
    server: (init) => new CircuitServer(init),
    services: natServices,
    interfaces: interfaceAddresses
  }
}

/**
 * Starts a libp2p host with our DHT in a Node process.
 * @throws as {@link createHostOn}, and RookeryError `QUIC_UNAVAILABLE`, `WEBRTC_UNAVAILABLE`
 */
export async function createHost(components: HostComponents, init: HostInit): Promise<Host> {
  const { clock, random } = components
  const logger = components.logger.child('net')
  let watch: QuicWatch | undefined
  const told = (one: QuicWatch) => {
    watch = one
  }
  const platform: HostPlatform = {
    ...node,
    transports: async (profile, listen) =>
      profile === 'memory' ? [memory() as unknown as TransportFactory] : await transports(listen, { clock, random, logger, told })
  }
  const host = await createHostOn(platform, components, init)
  return Object.assign(host, { fault: () => watch?.fault() })
}

async function transports(listen: readonly string[], watchers: Watchers): Promise<TransportFactory[]> {
  const { quic } = await import('@chainsafe/libp2p-quic').catch((cause: unknown) => {
    throw new RookeryError('QUIC_UNAVAILABLE', 'the QUIC library has no build for this platform', {
      kind: 'config',
      remedy: 'install on a platform that @chainsafe/libp2p-quic supports',
      cause
    })
  })
  const { withOwnMuxer } = await import('./quic.ts')
  const makeQuic = quic({ maxStreamData: QUIC_STREAM_WINDOW_BYTES, maxConnectionData: QUIC_CONNECTION_WINDOW_BYTES })
  const makeWebSockets = webSockets()
  const list: unknown[] = [
    (c: never) => withOwnMuxer(makeQuic(c), watchers),
    tcp(),
    (c: never) => withPromptUpgrades(makeWebSockets(c), watchers.clock)
  ]
  if ('WebTransport' in globalThis) list.push(webTransport())
  if (listen.some((addr) => addr.includes('/webrtc-direct'))) list.push(await webRtcDirect())
  return list as TransportFactory[]
}

/** An optional package: its native part is not to be had everywhere. Loaded only where its addresses are listened on. */
async function webRtcDirect(): Promise<unknown> {
  const { webRTCDirect } = await import('@libp2p/webrtc').catch((cause: unknown) => {
    throw new RookeryError('WEBRTC_UNAVAILABLE', 'listening on /webrtc-direct needs the package @libp2p/webrtc with its native part', {
      kind: 'config',
      field: 'listen',
      remedy: 'install it beside rookery (npm install @libp2p/webrtc), or take the /webrtc-direct addresses out of `listen`',
      cause
    })
  })
  return webRTCDirect()
}

import { noise } from '@chainsafe/libp2p-noise'
import { quic } from '@chainsafe/libp2p-quic'
import type { Libp2p, Stream } from '@libp2p/interface'
import { createLibp2p } from 'libp2p'
import { MemoryLevel } from 'memory-level'
import { eid } from '../protocol/identity/eid.ts'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'
import { newAgentRecord } from '../src/identity/agents.ts'
import { HostedAgent } from '../src/identity/hosted-agent.ts'
import type { Host } from '../src/net/host.ts'
import { createHost } from '../src/net/node-host.ts'
import { systemClock } from '../src/platform/clock.ts'
import { silentLogger } from '../src/platform/logger.ts'
import { systemRandom } from '../src/platform/random.ts'
import { createSessionManager, type RunningSessionManager } from '../src/sessions/create-session-manager.ts'
import { Store } from '../src/store/store.ts'

/** Live items of the benchmark travel on this channel; the first byte says what to do with them. */
export const CHANNEL = 5
export const LIVE = 0x85
export const DURABLE = 0x02
export const SINK = 1
export const ECHO = 2
export const RAW_ECHO = '/bench/echo/1'
export const RAW_SINK = '/bench/sink/1'

export function newAgent(): HostedAgent {
  const record = newAgentRecord({ name: 'bench' }, { random: systemRandom, nowMs: systemClock.nowMs(), handler: 'manual' })
  return new HostedAgent(nodeCrypto, record, { mode: 'always_on' })
}

/** What is not to be kept. */
export const memoryStore = () => new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))

/** Our host and session manager on a loopback port, hosting `agents`. */
export async function ours(
  agents: HostedAgent[],
  { store = memoryStore(), change = (host) => host }: { store?: Store; change?: (host: Host) => Host } = {}
): Promise<{ host: Host; sessions: RunningSessionManager }> {
  const rules = {
    validate() {
      throw new Error('no records here')
    },
    select: () => 'held' as const,
    expiresAtMs: () => 0
  }
  const components = { clock: systemClock, random: systemRandom, logger: silentLogger, crypto: nodeCrypto }
  const host = change(
    await createHost({ ...components, validator: rules }, { privateKey: systemRandom.bytes(32), listen: ['/ip4/127.0.0.1/udp/0/quic-v1'] })
  )
  const sessions = await createSessionManager(
    {
      ...components,
      host,
      store,
      agents: { byEid: (key) => agents.find((one) => one.eidHex === Buffer.from(eid(key)).toString('hex')), list: () => agents }
    },
    { handshakesPerSecond: 1_000, handshakesBurst: 1_000, sources: { peerPerMinute: 100_000 }, sessionsMax: 4_000 }
  )
  return { host, sessions }
}

/** libp2p over its QUIC transport as shipped, with nothing of ours in between. */
export async function shipped(): Promise<Libp2p> {
  return createLibp2p({
    addresses: { listen: ['/ip4/127.0.0.1/udp/0/quic-v1'] },
    transports: [quic()],
    connectionEncrypters: [noise()],
    connectionMonitor: { enabled: false },
    connectionManager: { inboundConnectionThreshold: 1_000 }
  })
}

/** Writes as libp2p asks: on a full buffer wait for `drain`. */
export async function write(stream: Stream, bytes: Uint8Array): Promise<void> {
  if (stream.send(bytes)) return
  await new Promise<void>((resolve) => stream.addEventListener('drain', () => resolve(), { once: true }))
}

/** Resolves with the next `length` bytes; one reader at a time. */
export function reader(stream: Stream): (length: number) => Promise<void> {
  let have = 0
  let wanted: { length: number; resolve(): void } | undefined
  stream.addEventListener('message', (event) => {
    have += event.data.byteLength
    if (wanted !== undefined && have >= wanted.length) {
      have -= wanted.length
      const { resolve } = wanted
      wanted = undefined
      resolve()
    }
  })
  return (length) =>
    new Promise((resolve) => {
      if (have >= length) {
        have -= length
        resolve()
      } else wanted = { length, resolve }
    })
}

const SEED = new Uint8Array(32).fill(7)
const SECRET = new Uint8Array(32).fill(9)
const SIGNED = new Uint8Array(256)

/** The three signatures, three checks and four key agreements of a handshake (INIT, NEG, ACK, on both sides together), one after the other. */
export function handshakeCrypto(): void {
  const { ed25519, x25519 } = nodeCrypto
  const key = ed25519.publicKey(SEED)
  for (let i = 0; i < 3; i++) {
    if (!ed25519.verify(key, SIGNED, ed25519.sign(SEED, SIGNED))) throw new Error('a signature of ours does not hold')
  }
  const own = x25519.publicKey(SECRET)
  for (let i = 0; i < 3; i++) if (x25519.sharedSecret(SECRET, own) === undefined) throw new Error('no shared secret')
}

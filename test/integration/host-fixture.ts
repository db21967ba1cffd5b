import { utf8 } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { HostInit } from '../../src/net/create-host.ts'
import type { DhtRules } from '../../src/net/dht-rules.ts'
import type { Host, PeerAddress } from '../../src/net/host.ts'
import { createHost } from '../../src/net/node-host.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { type Logger, silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import type { Store } from '../../src/store/store.ts'

export type Carrier = 'quic' | 'tcp' | 'memory'

const LISTEN: Record<Carrier, Partial<HostInit>> = {
  quic: { listen: ['/ip4/127.0.0.1/udp/0/quic-v1'] },
  tcp: { listen: ['/ip4/127.0.0.1/tcp/0'] },
  memory: { profile: 'memory' }
}

/**
 * Values of these tests: u8 1 ‖ u64 number ‖ u64 expiry in Unix ms ‖ anything. The higher number wins, an equal one never does.
 */
export const numberRules: DhtRules = {
  validate(_key, value, nowMs) {
    if (value.length < 17 || value[0] !== 1) throw new Error('no such value')
    if (expiryOf(value) <= nowMs) throw new Error('expired')
  },
  select: (_key, held, offered) => (numberOf(offered) > numberOf(held) ? 'offered' : 'held'),
  expiresAtMs: (_key, value) => expiryOf(value)
}

const viewOf = (value: Uint8Array) => new DataView(value.buffer, value.byteOffset, value.byteLength)
export const numberOf = (value: Uint8Array) => Number(viewOf(value).getBigUint64(1))
const expiryOf = (value: Uint8Array) => Number(viewOf(value).getBigUint64(9))

export function makeValue(number: number, expiresAtMs: number, extra = 0): Uint8Array {
  const value = new Uint8Array(18)
  value[0] = 1
  viewOf(value).setBigUint64(1, BigInt(number))
  viewOf(value).setBigUint64(9, BigInt(expiresAtMs))
  value[17] = extra
  return value
}

export function keyOf(namespace: string, fill: number): Uint8Array {
  return Uint8Array.from([...Buffer.from(`/${namespace}/`), ...new Uint8Array(32).fill(fill)])
}

export interface HostOptions {
  carrier?: Carrier
  clock?: Clock
  logger?: Logger
  store?: Store
  rules?: DhtRules
  init?: Partial<HostInit>
}

/** Hosts that {@link stopHosts} ends after the test. */
const running = new Set<Host>()
/** Keys and randomness follow from the place of a host in its file: the distances of every run are those of the last. */
let started = 0

export async function startHost(options: HostOptions = {}): Promise<Host> {
  const number = started++
  const host = await createHost(
    {
      clock: options.clock ?? systemClock,
      random: seededRandom(number),
      logger: options.logger ?? silentLogger,
      crypto: nodeCrypto,
      store: options.store,
      validator: options.rules ?? numberRules
    },
    { privateKey: nodeCrypto.sha256(utf8(`host ${number}`)), ...LISTEN[options.carrier ?? 'quic'], ...options.init }
  )
  running.add(host)
  return host
}

export async function stopHosts(): Promise<void> {
  const hosts = [...running]
  running.clear()
  await Promise.all(hosts.map((host) => host.stop()))
}

export function addressOf(host: Host): PeerAddress {
  return { peer: host.peer, addrs: host.addresses() }
}

/** Keeps what was logged, by level. */
export function recordingLogger(): Logger & { lines: { level: string; message: string; fields: object }[] } {
  const lines: { level: string; message: string; fields: object }[] = []
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields })
  const logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => logger, lines }
  return logger
}

/** Resolves once `check` holds, looking again at every event of a host. */
export function until(host: Host, check: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (!check()) return
      stop()
      clearInterval(timer)
      resolve()
    }
    const stop = host.onPeer(look)
    const timer = setInterval(look, 20)
    look()
  })
}

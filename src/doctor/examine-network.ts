import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import {
  decodeKeysResponse,
  decodeListResponse,
  encodeRegistryRequest,
  REGISTRY_PROTOCOL
} from '../../protocol/discovery/registry-messages.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { announceType } from '../../protocol/records/announce.ts'
import { decodeRecord, type RecordPayload, type RecordType, verifyRecord } from '../../protocol/records/envelope.ts'
import { joinType } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../crypto/node-crypto.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import { askDialBack, DIAL_BACK_MS, DIAL_BACK_PROTOCOL } from '../net/dial-back.ts'
import { readFrame, writeFrame } from '../net/frame.ts'
import type { PeerAddress } from '../net/host.ts'
import { parseAddr, peerOf, transportOf, withoutPeer } from '../net/multiaddrs.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { isReachable } from '../spaces/address-scope.ts'
import { eachOf, withDeadline } from '../spaces/deadline.ts'
import type { DialFact, NetworkFacts, PeerTimeFact } from './network-facts.ts'

/** What one look asks of others: peers for their records, peers for a dial back, bootstrap addresses. */
const PEERS_ASKED_MAX = 6
const DIAL_BACKS_MAX = 3
const BOOTSTRAP_MAX = 8
const ASK_MS = 5_000
/** Sets of one peer that are looked at, and records of each */
const SETS_MAX = 3
const RECORDS_MAX = 20
const RESPONSE_BYTES_MAX = 1024 * 1024
const UDP_MS = 2_000

interface Look {
  node: RookeryNode
  signal: AbortSignal
  onProgress: (text: string) => void
}

/** Looks at a running node and asks its peers what they see; changes nothing. @throws the signal's reason */
export async function examineNetwork(look: Look): Promise<NetworkFacts> {
  const { node, signal, onProgress } = look
  const { host, config, clock } = node
  onProgress('trying the bootstrap peers')
  const bootstrap = await tryBootstrap(look)
  onProgress('asking peers for the time and for a dial back')
  const [times, dialBacks, udp] = await Promise.all([askPeers(look), askDialBacks(look), tryUdp(look)])
  signal.throwIfAborted()
  const held = node.drainHeld
  return {
    nowMs: clock.nowMs(),
    uptimeMs: clock.nowMs() - node.startedAtMs,
    scope: config.network,
    mdns: config.mdns,
    bootstrap,
    addresses: host.addresses().map((addr) => ({ addr, transport: transportOf(addr), isPublic: isReachable(addr, 'public') })),
    peers: host.peers().length,
    routingTableSize: host.dht.routingTableSize(),
    dhtMode: host.dht.mode(),
    udp,
    dialBacks,
    ...reachabilityOf(node),
    ...times,
    ...(held === undefined ? {} : { clockHeld: held }),
    faultyRegistrars: node.registry.faulty()
  }
}

function reachabilityOf({ host, config }: RookeryNode): Pick<NetworkFacts, 'reachability'> {
  if (host.reachability === undefined) return {}
  const { state, relays, external } = host.reachability.report()
  const { relay, upnp } = config.reachability
  return { reachability: { state, relays, external, relay, upnp } }
}

async function tryBootstrap(look: Look): Promise<DialFact[]> {
  const facts: DialFact[] = []
  await eachOf(look.node.config.bootstrap.slice(0, BOOTSTRAP_MAX), 4, async (addr) => {
    const peer = peerOf(parseAddr(addr, 'bootstrap'))
    if (peer === undefined || peer === look.node.peer) return
    try {
      const transport = await over(look, { peer, addrs: [withoutPeer(addr)] }, async ({ connection }) => connection.transport)
      facts.push({ addr, transport, outcome: 'reached' })
    } catch (error) {
      look.signal.throwIfAborted()
      facts.push({ addr, transport: transportOf(addr), outcome: 'failed', reason: reasonOf(error) })
    }
  })
  return facts
}

/** What peers' records say of the time, and by what each is reached. */
async function askPeers(look: Look): Promise<Pick<NetworkFacts, 'peerTimes' | 'connections'>> {
  const peerTimes: PeerTimeFact[] = []
  const byTransport = new Map<string, number>()
  await eachOf(look.node.host.peers().slice(0, PEERS_ASKED_MAX), PEERS_ASKED_MAX, async (peer) => {
    try {
      const target = { peer, addrs: [] }
      const { keys } = await over(look, target, async (stream, signal) => {
        const { transport } = stream.connection
        byTransport.set(transport, (byTransport.get(transport) ?? 0) + 1)
        return await exchange(stream, encodeRegistryRequest({ verb: 'keys', cursor: new Uint8Array(0) }), decodeKeysResponse, signal)
      })
      const times: { ts: number; exp: number }[] = []
      for (const { set, key } of keys.filter(({ set }) => set === 'members' || set === 'announcements').slice(0, SETS_MAX)) {
        const list = { verb: 'list' as const, set, key, cursor: new Uint8Array(0), limit: RECORDS_MAX }
        const { records } = await over(look, target, (stream, signal) =>
          exchange(stream, encodeRegistryRequest(list), decodeListResponse, signal)
        )
        times.push(...records.flatMap((bytes) => timesOf(look, set === 'members' ? 'join' : 'announce', bytes)))
      }
      if (times.length === 0) return
      peerTimes.push({
        peer,
        newestSignedMs: Math.max(...times.map(({ ts }) => ts)) * 1_000,
        firstExpiresMs: Math.min(...times.map(({ exp }) => exp)) * 1_000
      })
    } catch {
      look.signal.throwIfAborted() // a peer that does not answer tells nothing of the time
    }
  })
  return { peerTimes, connections: [...byTransport].map(([transport, count]) => ({ transport, count })) }
}

/** Times of another's record whose signature holds, whatever our own clock says of them. */
function timesOf({ node }: Look, kind: 'join' | 'announce', bytes: Uint8Array): { ts: number; exp: number }[] {
  try {
    return kind === 'join'
      ? othersTimes(node, joinType, bytes, ({ eid }) => eid)
      : othersTimes(node, announceType, bytes, ({ curator }) => curator)
  } catch {
    return []
  }
}

function othersTimes<K extends string, P extends RecordPayload>(
  node: RookeryNode,
  type: RecordType<K, P>,
  bytes: Uint8Array,
  signer: (payload: P) => Eid
): { ts: number; exp: number }[] {
  const record = decodeRecord(type, bytes)
  const { ts, exp } = record.payload
  verifyRecord(nodeCrypto, type, record, { nowMs: ts * 1_000 })
  return node.agents.ofAnyEid(signer(record.payload)) === undefined ? [{ ts, exp }] : []
}

async function askDialBacks({ node, signal }: Look): Promise<NetworkFacts['dialBacks']> {
  const said = { asked: 0, reached: 0, failed: 0 }
  const peers = node.host.peers().slice(-DIAL_BACKS_MAX)
  await eachOf(peers, DIAL_BACKS_MAX, async (peer) => {
    try {
      const reached = await withDeadline(node.clock, DIAL_BACK_MS, signal, async (inner) => {
        const stream = await node.host.openStream({ peer, addrs: [] }, DIAL_BACK_PROTOCOL, { signal: inner })
        return await askDialBack(stream, node.host.addresses(), inner)
      })
      said.asked++
      if (reached === true) said.reached++
      if (reached === false) said.failed++
    } catch {
      signal.throwIfAborted() // one that cannot be asked says nothing
    }
  })
  return said
}

/** A datagram to ourselves: firewalls, containers and sandboxes that forbid UDP refuse it here already. */
async function tryUdp({ node, signal }: Look): Promise<NetworkFacts['udp']> {
  const socket = createSocket('udp4')
  try {
    await withDeadline(node.clock, UDP_MS, signal, async (inner) => {
      socket.bind(0, '127.0.0.1')
      await once(socket, 'listening', { signal: inner })
      const came = once(socket, 'message', { signal: inner })
      socket.send(Uint8Array.of(1), socket.address().port, '127.0.0.1')
      await came
    })
    return { outcome: 'works' }
  } catch (error) {
    signal.throwIfAborted()
    return { outcome: 'failed', reason: reasonOf(error) }
  } finally {
    socket.close()
  }
}

async function over<T>(
  { node, signal }: Look,
  target: PeerAddress,
  work: (stream: ByteStream, signal: AbortSignal) => Promise<T>
): Promise<T> {
  return await withDeadline(node.clock, ASK_MS, signal, async (inner) => {
    const stream = await node.host.openStream(target, REGISTRY_PROTOCOL, { signal: inner })
    try {
      return await work(stream, inner)
    } finally {
      stream.reset(new Error('asked'))
    }
  })
}

async function exchange<T>(stream: ByteStream, request: Uint8Array, decode: (bytes: Uint8Array) => T, signal: AbortSignal): Promise<T> {
  await writeFrame(stream, request, request.length, { signal })
  await stream.closeWrite()
  return decode(await readFrame(stream, RESPONSE_BYTES_MAX, { signal }))
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

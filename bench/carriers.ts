/** What carries messages in the throughput benchmarks, each to the same peer process: raw libp2p, our sessions, hyperdht, iroh. */
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { multiaddr } from '@multiformats/multiaddr'
import { eidFromDid } from '../protocol/identity/eid.ts'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'
import { CHANNEL, ECHO, LIVE, newAgent, ours, RAW_ECHO, RAW_SINK, reader, SINK, shipped, write } from './endpoints.ts'
import type { Contender, Question } from './harness.ts'
import { ECHO_BYTES, IROH_ALPN, ROLE } from './others.ts'
import type { PeerInfo } from './pair.ts'

export interface Load {
  bytes: number
  count: number
}

export interface Carrier {
  name: string
  /** milliseconds until the peer has all of it */
  oneWay(load: Load): Promise<number>
  /** milliseconds for `count` messages of ECHO_BYTES there and back, one at a time */
  pingPong(count: number): Promise<number>
  /** the same with the sealing and opening that a session does on its two sides, all of it here */
  sealedPingPong?(count: number): Promise<number>
  stop(): Promise<void>
}

export const BASELINE = 'raw libp2p QUIC stream, as shipped'
/** items that wait at once; a session packs what waits into records */
const IN_FLIGHT = 256
const ATTEMPTS_MAX = 4

/** All that can be had here; what cannot is named on stderr. */
export async function carriers(peer: PeerInfo): Promise<Carrier[]> {
  const all = [rawCarrier(peer), pssCarrier(peer), hyperdhtCarrier(peer), irohCarrier(peer)]
  const settled = await Promise.allSettled(all)
  return settled.flatMap((one) => {
    if (one.status === 'fulfilled') return one.value === undefined ? [] : [one.value]
    console.error(`left out: ${one.reason instanceof Error ? one.reason.message.split('\n')[0] : String(one.reason)}`)
    return []
  })
}

export function contenders(all: readonly Carrier[], sample: (carrier: Carrier) => Promise<number>): Contender[] {
  return all.map((carrier) => ({ name: carrier.name, sample: () => sample(carrier) }))
}

export const question = (placement: string): Pick<Question, 'better' | 'placement' | 'baseline'> => ({
  better: 'higher',
  placement,
  baseline: BASELINE
})

function sizeOf({ bytes, count }: Load): Uint8Array {
  const head = new Uint8Array(4)
  new DataView(head.buffer).setUint32(0, bytes * count)
  return head
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

async function rawCarrier(peer: PeerInfo): Promise<Carrier> {
  const raw = await shipped()
  const connection = await raw.dial(peer.raw.map((addr) => multiaddr(addr)))
  const sink = await connection.newStream(RAW_SINK)
  const sinkRead = reader(sink)
  const echo = await connection.newStream(RAW_ECHO)
  const echoRead = reader(echo)
  return {
    name: BASELINE,
    oneWay(load) {
      const message = new Uint8Array(load.bytes)
      return timed(async () => {
        await write(sink, sizeOf(load))
        for (let i = 0; i < load.count; i++) await write(sink, message)
        await sinkRead(1)
      })
    },
    pingPong(count) {
      const message = new Uint8Array(ECHO_BYTES)
      return timed(async () => {
        for (let i = 0; i < count; i++) {
          await write(echo, message)
          await echoRead(ECHO_BYTES)
        }
      })
    },
    sealedPingPong(count) {
      const key = nodeCrypto.aead.keyed(new Uint8Array(32).fill(7))
      const [nonce, aad, message] = [new Uint8Array(12), new Uint8Array(72), new Uint8Array(ECHO_BYTES)]
      return timed(async () => {
        for (let i = 0; i < count; i++) {
          for (let side = 0; side < 2; side++)
            if (key.open(nonce, aad, key.seal(nonce, aad, message)) === undefined) throw new Error('not opened')
          await write(echo, message)
          await echoRead(ECHO_BYTES)
        }
      })
    },
    stop: () => Promise.resolve(raw.stop())
  }
}

async function pssCarrier(peer: PeerInfo): Promise<Carrier> {
  const agent = newAgent()
  const { host, sessions } = await ours([agent])
  const session = await sessions.open(agent, eidFromDid(peer.did), { peer: peer.peer, addrs: peer.addrs })
  let answered: () => void = () => {}
  session.onChannel(CHANNEL, async () => answered())
  const answer = () =>
    new Promise<void>((resolve) => {
      answered = resolve
    })
  return {
    name: 'PSS, live items',
    oneWay({ bytes, count }) {
      const message = new Uint8Array(bytes)
      message[0] = SINK
      new DataView(message.buffer).setUint32(1, count)
      return timed(async () => {
        const done = answer()
        const flying = new Set<Promise<void>>()
        for (let i = 0; i < count; i++) {
          const sent: Promise<void> = session.send(CHANNEL, LIVE, message).finally(() => flying.delete(sent))
          flying.add(sent)
          if (flying.size >= IN_FLIGHT) await Promise.race(flying)
        }
        await Promise.all(flying)
        await done
      })
    },
    pingPong(count) {
      const message = new Uint8Array(ECHO_BYTES)
      message[0] = ECHO
      return timed(async () => {
        for (let i = 0; i < count; i++) {
          const back = answer()
          await session.send(CHANNEL, LIVE, message)
          await back
        }
      })
    },
    async stop() {
      await sessions.stop()
      await host.stop()
    }
  }
}

async function hyperdhtCarrier({ hyperdht }: PeerInfo): Promise<Carrier | undefined> {
  if (hyperdht === undefined) return undefined
  const { default: DHT } = await import('hyperdht')
  const node = new DHT({ bootstrap: hyperdht.bootstrap, host: '127.0.0.1' })
  /** Runs on a connection of its own, and again where that one is lost: on a loaded machine UDX gives some up. */
  const onSocket = async (role: number, work: (socket: Duplex) => Promise<number>): Promise<number> => {
    for (let attempt = 1; ; attempt++) {
      const socket = node.connect(Buffer.from(hyperdht.publicKey, 'hex'))
      const lost = once(socket, 'close').then(() => {
        throw new Error('hyperdht lost its connection')
      })
      lost.catch(() => {})
      socket.on('error', () => {})
      try {
        await Promise.race([once(socket, 'open'), lost])
        socket.write(Uint8Array.of(role))
        return await Promise.race([work(socket), lost])
      } catch (error) {
        if (attempt === ATTEMPTS_MAX) throw error
      } finally {
        socket.destroy()
      }
    }
  }
  return {
    name: 'hyperdht',
    oneWay: (load) =>
      onSocket(ROLE.sink, (socket) => {
        const message = Buffer.alloc(load.bytes)
        return timed(async () => {
          const done = once(socket, 'data')
          done.catch(() => {}) // told by the race, too
          socket.write(sizeOf(load))
          for (let i = 0; i < load.count; i++) if (!socket.write(message)) await once(socket, 'drain')
          await done
        })
      }),
    pingPong: (count) =>
      onSocket(ROLE.echo, (socket) => {
        const message = Buffer.alloc(ECHO_BYTES)
        return timed(async () => {
          for (let i = 0; i < count; i++) {
            const back = once(socket, 'data')
            socket.write(message)
            await back
          }
        })
      }),
    stop: () => node.destroy()
  }
}

async function irohCarrier({ iroh }: PeerInfo): Promise<Carrier | undefined> {
  if (iroh === undefined) return undefined
  const { Endpoint, EndpointAddr, EndpointId, presetMinimal, RelayMode } = await import('@number0/iroh')
  const builder = Endpoint.builder()
  presetMinimal(builder)
  builder.relayMode(RelayMode.disabled())
  builder.bindAddr('127.0.0.1:0')
  const endpoint = await builder.bind()
  const connection = await endpoint.connect(new EndpointAddr(EndpointId.fromString(iroh.id), null, iroh.addrs), IROH_ALPN)
  const open = async (role: number) => {
    const stream = await connection.openBi()
    await stream.send.writeAll([role])
    return { send: stream.send, recv: stream.recv }
  }
  const sink = await open(ROLE.sink)
  const echo = await open(ROLE.echo)
  return {
    name: "iroh's Node binding",
    oneWay(load) {
      const message = Array<number>(load.bytes).fill(0)
      return timed(async () => {
        await sink.send.writeAll([...sizeOf(load)])
        for (let i = 0; i < load.count; i++) await sink.send.writeAll(message)
        await sink.recv.readExact(1)
      })
    },
    pingPong(count) {
      const message = Array<number>(ECHO_BYTES).fill(0)
      return timed(async () => {
        for (let i = 0; i < count; i++) {
          await echo.send.writeAll(message)
          await echo.recv.readExact(ECHO_BYTES)
        }
      })
    },
    stop: () => endpoint.close()
  }
}

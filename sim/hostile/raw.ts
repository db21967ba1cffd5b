import { Record as KadRecord } from '@libp2p/kad-dht'
import { concat } from '../../protocol/bytes.ts'
import {
  decodePutResponse,
  encodeRegistryRequest,
  REGISTRY_PROTOCOL,
  REGISTRY_REQUEST_BYTES_MAX,
  REGISTRY_RESPONSE_BYTES_MAX,
  type RegistrySet,
  type RegistryStatus
} from '../../protocol/discovery/registry-messages.ts'
import type { ByteStream } from '../../src/net/byte-stream.ts'
import { readFrame, writeFrame } from '../../src/net/frame.ts'
import type { Host, PeerAddress } from '../../src/net/host.ts'
import { systemClock } from '../../src/platform/clock.ts'

const KAD_PROTOCOL = '/rookery/kad/1.0.0'
const ANSWER_MS = 10_000

/** PUT of any bytes to one registrar, past all rules of our own; `dropped`: it answered nothing. */
export async function putToRegistrar(
  from: Host,
  to: PeerAddress,
  entry: { set: RegistrySet; key: Uint8Array; record: Uint8Array }
): Promise<RegistryStatus | 'dropped'> {
  return await withStream(from, to, REGISTRY_PROTOCOL, 'dropped', async (stream, signal) => {
    await writeFrame(stream, encodeRegistryRequest({ verb: 'put', ...entry }), REGISTRY_REQUEST_BYTES_MAX, { signal })
    await stream.closeWrite()
    return decodePutResponse(await readFrame(stream, REGISTRY_RESPONSE_BYTES_MAX, { signal })).status
  })
}

/** Kademlia's PUT_VALUE of any bytes to one holder. @returns whether it took them: one that does sends them back */
export async function putToHolder(from: Host, to: PeerAddress, key: Uint8Array, value: Uint8Array): Promise<'taken' | 'refused'> {
  return await withStream<'taken' | 'refused'>(from, to, KAD_PROTOCOL, 'refused', async (stream, signal) => {
    const record = new KadRecord(key, value, new Date(systemClock.nowMs())).serialize().subarray()
    const message = concat([Uint8Array.of(0x08, 0), field(0x12, key), field(0x1a, record)])
    await stream.write(concat([varint(message.length), message]), { signal })
    await stream.read(1, { signal })
    return 'taken'
  })
}

async function withStream<T>(
  from: Host,
  to: PeerAddress,
  protocol: string,
  otherwise: T,
  work: (stream: ByteStream, signal: AbortSignal) => Promise<T>
): Promise<T> {
  const signal = AbortSignal.timeout(ANSWER_MS)
  let stream: ByteStream | undefined
  try {
    stream = await from.openStream(to, protocol, { signal })
    return await work(stream, signal)
  } catch {
    return otherwise
  } finally {
    await stream?.close()
  }
}

function field(tag: number, bytes: Uint8Array): Uint8Array {
  return concat([Uint8Array.of(tag), varint(bytes.length), bytes])
}

function varint(value: number): Uint8Array {
  const out: number[] = []
  let left = value
  for (; left > 127; left >>>= 7) out.push((left & 127) | 128)
  return Uint8Array.from([...out, left])
}

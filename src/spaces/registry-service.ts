import {
  decodeRegistryRequest,
  encodeKeysResponse,
  encodeListResponse,
  encodePutResponse,
  REGISTRY_PROTOCOL,
  REGISTRY_REQUEST_BYTES_MAX,
  REGISTRY_RESPONSE_BYTES_MAX,
  type RegistryRequest
} from '../../protocol/discovery/registry-messages.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import { readFrame, writeFrame } from '../net/frame.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import { withDeadline } from './deadline.ts'
import type { Publisher, RegistryStore } from './registry-store.ts'

/** One exchange, from the first byte to the last (protocol/README.md §4). */
export const REGISTRY_DEADLINE_MS = 10_000
/** Exchanges that this node serves at once; the host refuses further streams. */
export const REGISTRY_INBOUND_STREAMS_MAX = 64

export interface RegistryService {
  /** streams that ended without an answer: malformed, too slow, gone */
  failed(): number
  served(): number
  stop(): Promise<void>
}

/** Serves the registry to other nodes: one request, one response, then the stream ends. A malformed request resets it. */
export async function serveRegistry({
  host,
  clock,
  registry
}: {
  host: Host
  clock: Clock
  registry: RegistryStore
}): Promise<RegistryService> {
  let failed = 0
  let served = 0
  await host.handle(
    REGISTRY_PROTOCOL,
    async (stream) => {
      try {
        await withDeadline(clock, REGISTRY_DEADLINE_MS, undefined, (signal) => exchange(stream, registry, signal))
        served++
        await stream.close()
      } catch (error) {
        failed++
        throw error
      }
    },
    { inboundStreamsMax: REGISTRY_INBOUND_STREAMS_MAX }
  )
  return {
    failed: () => failed,
    served: () => served,
    stop: () => host.unhandle(REGISTRY_PROTOCOL)
  }
}

async function exchange(stream: ByteStream, registry: RegistryStore, signal: AbortSignal): Promise<void> {
  const request = decodeRegistryRequest(await readFrame(stream, REGISTRY_REQUEST_BYTES_MAX, { signal }))
  const { peer, remoteAddr } = stream.connection
  await writeFrame(stream, await answer(registry, request, { kind: 'peer', peer, remoteAddr }), REGISTRY_RESPONSE_BYTES_MAX, { signal })
  await stream.closeWrite()
}

async function answer(registry: RegistryStore, request: RegistryRequest, publisher: Publisher): Promise<Uint8Array> {
  switch (request.verb) {
    case 'put':
      return encodePutResponse(await registry.put(request, publisher))
    case 'list':
      return encodeListResponse(await registry.list(request))
    case 'keys':
      return encodeKeysResponse(await registry.keys(request))
  }
}

import { toHex } from '../../protocol/bytes.ts'
import {
  decodeRegistryRequest,
  encodeKeysResponse,
  encodeListResponse,
  encodePutResponse,
  LIST_LIMIT_MAX,
  REGISTRY_PROTOCOL,
  REGISTRY_REQUEST_BYTES_MAX,
  REGISTRY_RESPONSE_BYTES_MAX,
  type RegistryRequest
} from '../../protocol/discovery/registry-messages.ts'
import { readFrame, writeFrame } from '../../src/net/frame.ts'
import type { SimNode } from '../engine/boot-node.ts'

/** How a registrar lies. All of them answer a PUT with `ok` and keep nothing, save the silent one, which answers nothing. */
export const LIES = ['omits', 'invents', 'rubbish', 'replays', 'silent'] as const
export type Lie = (typeof LIES)[number]

/** What liars say of a set, by its key in hex. */
export interface Lines {
  /** records in others' names that they never signed */
  forged: readonly Uint8Array[]
  /** true ones whose time is over, or that their owner has withdrawn or replaced since */
  old: readonly Uint8Array[]
}

/** Makes a node serve the registry by a rule of its own; in all else it stays what it was. */
export async function turnRegistrar({ node }: SimNode, lie: Lie, lines: ReadonlyMap<string, Lines>): Promise<void> {
  await node.host.unhandle(REGISTRY_PROTOCOL)
  await node.host.handle(REGISTRY_PROTOCOL, async (stream) => {
    if (lie === 'silent') return await stream.closed
    const request = decodeRegistryRequest(await readFrame(stream, REGISTRY_REQUEST_BYTES_MAX))
    await writeFrame(stream, answer(request, lie, lines), REGISTRY_RESPONSE_BYTES_MAX)
    await stream.close()
  })
}

function answer(request: RegistryRequest, lie: Exclude<Lie, 'silent'>, lines: ReadonlyMap<string, Lines>): Uint8Array {
  if (request.verb === 'put') return encodePutResponse({ status: 'ok' })
  if (request.verb === 'keys') return encodeKeysResponse({ status: 'ok', keys: [] })
  const said = lines.get(toHex(request.key))
  switch (lie) {
    case 'omits':
      return encodeListResponse({ status: 'ok', records: [] })
    case 'invents':
      return encodeListResponse({ status: 'ok', records: (said?.forged ?? []).slice(0, LIST_LIMIT_MAX) as Uint8Array[] })
    case 'replays':
      return encodeListResponse({ status: 'ok', records: (said?.old ?? []).slice(0, LIST_LIMIT_MAX) as Uint8Array[] })
    case 'rubbish':
      return Uint8Array.from({ length: 512 }, (_, i) => (i * 167 + 13) & 255)
  }
}

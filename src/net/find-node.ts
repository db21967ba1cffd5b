import type { PeerId, PeerInfo, Stream } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { concat } from '../../protocol/bytes.ts'
import { delimited, FieldWriter, fieldsOf } from './protobuf.ts'
import { sharedAddrOf, sharedPeerId } from './shared-values.ts'
import { collect } from './stream-bytes.ts'

/** `FIND_NODE` of kad-dht's messages: fields 1 type, 2 key, 8 the peers named (1 multihash, 2 addresses) */
const FIND_NODE = 4
/** Names that one answer may bring; kad-dht sends k. */
export const CLOSER_MAX = 20
/** Addresses taken of one name */
export const ADDRS_MAX = 16
/** As much as so many names with so many addresses take */
const ANSWER_BYTES_MAX = 65_536

/**
 * Asks a peer whom it knows near a key. kad-dht's own request tells of every name twice, parses it anew each time, and has it noted by libp2p beside; a
 * look-up makes some hundred names of it.
 * @param open - opens a stream of the DHT's protocol
 * @returns whom the peer named; names that cannot be read are left out
 * @throws Error where the answer is none; what opening throws; or the signal's reason
 */
export async function findNode(open: () => Promise<Stream>, key: Uint8Array, signal: AbortSignal): Promise<PeerInfo[]> {
  const question = new FieldWriter().varint(1, FIND_NODE).bytes(2, key).finish()
  const stream = await open()
  try {
    stream.send(concat([new FieldWriter().length(question.length).finish(), question]))
    const isEnough = (bytes: Uint8Array) => delimited(bytes, ANSWER_BYTES_MAX).length > 0
    const [answer] = delimited(await collect(stream, { bytesMax: ANSWER_BYTES_MAX + 4, signal, isEnough }), ANSWER_BYTES_MAX)
    if (answer === undefined) throw new Error('the peer ended the stream without an answer')
    const named = namesIn(answer)
    void stream.close({ signal }).catch((error: Error) => stream.abort(error))
    return named
  } catch (error) {
    stream.abort(error instanceof Error ? error : new Error(String(error)))
    throw error
  }
}

/** Whom an answer names. @throws Error where it is none, or not well-formed */
export function namesIn(answer: Uint8Array): PeerInfo[] {
  const named: PeerInfo[] = []
  let type = 0n
  for (const { number, value, bytes } of fieldsOf(answer)) {
    if (number === 1) type = value
    else if (number === 8 && named.length < CLOSER_MAX) named.push(...nameIn(bytes))
  }
  if (type !== BigInt(FIND_NODE)) throw new Error('the peer answers another question')
  return named
}

/** @throws RangeError where it is not well-formed */
function nameIn(bytes: Uint8Array): PeerInfo[] {
  let id: PeerId | undefined
  const multiaddrs: Multiaddr[] = []
  for (const field of fieldsOf(bytes)) {
    try {
      if (field.number === 1) id = sharedPeerId(field.bytes)
      else if (field.number === 2 && multiaddrs.length < ADDRS_MAX) multiaddrs.push(sharedAddrOf(field.bytes))
    } catch {
      // a name or an address of a kind that is not known here
    }
  }
  return id === undefined ? [] : [{ id, multiaddrs }]
}

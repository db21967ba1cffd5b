import { publicKeyFromProtobuf, publicKeyToProtobuf } from '@libp2p/crypto/keys'
import type { PeerId, PrivateKey, PublicKey } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { equals, utf8 } from '../../protocol/bytes.ts'
import { FieldWriter, fieldsOf } from './protobuf.ts'
import { nameOf, Shared, sharedAddrOf } from './shared-values.ts'

/** libp2p's RFC 0002 and 0003: what is signed begins with this domain, and the payload is of this type. */
const DOMAIN = utf8('libp2p-peer-record')
const PAYLOAD_TYPE = Uint8Array.of(0x03, 0x01)
/** A longer one is no record of some addresses. */
const ENVELOPE_BYTES_MAX = 8_192
const ADDRS_MAX = 64
/** Verified records that are remembered by their bytes */
const REMEMBERED_MAX = 4_096

/** Addresses that a peer signed for. */
export interface SignedAddrs {
  readonly peer: Uint8Array
  readonly seq: bigint
  readonly addrs: readonly Multiaddr[]
}

const verified = new Shared<SignedAddrs>(REMEMBERED_MAX)

function signedBytes(payloadType: Uint8Array, payload: Uint8Array): Uint8Array {
  return new FieldWriter().lengthAndBytes(DOMAIN).lengthAndBytes(payloadType).lengthAndBytes(payload).finish()
}

/** The envelope with our addresses that every peer gets that asks who we are. */
export async function sealAddrs(key: PrivateKey, own: PeerId, addrs: readonly Multiaddr[], seq: bigint): Promise<Uint8Array> {
  const record = new FieldWriter().bytes(1, own.toMultihash().bytes).varint(2, seq)
  for (const addr of addrs) record.bytes(3, new FieldWriter().bytes(1, addr.bytes).finish())
  const payload = record.finish()
  const signature = await key.sign(signedBytes(PAYLOAD_TYPE, payload))
  return new FieldWriter()
    .bytes(1, publicKeyToProtobuf(key.publicKey))
    .bytes(2, PAYLOAD_TYPE)
    .bytes(3, payload)
    .bytes(5, signature)
    .finish()
}

/**
 * Opens the envelope of a peer. One whose bytes were verified before is not verified again: whether a signature fits is said by the bytes alone.
 * @throws Error where it is no peer record, or not signed by the peer that it names
 */
export async function openAddrs(envelope: Uint8Array): Promise<SignedAddrs> {
  if (envelope.length > ENVELOPE_BYTES_MAX) throw new RangeError(`a peer record has at most ${ENVELOPE_BYTES_MAX} bytes`)
  const name = nameOf(envelope)
  const known = verified.peek(name)
  if (known !== undefined) return known
  let publicKey: Uint8Array | undefined
  let payloadType: Uint8Array | undefined
  let payload: Uint8Array | undefined
  let signature: Uint8Array | undefined
  for (const { number, bytes } of fieldsOf(envelope)) {
    if (number === 1) publicKey = bytes
    else if (number === 2) payloadType = bytes
    else if (number === 3) payload = bytes
    else if (number === 5) signature = bytes
  }
  if (publicKey === undefined || payload === undefined || signature === undefined || payloadType === undefined) {
    throw new Error('the envelope of a peer record lacks a field')
  }
  if (!equals(payloadType, PAYLOAD_TYPE)) throw new Error('the envelope holds no peer record')
  const signer = publicKeyFromProtobuf(publicKey.slice())
  if (!(await isSigned(signer, signedBytes(payloadType, payload), signature)))
    throw new Error('the signature of a peer record is not valid')
  const record = recordOf(payload)
  if (!equals(signer.toMultihash().bytes, record.peer)) throw new Error('a peer record is signed by another than it names')
  return verified.get(name, () => record)
}

/** The library throws for a signature of another length than its key makes: it fits no more than any other wrong one. */
async function isSigned(signer: PublicKey, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
  try {
    return await signer.verify(message, signature)
  } catch {
    return false
  }
}

function recordOf(payload: Uint8Array): SignedAddrs {
  let peer: Uint8Array | undefined
  let seq = 0n
  const addrs: Multiaddr[] = []
  for (const { number, value, bytes } of fieldsOf(payload)) {
    if (number === 1) peer = bytes.slice()
    else if (number === 2) seq = value
    else if (number === 3 && addrs.length < ADDRS_MAX) {
      for (const inner of fieldsOf(bytes)) if (inner.number === 1 && inner.bytes.length > 0) addrs.push(sharedAddrOf(inner.bytes))
    }
  }
  if (peer === undefined) throw new Error('a peer record names no peer')
  return { peer, seq, addrs }
}

import { concat, Reader, u64Bytes, Writer } from '../bytes.ts'
import type { CryptoProvider, KeyedAead, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { GROUP_OP_HEAD_BYTES, GROUP_OP_SIGNED_BYTES, type GroupOpHead } from '../evidence/group-op-head.ts'
import { context } from '../identity/contexts.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { ITEM_PAYLOAD_BYTES_MAX } from '../session/items.ts'

/** What of the head the AEAD covers beside its plaintext: all before g_n, which covers the AEAD in turn. */
const GROUP_OP_AAD_BYTES = 76
const TAG_BYTES = 16
/** What a writer can put into one op. */
export const GROUP_OP_BODY_BYTES_MAX = ITEM_PAYLOAD_BYTES_MAX - GROUP_OP_HEAD_BYTES - TAG_BYTES
const OP_CONTEXT = context('group-op')
const RUN_CONTEXT = context('group-run')
const KEY_CONTEXT = context('group')

/** Where an op stands, before its chain. */
export interface GroupOpPlace {
  readonly gid: Uint8Array
  readonly epoch: number
  readonly writer: Eid
  readonly run: Uint8Array
  readonly n: bigint
}

/** g_0 = H(`rookery/v1/group-run` ‖ 0x00 ‖ gid ‖ writer ‖ run) */
export function runChainStart(crypto: CryptoProvider, gid: Uint8Array, writer: Uint8Array, run: Uint8Array): Uint8Array {
  return crypto.sha256(RUN_CONTEXT, gid, writer, run)
}

/** g_n = H(g_{n-1} ‖ u64 n ‖ H(AEAD bytes)) */
export function nextRunChain(crypto: CryptoProvider, before: Uint8Array, n: bigint, sealed: Uint8Array): Uint8Array {
  return crypto.sha256(before, u64Bytes(n), crypto.sha256(sealed))
}

/** A writer's cipher under one epoch's key: Expand(DGK, `rookery/v1/group` ‖ 0x00 ‖ gid ‖ writer ‖ run, 32). Each start has its own, so no nonce comes twice. */
export function runCipher(crypto: CryptoProvider, dgk: Uint8Array, gid: Uint8Array, writer: Uint8Array, run: Uint8Array): KeyedAead {
  const key = crypto.hkdfExpand(dgk, concat([KEY_CONTEXT, gid, writer, run]), 32)
  const cipher = crypto.aead.keyed(key)
  key.fill(0)
  return cipher
}

/**
 * Seals and signs an op.
 * @param before - g_{n-1}
 * @param body - 1 to {@link GROUP_OP_BODY_BYTES_MAX} bytes
 * @returns the item's payload and g_n
 */
export function sealGroupOp(
  crypto: CryptoProvider,
  signer: Signer,
  cipher: KeyedAead,
  place: GroupOpPlace,
  before: Uint8Array,
  body: Uint8Array
): { bytes: Uint8Array; gn: Uint8Array } {
  if (body.length === 0 || body.length > GROUP_OP_BODY_BYTES_MAX) throw new RangeError(`a group op's body of ${body.length} bytes`)
  const writer = new Writer(GROUP_OP_HEAD_BYTES + body.length + TAG_BYTES)
    .bytes(place.gid)
    .u32(place.epoch)
    .bytes(place.writer)
    .bytes(place.run)
    .u64(place.n)
  const sealed = cipher.seal(nonceOf(place.n), writer.finish(), body)
  const gn = nextRunChain(crypto, before, place.n, sealed)
  writer.bytes(gn)
  writer.bytes(signer.sign(concat([OP_CONTEXT, writer.finish()])))
  writer.bytes(sealed)
  return { bytes: writer.finish(), gn }
}

/** An op as it came: nothing of it is verified. Fields are views. */
export interface RawGroupOp extends GroupOpHead {
  /** the first 172 bytes: what a proof of malfeasance quotes */
  readonly head: Uint8Array
  readonly sealed: Uint8Array
  readonly bytes: Uint8Array
}

/** @throws ProtocolError `LENGTH` */
export function readGroupOp(bytes: Uint8Array): RawGroupOp {
  if (bytes.length <= GROUP_OP_HEAD_BYTES + TAG_BYTES || bytes.length > ITEM_PAYLOAD_BYTES_MAX) {
    throw new ProtocolError('LENGTH', `a group op of ${bytes.length} bytes`, { field: 'group-op' })
  }
  const reader = new Reader(bytes)
  return {
    gid: reader.bytes(16, 'gid'),
    epoch: reader.u32('epoch'),
    writer: eid(reader.bytes(32, 'writer')),
    run: reader.bytes(16, 'run'),
    n: reader.u64('n'),
    gn: reader.bytes(32, 'g_n'),
    head: bytes.subarray(0, GROUP_OP_HEAD_BYTES),
    sealed: bytes.subarray(GROUP_OP_HEAD_BYTES),
    bytes
  }
}

/** Whether the writer that the op names signed it. */
export function isSigned(crypto: CryptoProvider, { writer, head }: RawGroupOp): boolean {
  const signed = concat([OP_CONTEXT, head.subarray(0, GROUP_OP_SIGNED_BYTES)])
  return crypto.ed25519.verify(writer, signed, head.subarray(GROUP_OP_SIGNED_BYTES))
}

/** What the writer sealed; undefined where it does not open under this cipher. */
export function openGroupOp(cipher: KeyedAead, { bytes, n, sealed }: RawGroupOp): Uint8Array | undefined {
  return cipher.open(nonceOf(n), bytes.subarray(0, GROUP_OP_AAD_BYTES), sealed)
}

function nonceOf(n: bigint): Uint8Array {
  return new Writer(12).u32(0).u64(n).finish()
}

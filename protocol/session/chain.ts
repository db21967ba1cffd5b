import { Writer } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { context } from '../identity/contexts.ts'

export const HASH_BYTES = 32
const TX_CONTEXT = context('tx')

/** A channel's newest transaction: its number and its digest. */
export interface ChannelHead {
  seq: bigint
  digest: Uint8Array
}

/** Before a channel's first transaction: number 0, digest d_0 = 0^32. */
export function noHead(): ChannelHead {
  return { seq: 0n, digest: new Uint8Array(HASH_BYTES) }
}

/** Where a direction stands: the number of its newest transaction and the chain after it. */
export interface ChainPoint {
  seq: bigint
  hash: Uint8Array
}

/** d_n = H("rookery/v1/tx" ‖ 0x00 ‖ d_prev ‖ u64 n ‖ u64 prev ‖ kind ‖ channel ‖ payload), protocol/README.md §6. */
export function transactionDigest(
  crypto: CryptoProvider,
  head: ChannelHead,
  transaction: { seq: bigint; kind: number; channel: number; payload: Uint8Array }
): Uint8Array {
  const prefix = new Writer(TX_CONTEXT.length + HASH_BYTES + 19)
    .bytes(TX_CONTEXT)
    .bytes(head.digest)
    .u64(transaction.seq)
    .u64(head.seq)
    .u8(transaction.kind)
    .u16(transaction.channel)
    .finish()
  return crypto.sha256(prefix, transaction.payload)
}

/** h_n = H(h_{n-1} ‖ d_n). */
export function chainNext(crypto: CryptoProvider, hash: Uint8Array, digest: Uint8Array): Uint8Array {
  return crypto.sha256(new Writer(2 * HASH_BYTES).bytes(hash).bytes(digest).finish())
}

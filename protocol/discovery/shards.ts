import type { CryptoProvider } from '../crypto/provider.ts'
import type { Eid } from '../identity/eid.ts'
import { type DsId, memberKey, SHARDS_MAX, shardIndex, shardKeys } from './names.ts'

/** Live joins under one key at which a curator's node doubles the number of parts: below half of what a registrar takes, where work begins. */
export const SHARD_SPLIT_AT = 4_000

/**
 * How many parts a space has after a count. It never goes down within a version, so the keys of every earlier number are among those of the
 * present one (DS_ID, the only key of one part, is read beside them): no member is lost from sight before it has moved.
 * @param counted - live joins of this space under one of its keys
 */
export function shardsAfter(shards: number, counted: number, splitAt: number = SHARD_SPLIT_AT): number {
  return counted >= splitAt ? Math.min(SHARDS_MAX, shards * 2) : shards
}

/** The keys that list a space's members: every part's, and DS_ID, where those are who joined when it had one part. */
export function memberReadKeys(crypto: CryptoProvider, id: DsId, shards: number): Uint8Array[] {
  return shards === 1 ? [id] : [id, ...shardKeys(crypto, id, shards)]
}

/** The distinct keys under which a member is written: its part's, then those of the earlier numbers that others may still read by. */
export function memberWriteKeys(crypto: CryptoProvider, id: DsId, eid: Eid, numbers: readonly number[]): Uint8Array[] {
  const parts = new Map<number, Uint8Array>()
  for (const shards of numbers) {
    const part = shards === 1 ? -1 : shardIndex(crypto, eid, shards)
    if (!parts.has(part)) parts.set(part, memberKey(crypto, id, eid, shards))
  }
  return [...parts.values()]
}

/**
 * Which part a curator's node counts: by chance, among those that only the present number has, so that joins written under an earlier one are
 * not counted again.
 * @param fraction - 0 to 1, exclusive
 */
export function countedPart(shards: number, fraction: number): number {
  const from = Math.floor(shards / 2)
  return from + Math.floor(fraction * (shards - from))
}

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toHex, utf8 } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { eid } from '../identity/eid.ts'
import { isMemberKey } from '../records/set-entry.ts'
import { dsId, memberKey, SHARDS_MAX } from './names.ts'
import { countedPart, memberReadKeys, memberWriteKeys, SHARD_SPLIT_AT, shardsAfter } from './shards.ts'

const space = dsId(nobleCrypto, { ns: 'org.agentnet', topic: 'energy', version: 1 })
const member = (n: number) => eid(nobleCrypto.ed25519.publicKey(nobleCrypto.sha256(utf8(`member ${n}`))))
const hexes = (keys: readonly Uint8Array[]) => keys.map((key) => toHex(key))
const power = fc.integer({ min: 0, max: 8 }).map((exponent) => 2 ** exponent)

describe('parts of a big space', () => {
  it('[G-24] are doubled when one key holds the threshold, up to 256, and never become fewer', () => {
    expect(shardsAfter(1, SHARD_SPLIT_AT - 1)).toBe(1)
    expect(shardsAfter(1, SHARD_SPLIT_AT)).toBe(2)
    expect(shardsAfter(4, 1_000_000)).toBe(8)
    expect(shardsAfter(SHARDS_MAX, 1_000_000)).toBe(SHARDS_MAX)
    expect(shardsAfter(64, 0)).toBe(64)
  })

  it('[G-24] the keys that a reader of a later number asks hold every key that a member of an earlier one wrote', () => {
    fc.assert(
      fc.property(power, power, fc.nat(500), (a, b, n) => {
        const [earlier, later] = [Math.min(a, b), Math.max(a, b)]
        const written = toHex(memberKey(nobleCrypto, space, member(n), earlier))
        expect(hexes(memberReadKeys(nobleCrypto, space, later))).toContain(written)
      }),
      { numRuns: 60 }
    )
  })

  it('[G-24] a member who wrote by the later and the earlier number is found by readers of either, and registrars take each', () => {
    fc.assert(
      fc.property(power, power, fc.nat(500), (earlier, later, n) => {
        const keys = memberWriteKeys(nobleCrypto, space, member(n), [later, earlier])
        expect(toHex(keys[0] as Uint8Array)).toBe(toHex(memberKey(nobleCrypto, space, member(n), later)))
        for (const shards of [earlier, later]) {
          const read = new Set(hexes(memberReadKeys(nobleCrypto, space, shards)))
          expect(hexes(keys).some((key) => read.has(key))).toBe(true)
        }
        for (const key of keys) expect(isMemberKey(nobleCrypto, key, space, member(n))).toBe(true)
        expect(new Set(hexes(keys)).size).toBe(keys.length)
      }),
      { numRuns: 60 }
    )
  })

  it('counts a part that only the present number has', () => {
    for (const fraction of [0, 0.5, 0.999]) {
      expect(countedPart(1, fraction)).toBe(0)
      for (const shards of [2, 4, 256]) {
        expect(countedPart(shards, fraction)).toBeGreaterThanOrEqual(shards / 2)
        expect(countedPart(shards, fraction)).toBeLessThan(shards)
      }
    }
  })
})

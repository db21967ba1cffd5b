import { equals } from '../../../protocol/bytes.ts'
import { encodeGroupKey, openGroupKey } from '../../../protocol/group/group-key.ts'
import { isSigned, readGroupOp } from '../../../protocol/group/group-op.ts'
import {
  decodeGroupVector,
  decodeGroupWant,
  decodeReadyRuns,
  encodeGroupVector,
  encodeGroupWant,
  encodeReadyRuns
} from '../../../protocol/group/group-vector.ts'
import { decodeOpBody, encodeOpBody } from '../../../protocol/group/op-body.ts'
import { openStatement, signStatement } from '../../../protocol/group/statement.ts'
import { decodeEseBatch, decodeEseValue, encodeEseBatch, encodeEseValue } from '../../../protocol/state/batch.ts'
import type { JsonValue } from '../../../protocol/state/json.ts'
import { EseMap } from '../../../protocol/state/map.ts'
import { applyJsonPatch, applyMergePatch, jsonPatchOf } from '../../../protocol/state/patch.ts'
import { EseReplica } from '../../../protocol/state/replica.ts'
import { readEseHead } from '../../../protocol/state/seal.ts'
import { decodeViewPart, encodeViewPart } from '../../../protocol/state/view.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { mutateCbor } from '../engine/mutate-cbor.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { json, vectorBytes } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { mustBe, mustEqual, refusedOr, trusting } from './support.ts'

const BOUNDS = { keysMax: 8, bytesMax: 2_048, valueBytesMax: 512 }
const RUN = new Uint8Array(16).fill(7)

/** Batches, one after the other: u16 length ‖ batch. A map of one writer and a replica of it stay the same, whatever is refused. */
const ese: FuzzTarget = {
  name: 'ese',
  bytesMax: 4_096,
  mutators: [mutateCbor([])],
  seeds: () => {
    const batches = vectorBytes(['ese-state', 'ese-seal']).filter(({ length }) => length < 1_000)
    const framed = batches.map((batch) => Uint8Array.from([batch.length >> 8, batch.length & 255, ...batch]))
    return [...framed, Uint8Array.from(framed.flatMap((one) => [...one])), ...batches]
  },
  run(bytes) {
    const value = refusedOr(() => decodeEseValue(bytes))
    if (value !== undefined) mustEqual(encodeEseValue(value), bytes, 'a value has one encoding')
    refusedOr(() => readEseHead(bytes))
    const part = refusedOr(() => decodeViewPart(bytes))
    if (part !== undefined) mustEqual(encodeViewPart(part), bytes, 'a part of a view has one encoding')
    batches(bytes)
  }
}

function batches(bytes: Uint8Array): void {
  const map = new EseMap(nodeCrypto, BOUNDS)
  const replica = new EseReplica(nodeCrypto, { bounds: BOUNDS })
  let n = 0n
  for (let at = 0; at + 2 <= bytes.length; ) {
    const length = ((bytes[at] as number) << 8) | (bytes[at + 1] as number)
    const encoded = bytes.slice(at + 2, at + 2 + length)
    at += 2 + length
    const batch = refusedOr(() => decodeEseBatch(encoded))
    if (batch === undefined) continue
    mustEqual(encodeEseBatch(batch), encoded, 'a batch has one encoding')
    const before = map.hash()
    const delta = refusedOr(() => map.apply(batch))
    if (delta === undefined) mustEqual(map.hash(), before, 'a batch that is refused changes nothing')
    else {
      n += 1n
      replica.apply({ run: RUN, n }, encoded)
    }
    mustEqual(replica.map.hash(), map.hash(), 'writer and replica hold the same')
    mustBe(map.size <= BOUNDS.keysMax && map.bytes <= BOUNDS.bytesMax, 'a map keeps its bounds')
  }
  const copy = new EseMap(nodeCrypto, BOUNDS)
  for (const encoded of map.snapshot(64)) copy.apply(decodeEseBatch(encoded))
  mustBe(equals(copy.hash(), map.hash()), 'a snapshot makes the same map')
}

/** `[target, patch]`, as JSON Patch and as merge patch. */
const patches: FuzzTarget = {
  name: 'patches',
  bytesMax: 2_048,
  mutators: [
    mutateJson([
      'op',
      'path',
      'from',
      'value',
      'add',
      'remove',
      'replace',
      'move',
      'copy',
      'test',
      '/a/0',
      '/-',
      '/__proto__/x',
      '~1',
      '~0'
    ])
  ],
  seeds: () => [
    json([
      { a: [1, 2], b: { c: 'd' } },
      [
        { op: 'add', path: '/a/-', value: 3 },
        { op: 'move', from: '/b/c', path: '/e' }
      ]
    ]),
    json([
      [],
      [
        { op: 'add', path: '', value: { '': 1 } },
        { op: 'test', path: '/', value: 1 },
        { op: 'copy', from: '', path: '/x' }
      ]
    ]),
    json([{ a: 1 }, { a: null, b: { c: null, d: [] } }]),
    json([
      { a: { b: 1 } },
      [
        { op: 'remove', path: '/a/b' },
        { op: 'replace', path: '/a', value: null }
      ]
    ])
  ],
  run(bytes) {
    let given: unknown
    try {
      given = JSON.parse(new TextDecoder().decode(bytes))
    } catch {
      return
    }
    if (!Array.isArray(given) || given.length < 2) return
    const [target, patch] = given as JsonValue[]
    const before = JSON.stringify(target)
    const operations = refusedOr(() => jsonPatchOf(patch as JsonValue))
    if (operations !== undefined) refusedOr(() => applyJsonPatch(target as JsonValue, operations))
    mustBe(JSON.stringify(target) === before, 'a patch leaves its target as it is')
    const merged = refusedOr(() => applyMergePatch(target, patch as JsonValue))
    mustBe(JSON.stringify(target) === before, 'a merge patch leaves its target as it is')
    if (merged !== undefined) {
      const again = refusedOr(() => applyMergePatch(merged, patch as JsonValue))
      if (again !== undefined) mustBe(JSON.stringify(again) === JSON.stringify(merged), 'a merge patch twice is a merge patch once')
    }
  }
}

/** What members of a group send each other. */
const groupMessages: FuzzTarget = {
  name: 'group-messages',
  bytesMax: 4_096,
  mutators: [mutateCbor(['v', 'gid', 'owner', 'epoch', 'name', 'members', 'key', 'ts'])],
  seeds: () => vectorBytes(['group']).filter(({ length }) => length > 0 && length <= 4_096),
  run(bytes) {
    const take = <T>(decode: (bytes: Uint8Array) => T, encode: (value: T) => Uint8Array) => {
      const value = refusedOr(() => decode(bytes))
      if (value !== undefined) mustEqual(encode(value), bytes, `${decode.name} takes one encoding`)
    }
    take(decodeReadyRuns, encodeReadyRuns)
    take(decodeGroupVector, encodeGroupVector)
    take(decodeGroupWant, encodeGroupWant)
    take(decodeOpBody, encodeOpBody)
    take((one) => openGroupKey(trusting, one), encodeGroupKey)
    const statement = refusedOr(() => openStatement(trusting, bytes))
    if (statement !== undefined) {
      const signature = bytes.slice(bytes.length - 64)
      const again = signStatement({ publicKey: statement.owner, sign: () => signature }, statement)
      mustEqual(again, bytes, 'a statement has one encoding')
    }
    const op = refusedOr(() => readGroupOp(bytes))
    if (op !== undefined) isSigned(nodeCrypto, op)
  }
}

export const targets: readonly FuzzTarget[] = [ese, patches, groupMessages]

import { encodeCbor } from '../../../protocol/cbor.ts'
import { dsId, prefixIds } from '../../../protocol/discovery/names.ts'
import { verifyRegistryEntry } from '../../../protocol/discovery/registry-entry.ts'
import { GROUP_OP_HEAD_BYTES } from '../../../protocol/evidence/group-op-head.ts'
import { EVIDENCE_KINDS, type Evidence, verifyEvidence } from '../../../protocol/evidence/proof.ts'
import { decodeRevocation, encodeRevocation } from '../../../protocol/evidence/revocation.ts'
import { openCheckpoint } from '../../../protocol/evidence/signed-checkpoint.ts'
import type { Announce } from '../../../protocol/records/announce.ts'
import { announceType } from '../../../protocol/records/announce.ts'
import { selectDhtValue, validateDhtValue } from '../../../protocol/records/dht-value.ts'
import { decodeRecord, encodeEnvelope, type RecordPayload, type RecordType } from '../../../protocol/records/envelope.ts'
import { gpType } from '../../../protocol/records/gp.ts'
import { joinType } from '../../../protocol/records/join.ts'
import { locatorType } from '../../../protocol/records/locator.ts'
import { lpType } from '../../../protocol/records/lp.ts'
import { mailType } from '../../../protocol/records/mail.ts'
import { openPom, pomKey, pomType } from '../../../protocol/records/pom.ts'
import { pruneType } from '../../../protocol/records/prune.ts'
import { claimedPlace, openSetEntry, REGISTRY_SETS, selectSetEntry } from '../../../protocol/records/set-entry.ts'
import { CHECKPOINT_BYTES } from '../../../protocol/session/checkpoint.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { mutateCbor } from '../engine/mutate-cbor.ts'
import { vectorBytes } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { recordSeeds } from './record-seeds.ts'
import { mustBe, mustEqual, refusedOr, trusting } from './support.ts'

type AnyType = RecordType<string, RecordPayload>
const TYPES = [locatorType, announceType, joinType, gpType, lpType, mailType, pruneType, pomType] as unknown as readonly AnyType[]
const WORDS = [
  'eid',
  'ts',
  'exp',
  'gone',
  'gen',
  'seq',
  'mode',
  'window',
  'keepers',
  'unlisted',
  'next',
  'prev',
  'shards',
  'policy',
  'live'
]

/** Every kind of record: decoded, written again, verified under any signature at its own time, and put under its own DHT key and into its set. */
const records: FuzzTarget = {
  name: 'records',
  bytesMax: 4_096,
  mutators: [mutateCbor(WORDS)],
  seeds: () => [
    ...recordSeeds().map(({ bytes }) => bytes),
    ...vectorBytes(['locator', 'announce', 'join', 'mail', 'pom']).filter(({ length }) => length > 100 && length <= 4_096)
  ],
  run(bytes) {
    for (const type of TYPES) {
      const record = refusedOr(() => decodeRecord(type, bytes))
      if (record === undefined) continue
      const { kind, payload, payloadBytes, signature } = record
      mustEqual(encodeEnvelope({ kind, payloadBytes, signature }), bytes, 'an envelope has one encoding')
      const { ts, exp, gone } = payload
      mustEqual(encodeCbor({ v: 1, ...type.toCbor(payload), ts, exp, gone }), payloadBytes, 'a payload has one encoding')
      const nowMs = ts * 1_000
      refusedOr(() => openPom(trusting, bytes, { nowMs }))
      const key = type.dhtKey(nodeCrypto, payload)
      if (key !== undefined && refusedOr(() => validateDhtValue(trusting, key, bytes, nowMs)) !== undefined) {
        mustBe(selectDhtValue(key, bytes, bytes).reason === 'same', 'a record is the same as itself')
      }
      inSets(type.kind, payload, bytes, nowMs)
    }
  }
}

function inSets(kind: string, payload: RecordPayload, bytes: Uint8Array, nowMs: number): void {
  for (const set of REGISTRY_SETS) {
    const place = refusedOr(() => claimedPlace(nodeCrypto, set, bytes))
    for (const key of setKeys(kind, payload)) {
      const entry = refusedOr(() => openSetEntry(trusting, set, key, bytes, nowMs))
      if (entry === undefined) continue
      mustBe(place?.id === entry.id, 'a record claims the place that it gets')
      selectSetEntry(entry, entry)
      verifyRegistryEntry(trusting, { set, key, record: bytes }, nowMs)
    }
  }
}

function setKeys(kind: string, payload: RecordPayload): Uint8Array[] {
  if (kind === 'announce') {
    const { ns, topic, ver } = payload as Announce
    return [dsId(nodeCrypto, { ns, topic, version: ver }), ...prefixIds(nodeCrypto, { ns, topic })]
  }
  if (kind === 'pom') return [pomKey(nodeCrypto, (payload as RecordPayload & Evidence).target)]
  return 'dsid' in payload ? [payload.dsid as Uint8Array] : []
}

/** Proofs of malfeasance: a kind, then two items one after the other, both of the target that the first one names. */
const evidence: FuzzTarget = {
  name: 'evidence',
  bytesMax: 8_192,
  mutators: [mutateCbor(WORDS)],
  seeds: () => {
    const poms = recordSeeds().filter(({ kind }) => kind === 'pom')
    const items = [...vectorBytes(['pom']), ...poms.map(({ bytes }) => bytes)].filter(({ length }) => length > 32)
    return items.flatMap((item) => EVIDENCE_KINDS.map((_, kind) => Uint8Array.from([kind, ...item])))
  },
  run(bytes) {
    const kind = EVIDENCE_KINDS[(bytes[0] ?? 0) % EVIDENCE_KINDS.length] ?? 'locator'
    const rest = bytes.subarray(1)
    const revocation = refusedOr(() => decodeRevocation(rest))
    if (revocation !== undefined) mustEqual(encodeRevocation(revocation), rest, 'a revocation has one encoding')
    const pom = refusedOr(() => decodeRecord(pomType, rest))
    if (pom !== undefined) refusedOr(() => verifyEvidence(trusting, pom.payload))
    const length = kind === 'checkpoint' ? CHECKPOINT_BYTES : kind === 'group' ? GROUP_OP_HEAD_BYTES : rest.length >> 1
    const [a, b] = [rest.subarray(0, length), rest.subarray(length, 2 * length)]
    refusedOr(() => openCheckpoint(trusting, a))
    for (const target of targetsOf(kind, a)) {
      const holds = refusedOr(() => {
        verifyEvidence(trusting, { target, kind, a, b } as Evidence)
        return true
      })
      if (holds === true) mustBe(Buffer.compare(a, b) !== 0, 'nothing contradicts itself')
    }
  }
}

function targetsOf(kind: string, a: Uint8Array): Uint8Array[] {
  if (kind === 'checkpoint') return [a.subarray(89, 121)]
  if (kind === 'group') return [a.subarray(20, 52)]
  return TYPES.flatMap((type) => {
    const record = refusedOr(() => decodeRecord(type, a))
    return record === undefined ? [] : [type.signer(record.payload)]
  })
}

export const targets: readonly FuzzTarget[] = [records, evidence]

import { type CborValue, encodeCbor } from '../../protocol/cbor.ts'
import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import type { DsId } from '../../protocol/discovery/names.ts'
import { type Eid, eid, eidToDid } from '../../protocol/identity/eid.ts'
import { ANNOUNCE_TTL_SEC, type Announce, announceType, POLICY_OPEN } from '../../protocol/records/announce.ts'
import { buildRecord, encodeEnvelope, type RecordPayload, type RecordType, signedBytes } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, type Join, joinType } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { derivedBytes } from '../engine/seeds.ts'

/** A key pair that an attacker made up. */
export interface Identity {
  readonly eid: Eid
  readonly did: string
  readonly signer: Signer
}

export function madeUp(seed: number, purpose: string, index: number, crypto: CryptoProvider = nodeCrypto): Identity {
  const secret = derivedBytes(seed, purpose, index)
  const own = eid(crypto.ed25519.publicKey(secret))
  return { eid: own, did: eidToDid(own), signer: { publicKey: own, sign: (message) => crypto.ed25519.sign(secret, message) } }
}

/** A true join, as its agent may have signed it at `nowMs`. */
export function joinOf(
  who: Pick<Identity, 'eid' | 'signer'>,
  dsid: DsId,
  curator: Eid,
  nowMs: number,
  more: Partial<Join> = {}
): Uint8Array {
  return buildRecord(nodeCrypto, joinType, joinPayload(who.eid, dsid, curator, nowMs, more), who.signer).bytes
}

/** A true announcement of whatever space, by whoever wants to be its curator. */
export function announceOf(who: Identity, { ns, topic, ver }: Pick<Announce, 'ns' | 'topic' | 'ver'>, nowMs: number): Uint8Array {
  return buildRecord(nodeCrypto, announceType, announcePayload(who.eid, { ns, topic, ver }, nowMs), who.signer).bytes
}

/**
 * Announcements and joins in the names of others, each wrong in one way: the signature is another's or broken, the times are not those of the kind, the
 * number lies in the future, the space is another one, the bytes are cut or noise.
 */
export function forgedJoins({ victims, liar, dsid, other, curator, nowMs }: ForgeryInit): Uint8Array[] {
  return victims.flatMap((victim, i) => {
    const payload = (more: Partial<Join> = {}) => joinPayload(victim.eid, dsid, curator, nowMs + i, more)
    const ts = Math.floor(nowMs / 1_000)
    const sound = joinOf(victim, dsid, curator, nowMs + i)
    return [
      signedBy(joinType, payload(), liar.signer),
      broken(sound, sound.length - 1),
      broken(sound, sound.length - 90),
      signedBy(joinType, payload({ exp: ts + 10 * JOIN_TTL_SEC }), victim.signer),
      signedBy(joinType, payload({ ts: ts + 3_600, exp: ts + 3_600 + JOIN_TTL_SEC }), victim.signer),
      signedBy(joinType, payload({ seq: nowMs + 86_400_000 }), victim.signer),
      joinOf(victim, other, curator, nowMs + i),
      sound.slice(0, sound.length - 3),
      derivedBytes(i, 'noise', sound.length)
    ]
  })
}

export interface ForgeryInit {
  victims: readonly Identity[]
  liar: Identity
  dsid: DsId
  /** a space that the victims are no members of */
  other: DsId
  curator: Eid
  nowMs: number
}

/** An announcement in the curator's name that another signed, and one whose bytes were changed. */
export function forgedAnnouncements(
  curator: Identity,
  liar: Identity,
  space: Pick<Announce, 'ns' | 'topic' | 'ver'>,
  nowMs: number
): Uint8Array[] {
  const sound = announceOf(curator, space, nowMs)
  return [
    signedBy(announceType, announcePayload(curator.eid, space, nowMs), liar.signer),
    broken(sound, 40),
    broken(sound, sound.length - 1)
  ]
}

/** What the victim signed and what has run out since. */
export function expiredJoin(victim: Identity, dsid: DsId, curator: Eid, nowMs: number): Uint8Array {
  return joinOf(victim, dsid, curator, nowMs - 2 * JOIN_TTL_SEC * 1_000)
}

function joinPayload(who: Eid, dsid: DsId, curator: Eid, nowMs: number, more: Partial<Join>): Join {
  const ts = Math.floor(nowMs / 1_000)
  return { dsid, eid: who, curator, tags: [], mode: 'always_on', seq: nowMs, ts, exp: ts + JOIN_TTL_SEC, ...more }
}

function announcePayload(curator: Eid, space: Pick<Announce, 'ns' | 'topic' | 'ver'>, nowMs: number): Announce {
  const ts = Math.floor(nowMs / 1_000)
  return { ...space, desc: 'mine now', curator, seeds: [], policy: POLICY_OPEN, shards: 1, seq: nowMs, ts, exp: ts + ANNOUNCE_TTL_SEC }
}

/** Signed without the checks of {@link buildRecord}. */
function signedBy<K extends string, P extends RecordPayload>(type: RecordType<K, P>, payload: P, signer: Signer): Uint8Array {
  const payloadBytes = encodeCbor({ v: 1, ...type.toCbor(payload), ts: payload.ts, exp: payload.exp } as { [key: string]: CborValue })
  return encodeEnvelope({ kind: type.kind, payloadBytes, signature: signer.sign(signedBytes(type.kind, payloadBytes)) })
}

function broken(bytes: Uint8Array, at: number): Uint8Array {
  const out = bytes.slice()
  out[at] = (out[at] as number) ^ 1
  return out
}

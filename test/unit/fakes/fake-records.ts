import { type DsId, dsId } from '../../../protocol/discovery/names.ts'
import type { Eid } from '../../../protocol/identity/eid.ts'
import { ANNOUNCE_TTL_SEC, type Announce, announceTombstone, announceType, POLICY_OPEN } from '../../../protocol/records/announce.ts'
import { buildRecord } from '../../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, type Join, joinTombstone, joinType } from '../../../protocol/records/join.ts'
import { PRUNE_TTL_SEC, pruneType } from '../../../protocol/records/prune.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'

export const ENERGY = { ns: 'org.agentnet', topic: 'marketplace.energy', version: 1 }
export const ENERGY_ID: DsId = dsId(nodeCrypto, ENERGY)

/** A whole signed join, made at `nowMs`. */
export function joinRecord(agent: LocalAgent, curator: Eid, nowMs: number, more: Partial<Join> = {}): Uint8Array {
  const ts = Math.floor(nowMs / 1_000)
  const payload: Join = {
    dsid: ENERGY_ID,
    eid: agent.eid,
    curator,
    tags: [],
    mode: 'always_on',
    seq: nowMs,
    ts,
    exp: ts + JOIN_TTL_SEC,
    ...more
  }
  return Uint8Array.from(buildRecord(nodeCrypto, joinType, payload, agent.signer).bytes)
}

export function joinGone(agent: LocalAgent, curator: Eid, nowMs: number): Uint8Array {
  const ts = Math.floor(nowMs / 1_000)
  const last: Join = { dsid: ENERGY_ID, eid: agent.eid, curator, tags: [], mode: 'always_on', seq: 0, ts, exp: ts + JOIN_TTL_SEC }
  return Uint8Array.from(buildRecord(nodeCrypto, joinType, joinTombstone(last, { seq: nowMs, nowSec: ts }), agent.signer).bytes)
}

/** A whole signed announcement of {@link ENERGY}, made at `nowMs`. */
export function announceRecord(curator: LocalAgent, nowMs: number, more: Partial<Announce> = {}): Uint8Array {
  const ts = Math.floor(nowMs / 1_000)
  const payload: Announce = {
    ns: ENERGY.ns,
    topic: ENERGY.topic,
    ver: ENERGY.version,
    desc: '',
    curator: curator.eid,
    seeds: [],
    policy: POLICY_OPEN,
    shards: 1,
    seq: nowMs,
    ts,
    exp: ts + ANNOUNCE_TTL_SEC,
    ...more
  }
  const signed = more.gone === true ? announceTombstone(payload, { seq: payload.seq, nowSec: ts }) : payload
  return Uint8Array.from(buildRecord(nodeCrypto, announceType, signed, curator.signer).bytes)
}

/** A whole signed prune of one member of {@link ENERGY}, made at `nowMs`, for a day. */
export function pruneRecord(curator: LocalAgent, member: Eid, nowMs: number): Uint8Array {
  const ts = Math.floor(nowMs / 1_000)
  const payload = { dsid: ENERGY_ID, eid: member, curator: curator.eid, until: ts + PRUNE_TTL_SEC, ts, exp: ts + PRUNE_TTL_SEC }
  return Uint8Array.from(buildRecord(nodeCrypto, pruneType, payload, curator.signer).bytes)
}

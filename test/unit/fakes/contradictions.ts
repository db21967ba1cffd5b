import { concat, u64Bytes } from '../../../protocol/bytes.ts'
import type { Signer } from '../../../protocol/crypto/provider.ts'
import type { Evidence } from '../../../protocol/evidence/proof.ts'
import { context } from '../../../protocol/identity/contexts.ts'
import { type Eid, eid } from '../../../protocol/identity/eid.ts'
import { type Announce, announceType } from '../../../protocol/records/announce.ts'
import { buildRecord } from '../../../protocol/records/envelope.ts'
import { type Locator, type LocatorRecord, locatorTombstone, locatorType } from '../../../protocol/records/locator.ts'
import { POM_TTL_SEC, type PomRecord, pomType } from '../../../protocol/records/pom.ts'
import { signCheckpoint } from '../../../protocol/session/checkpoint.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'

/** Signed items of one identity, honest ones and others. */
export interface Signed {
  readonly signer: Signer
  readonly eid: Eid
}

export function signedBy(signer: Signer): Signed {
  return { signer, eid: eid(signer.publicKey) }
}

export function locatorOf({ signer, eid }: Signed, nowMs: number, change: Partial<Locator> = {}): LocatorRecord {
  const ts = Math.floor(nowMs / 1_000)
  const locator: Locator = {
    eid,
    peer: '12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf',
    addrs: ['/ip4/127.0.0.1/udp/4001/quic-v1'],
    mbox: new Uint8Array(32).fill(9),
    mode: 'always_on',
    keepers: [],
    gen: nowMs,
    ts,
    exp: ts + 86_400,
    ...change
  }
  return buildRecord(nodeCrypto, locatorType, locator, signer)
}

export function tombstoneOf(who: Signed, nowMs: number, gen = nowMs): LocatorRecord {
  const last = locatorOf(who, nowMs).payload
  return buildRecord(nodeCrypto, locatorType, locatorTombstone(last, { gen, nowSec: Math.floor(nowMs / 1_000) }), who.signer)
}

export function announceOf({ signer, eid }: Signed, nowMs: number, change: Partial<Announce> = {}): Uint8Array {
  const ts = Math.floor(nowMs / 1_000)
  const announce: Announce = {
    ns: 'org.agentnet',
    topic: 'marketplace.energy',
    ver: 1,
    desc: 'Energy offers',
    curator: eid,
    seeds: [],
    policy: 'open',
    shards: 1,
    seq: nowMs,
    ts,
    exp: ts + 86_400,
    ...change
  }
  return buildRecord(nodeCrypto, announceType, announce, signer).bytes
}

export function checkpointOf(
  { signer, eid }: Signed,
  at: { sid?: number; epoch?: number; dir?: 0 | 1; seq?: bigint; hash?: number } = {}
): Uint8Array {
  const subject = {
    sid: new Uint8Array(16).fill(at.sid ?? 1),
    epoch: new Uint8Array(32).fill(at.epoch ?? 1),
    direction: at.dir ?? (0 as const),
    eid
  }
  return signCheckpoint(subject, { seq: at.seq ?? 1_024n, hash: new Uint8Array(32).fill(at.hash ?? 1) }, signer)
}

export function groupHeadOf({ signer, eid }: Signed, at: { run?: number; n?: bigint; g?: number } = {}): Uint8Array {
  const signed = concat([
    new Uint8Array(16).fill(1),
    Uint8Array.of(0, 0, 0, 7),
    eid,
    new Uint8Array(16).fill(at.run ?? 1),
    u64Bytes(at.n ?? 5n),
    new Uint8Array(32).fill(at.g ?? 1)
  ])
  return concat([signed, signer.sign(concat([context('group-op'), signed]))])
}

/** Two locators of one generation. */
export function locatorPair(who: Signed, nowMs: number): Evidence {
  const b = locatorOf(who, nowMs, { addrs: ['/ip4/127.0.0.1/udp/4002/quic-v1'] })
  return { target: who.eid, kind: 'locator', a: locatorOf(who, nowMs).bytes, b: b.bytes }
}

export function checkpointPair(who: Signed): Evidence {
  return { target: who.eid, kind: 'checkpoint', a: checkpointOf(who), b: checkpointOf(who, { hash: 2 }) }
}

/** The evidence as a ticket of `accuser`. */
export function ticketOf(evidence: Evidence, accuser: Signed, nowMs: number): PomRecord {
  const ts = Math.floor(nowMs / 1_000)
  return buildRecord(nodeCrypto, pomType, { ...evidence, accuser: accuser.eid, ts, exp: ts + POM_TTL_SEC }, accuser.signer)
}

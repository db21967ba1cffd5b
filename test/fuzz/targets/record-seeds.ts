import type { Signer } from '../../../protocol/crypto/provider.ts'
import { dsId } from '../../../protocol/discovery/names.ts'
import { type Eid, eid } from '../../../protocol/identity/eid.ts'
import { ANNOUNCE_TTL_SEC, announceType } from '../../../protocol/records/announce.ts'
import { buildRecord } from '../../../protocol/records/envelope.ts'
import { GP_TTL_SEC, gpType } from '../../../protocol/records/gp.ts'
import { JOIN_TTL_SEC, joinType } from '../../../protocol/records/join.ts'
import { LOCATOR_TTL_SEC, locatorType } from '../../../protocol/records/locator.ts'
import { LP_TTL_SEC, lpType } from '../../../protocol/records/lp.ts'
import { MAIL_TTL_SEC, mailType } from '../../../protocol/records/mail.ts'
import { POM_TTL_SEC, pomType } from '../../../protocol/records/pom.ts'
import { PRUNE_TTL_SEC, pruneType } from '../../../protocol/records/prune.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { NOW_MS } from './support.ts'

const NOW_SEC = NOW_MS / 1_000
const PEER = '12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf'

export function fuzzSigner(fill: number): Signer & { publicKey: Eid } {
  const seed = new Uint8Array(32).fill(fill)
  return { publicKey: eid(nodeCrypto.ed25519.publicKey(seed)), sign: (message) => nodeCrypto.ed25519.sign(seed, message) }
}

/** One good record of every kind, and some that were taken back. */
export function recordSeeds(): { kind: string; bytes: Uint8Array }[] {
  const [alice, bob] = [fuzzSigner(1), fuzzSigner(2)]
  const times = (ttl: number) => ({ ts: NOW_SEC, exp: NOW_SEC + ttl })
  const dsid = dsId(nodeCrypto, { ns: 'org.agentnet', topic: 'marketplace.energy', version: 1 })
  const locator = {
    eid: alice.publicKey,
    peer: PEER,
    addrs: ['/ip4/192.0.2.7/udp/4001/quic-v1'],
    mbox: new Uint8Array(32).fill(9),
    mode: 'hourly_wake' as const,
    window: { periodSec: 3_600, openSec: 60, offsetSec: 7 },
    keepers: [bob.publicKey],
    gen: NOW_MS
  }
  const one = buildRecord(nodeCrypto, locatorType, { ...locator, ...times(LOCATOR_TTL_SEC) }, alice)
  const two = buildRecord(nodeCrypto, locatorType, { ...locator, addrs: [], ...times(LOCATOR_TTL_SEC) }, alice)
  const announce = {
    ns: 'org.agentnet',
    topic: 'marketplace.energy',
    ver: 1,
    desc: 'Energy',
    curator: alice.publicKey,
    seeds: [],
    policy: 'open' as const,
    shards: 1,
    seq: NOW_MS
  }
  const point = { eid: alice.publicKey, tag: 'mcp', access: 'open' }
  const evidence = { target: alice.publicKey, kind: 'locator' as const, a: one.bytes, b: two.bytes }
  return [
    one,
    buildRecord(nodeCrypto, announceType, { ...announce, ...times(ANNOUNCE_TTL_SEC) }, alice),
    buildRecord(nodeCrypto, announceType, { ...announce, ...times(ANNOUNCE_TTL_SEC), gone: true }, alice),
    buildRecord(
      nodeCrypto,
      joinType,
      { dsid, eid: bob.publicKey, curator: alice.publicKey, tags: ['solar'], mode: 'session', seq: NOW_MS, ...times(JOIN_TTL_SEC) },
      bob
    ),
    buildRecord(nodeCrypto, gpType, { ...point, gen: NOW_MS, ...times(GP_TTL_SEC) }, alice),
    buildRecord(nodeCrypto, lpType, { ...point, peer: PEER, addrs: ['/ip4/10.0.0.2/udp/4001/quic-v1'], ...times(LP_TTL_SEC) }, alice),
    buildRecord(
      nodeCrypto,
      mailType,
      { eid: alice.publicKey, mbox: new Uint8Array(32).fill(9), keepers: [bob.publicKey], gen: NOW_MS, ...times(MAIL_TTL_SEC) },
      alice
    ),
    buildRecord(
      nodeCrypto,
      pruneType,
      { dsid, eid: bob.publicKey, curator: alice.publicKey, until: NOW_SEC + 60, ...times(PRUNE_TTL_SEC) },
      alice
    ),
    buildRecord(nodeCrypto, pomType, { ...evidence, accuser: bob.publicKey, ...times(POM_TTL_SEC) }, bob)
  ].map(({ kind, bytes }) => ({ kind, bytes }))
}

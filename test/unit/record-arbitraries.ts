import fc from 'fast-check'
import type { Signer } from '../../protocol/crypto/provider.ts'
import { REACHABILITY_MODES } from '../../protocol/delivery/modes.ts'
import { dsId } from '../../protocol/discovery/names.ts'
import { type Eid, eid } from '../../protocol/identity/eid.ts'
import { ANNOUNCE_TTL_SEC, type Announce } from '../../protocol/records/announce.ts'
import { CIRCUIT_RELAY_TTL_SEC, type CircuitRelay } from '../../protocol/records/circuit-relay.ts'
import { GP_TTL_SEC, type Gp } from '../../protocol/records/gp.ts'
import { JOIN_TTL_SEC, type Join } from '../../protocol/records/join.ts'
import { LOCATOR_TTL_SEC, type Locator } from '../../protocol/records/locator.ts'
import { MAIL_TTL_SEC, type Mail } from '../../protocol/records/mail.ts'
import { PRUNE_TTL_SEC, type Prune } from '../../protocol/records/prune.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'

export const NOW_SEC = 1_800_000_000
export const NOW_MS = NOW_SEC * 1_000

/** A signer from a small number, the same every time. */
export function testSigner(n: number): Signer & { publicKey: Eid } {
  const seed = new Uint8Array(32).fill(n)
  return { publicKey: eid(nodeCrypto.ed25519.publicKey(seed)), sign: (message) => nodeCrypto.ed25519.sign(seed, message) }
}

export const [alice, bob, carol] = [testSigner(1), testSigner(2), testSigner(3)]

const arbLabel = fc.stringMatching(/^[a-z0-9-]{1,16}$/)
export const arbDotted = fc.array(arbLabel, { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.'))
const arbAddr = fc.stringMatching(/^[\x21-\x7e]{1,128}$/)
const arbTag = fc.stringMatching(/^[\x20-\x7e]{1,24}$/)
const arbMode = fc.constantFrom(...REACHABILITY_MODES)
const arbKey = fc.constantFrom(alice.publicKey, bob.publicKey, carol.publicKey)
const arbNumber = fc.integer({ min: 0, max: NOW_MS + 60_000 })
const arbLink = fc.record({ eid: arbKey, ver: fc.integer({ min: 1, max: 0xffffffff }) })

/** A life that holds at NOW_MS; tombstones live exactly as long as their kind. */
const arbTimes = (ttlSec: number) =>
  fc.oneof(
    fc
      .tuple(fc.integer({ min: -ttlSec + 1, max: 0 }), fc.integer({ min: 1, max: ttlSec }))
      .map(([before, life]) => ({ ts: NOW_SEC, exp: NOW_SEC + Math.max(1, life + before) })),
    fc.constant({ ts: NOW_SEC, exp: NOW_SEC + ttlSec, gone: true as const })
  )

function without<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T
}

/** Valid locators of alice. */
export const arbLocator: fc.Arbitrary<Locator> = fc
  .tuple(
    fc.record({
      peer: fc.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{46,64}$/),
      addrs: fc.array(arbAddr, { maxLength: 8 }),
      mbox: fc.uint8Array({ minLength: 32, maxLength: 32 }),
      mode: arbMode,
      window: fc.option(
        fc
          .record({ periodSec: fc.integer({ min: 1, max: 604_800 }), open: fc.nat(604_800), offset: fc.nat(604_800) })
          .map(({ periodSec, open, offset }) => ({ periodSec, openSec: 1 + (open % periodSec), offsetSec: offset % periodSec })),
        { nil: undefined }
      ),
      keepers: fc.array(arbKey, { maxLength: 4 }),
      gen: arbNumber
    }),
    arbTimes(LOCATOR_TTL_SEC)
  )
  .map(([fields, times]) => without({ eid: alice.publicKey, ...fields, ...times }) as Locator)

/** Valid announcements of `curator`, all of one space unless `name` says otherwise. */
export const arbAnnounce = (curator: Eid, name?: { ns: string; topic: string; ver: number }): fc.Arbitrary<Announce> =>
  fc
    .tuple(
      name === undefined ? fc.record({ ns: arbDotted, topic: arbDotted, ver: fc.integer({ min: 1, max: 0xffffffff }) }) : fc.constant(name),
      fc.record({
        desc: fc.string({ maxLength: 60, unit: 'grapheme' }).filter((text) => new TextEncoder().encode(text).length <= 256),
        prev: fc.option(arbLink, { nil: undefined }),
        next: fc.option(arbLink, { nil: undefined }),
        seeds: fc.array(arbAddr, { maxLength: 6 }),
        policy: fc.constantFrom('open', 'by-request'),
        shards: fc.integer({ min: 1, max: 256 }),
        seq: arbNumber
      }),
      arbTimes(ANNOUNCE_TTL_SEC)
    )
    .map(([words, fields, times]) => without({ ...words, curator, ...fields, ...times }) as Announce)

export const spaceId = dsId(nodeCrypto, { ns: 'org.agentnet', topic: 'marketplace.energy', version: 1 })

/** Valid joins of bob. */
export const arbJoin: fc.Arbitrary<Join> = fc
  .tuple(
    fc.record({ tags: fc.uniqueArray(arbTag, { maxLength: 12 }), mode: arbMode, seq: arbNumber, curator: arbKey }),
    arbTimes(JOIN_TTL_SEC)
  )
  .map(([fields, times]) => ({ dsid: spaceId, eid: bob.publicKey, ...fields, ...times }))

/** Valid prunes by alice of bob's join. */
export const arbPrune: fc.Arbitrary<Prune> = fc
  .tuple(fc.nat(NOW_SEC), arbTimes(PRUNE_TTL_SEC))
  .map(([until, times]) => ({ dsid: spaceId, eid: bob.publicKey, curator: alice.publicKey, until, ...times }))

/** Valid global points of alice. */
export const arbGp: fc.Arbitrary<Gp> = fc
  .tuple(fc.record({ tag: arbTag, access: arbLabel, gen: arbNumber }), arbTimes(GP_TTL_SEC))
  .map(([fields, times]) => ({ eid: alice.publicKey, ...fields, ...times }))

/** Valid relay records of the node whose key is alice's. */
export const arbCircuitRelay: fc.Arbitrary<CircuitRelay> = fc
  .tuple(fc.array(arbAddr, { maxLength: 4 }), arbTimes(CIRCUIT_RELAY_TTL_SEC))
  .map(([addrs, times]) => ({ node: alice.publicKey, addrs, ...times }))

/** Valid mail records of alice. */
export const arbMail: fc.Arbitrary<Mail> = fc
  .tuple(
    fc.record({ mbox: fc.uint8Array({ minLength: 32, maxLength: 32 }), keepers: fc.array(arbKey, { maxLength: 4 }), gen: arbNumber }),
    arbTimes(MAIL_TTL_SEC)
  )
  .map(([fields, times]) => ({ eid: alice.publicKey, ...fields, ...times }))

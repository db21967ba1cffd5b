import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto as crypto } from '../../src/crypto/node-crypto.ts'
import {
  alice,
  arbAnnounce,
  arbCircuitRelay,
  arbGp,
  arbJoin,
  arbLocator,
  arbMail,
  arbPrune,
  bob,
  carol,
  NOW_MS,
  NOW_SEC,
  spaceId
} from '../../test/unit/record-arbitraries.ts'
import { concat, equals, utf8 } from '../bytes.ts'
import { encodeCbor } from '../cbor.ts'
import type { Signer } from '../crypto/provider.ts'
import { announceKey, gpKey, joinKey, locatorKey, mailKey } from '../discovery/dht-key.ts'
import { dsId, gpCoordinate, prefixId } from '../discovery/names.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import { type Announce, announceTombstone, announceType } from './announce.ts'
import { type CircuitRelay, circuitRelaysKey, circuitRelayTombstone, circuitRelayType } from './circuit-relay.ts'
import { selectDhtValue, validateDhtValue } from './dht-value.ts'
import { buildRecord, decodeRecord, openRecord, type RecordPayload, type RecordType } from './envelope.ts'
import { gpTombstone, gpType } from './gp.ts'
import { joinTombstone, joinType } from './join.ts'
import { type Locator, locatorTombstone, locatorType } from './locator.ts'
import { MAIL_TTL_SEC, type Mail, mailTombstone, mailType } from './mail.ts'
import { pruneType } from './prune.ts'
import { openSetEntry, REGISTRY_SETS, selectSetEntry } from './set-entry.ts'

interface Case {
  kind: string
  type: RecordType<string, RecordPayload>
  payload: fc.Arbitrary<RecordPayload>
  signer: Signer
}
const kind = <P extends RecordPayload>(type: RecordType<string, P>, payload: fc.Arbitrary<P>, signer: Signer): Case => ({
  kind: type.kind,
  type: type as unknown as Case['type'],
  payload,
  signer
})
const kinds: Case[] = [
  kind(locatorType, arbLocator, alice),
  kind(announceType, arbAnnounce(alice.publicKey), alice),
  kind(joinType, arbJoin, bob),
  kind(pruneType, arbPrune, alice),
  kind(gpType, arbGp, alice),
  kind(mailType, arbMail, alice),
  kind(circuitRelayType, arbCircuitRelay, alice)
]

const energy = { ns: 'org.agentnet', topic: 'marketplace.energy', ver: 1 }
const locator: Locator = {
  eid: alice.publicKey,
  peer: '12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf',
  addrs: ['/ip4/192.0.2.7/udp/4001/quic-v1'],
  mbox: new Uint8Array(32).fill(9),
  mode: 'always_on',
  keepers: [],
  gen: NOW_MS,
  ts: NOW_SEC,
  exp: NOW_SEC + 86_400
}
const announce: Announce = {
  ...energy,
  desc: 'Energy offers',
  curator: alice.publicKey,
  seeds: [],
  policy: 'open',
  shards: 1,
  seq: NOW_MS,
  ts: NOW_SEC,
  exp: NOW_SEC + 86_400
}
const join = {
  dsid: spaceId,
  eid: bob.publicKey,
  curator: alice.publicKey,
  tags: ['solar'],
  mode: 'always_on' as const,
  seq: NOW_MS,
  ts: NOW_SEC,
  exp: NOW_SEC + 3_600
}
const signLocator = (change: Partial<Locator> = {}) => buildRecord(crypto, locatorType, { ...locator, ...change }, alice).bytes
const signAnnounce = (change: Partial<Announce> = {}, signer: Signer & { publicKey: Announce['curator'] } = alice) =>
  buildRecord(crypto, announceType, { ...announce, curator: signer.publicKey, ...change }, signer).bytes
const signJoin = (change: Partial<typeof join> = {}) => buildRecord(crypto, joinType, { ...join, ...change }, bob).bytes

function codeOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError)
    return (error as ProtocolError).code
  }
  return 'accepted'
}

describe.each(kinds)('any $kind record', ({ type, payload, signer }) => {
  it('[DS-07] comes back from its bytes as it was built', () => {
    fc.assert(
      fc.property(payload, (value) => {
        const built = buildRecord(crypto, type, value, signer)
        const opened = openRecord(crypto, type, built.bytes, { nowMs: NOW_MS })
        expect(opened.payload).toEqual(value)
        expect(opened.bytes).toEqual(built.bytes)
      }),
      { numRuns: 60 }
    )
  })

  it('[D-26] is refused with any one bit flipped', () => {
    fc.assert(
      fc.property(payload, fc.nat(), (value, at) => {
        const bytes = buildRecord(crypto, type, value, signer).bytes.slice()
        const bit = at % (bytes.length * 8)
        bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7))
        expect(codeOf(() => openRecord(crypto, type, bytes, { nowMs: NOW_MS }))).not.toBe('accepted')
      }),
      { numRuns: 200 }
    )
  })

  it('[F031] meets arbitrary bytes with a ProtocolError, nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => {
        expect(codeOf(() => decodeRecord(type, bytes))).not.toBe('accepted')
        expect(codeOf(() => openRecord(crypto, type, encodeCbor([type.kind, bytes, new Uint8Array(64)]), { nowMs: NOW_MS }))).not.toBe(
          'accepted'
        )
      })
    )
  })

  it('[D-17] is not signed by a key that it does not name', () => {
    fc.assert(
      fc.property(payload, (value) => {
        expect(codeOf(() => buildRecord(crypto, type, value, carol))).toBe('RECORD_SIGNER')
      }),
      { numRuns: 5 }
    )
  })
})

it('[DS-09] refuses every bit flip of one locator, one by one', () => {
  const bytes = signLocator()
  const accepted: number[] = []
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const changed = bytes.slice()
    changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
    if (codeOf(() => validateDhtValue(crypto, locatorKey(alice.publicKey), changed, NOW_MS)) === 'accepted') accepted.push(bit)
  }
  expect(accepted).toEqual([])
})

it('[D-30] refuses any well-formed CBOR under any key with a ProtocolError, nothing else', () => {
  const arbCbor = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.maxSafeInteger(),
      fc.string(),
      fc.boolean(),
      fc.uint8Array(),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.string(), tie('value'), { maxKeys: 4 })
    )
  })).value
  const keys = [
    locatorKey(alice.publicKey),
    announceKey(spaceId),
    joinKey(spaceId, bob.publicKey),
    gpKey(gpCoordinate(crypto, alice.publicKey, 'x'))
  ]
  fc.assert(
    fc.property(arbCbor, fc.constantFrom('locator', 'announce', 'join', 'gp'), fc.constantFrom(...keys), (payload, name, key) => {
      const value = encodeCbor([name, encodeCbor(payload as never), new Uint8Array(64)])
      expect(codeOf(() => validateDhtValue(crypto, key, value, NOW_MS))).not.toBe('accepted')
    })
  )
})

it('[D-18] refuses a key of an unknown namespace by name, whatever the value', () => {
  const key = concat([utf8('/foo/'), alice.publicKey])
  expect(codeOf(() => validateDhtValue(crypto, key, signLocator(), NOW_MS))).toBe('DHT_KEY')
  expect(codeOf(() => selectDhtValue(key, signLocator(), signLocator()))).toBe('DHT_KEY')
})

it('[D-19] refuses a record whose EID is the hash of a private key', () => {
  const hashed = eid(crypto.sha256(new Uint8Array(32).fill(1)))
  expect(codeOf(() => buildRecord(crypto, locatorType, { ...locator, eid: hashed }, { publicKey: hashed, sign: alice.sign }))).toBe(
    'SIGNATURE_INVALID'
  )
})

it('[DS-18] reads a join until its hour is over and no longer', () => {
  const key = joinKey(spaceId, bob.publicKey)
  const bytes = signJoin()
  expect(validateDhtValue(crypto, key, bytes, NOW_MS + 3_600_000 - 1).kind).toBe('join')
  expect(codeOf(() => validateDhtValue(crypto, key, bytes, NOW_MS + 3_600_000))).toBe('RECORD_EXPIRED')
  expect(codeOf(() => validateDhtValue(crypto, key, bytes, NOW_MS + 3_601_000))).toBe('RECORD_EXPIRED')
})

describe('who wins at one key', () => {
  const key = locatorKey(alice.publicKey)

  it('[F031] keeps a newer locator against an older one, and the held one at an equal generation', () => {
    const [six, seven, other] = [signLocator({ gen: NOW_MS - 1 }), signLocator(), signLocator({ addrs: [] })]
    expect(selectDhtValue(key, seven, six)).toEqual({ winner: 'held', reason: 'older' })
    expect(selectDhtValue(key, six, seven)).toEqual({ winner: 'offered', reason: 'newer' })
    expect(selectDhtValue(key, seven, seven)).toEqual({ winner: 'held', reason: 'same' })
    expect(selectDhtValue(key, seven, other)).toEqual({ winner: 'held', reason: 'equivocation' })
    expect(selectDhtValue(key, other, seven)).toEqual({ winner: 'held', reason: 'equivocation' })
  })

  it('[G-23] keeps a locator tombstone for good, against any later generation', () => {
    const tombstone = buildRecord(crypto, locatorType, locatorTombstone(locator, { gen: NOW_MS, nowSec: NOW_SEC }), alice)
    expect(tombstone.payload).toMatchObject({ gone: true, addrs: [], exp: NOW_SEC + 86_400 })
    expect(selectDhtValue(key, tombstone.bytes, signLocator({ gen: NOW_MS + 50_000 }))).toEqual({ winner: 'held', reason: 'gone' })
    expect(selectDhtValue(key, signLocator({ gen: NOW_MS + 50_000 }), tombstone.bytes)).toEqual({ winner: 'offered', reason: 'gone' })
  })

  it('[D-26] settles any two locators of different generations alike from both sides, and never for the older', () => {
    fc.assert(
      fc.property(arbLocator, arbLocator, (a, b) => {
        fc.pre(a.gen !== b.gen)
        const [one, two] = [signLocator(a), signLocator(b)]
        const first = selectDhtValue(key, one, two)
        const second = selectDhtValue(key, two, one)
        expect(first.winner).not.toBe(second.winner)
        const [winner, loser] = first.winner === 'held' ? [a, b] : [b, a]
        expect(winner.gone === true || (loser.gone === undefined && winner.gen > loser.gen)).toBe(true)
        if (winner.gone === loser.gone) expect(winner.gen).toBeGreaterThan(loser.gen)
      }),
      { numRuns: 60 }
    )
  })

  it('[G-18] settles two mail records as two locators: gone for good, then the higher generation, the held one at an equal one', () => {
    const at = mailKey(alice.publicKey)
    const mail: Mail = {
      eid: alice.publicKey,
      mbox: new Uint8Array(32).fill(9),
      keepers: [bob.publicKey],
      gen: NOW_MS,
      ts: NOW_SEC,
      exp: NOW_SEC + MAIL_TTL_SEC
    }
    const sign = (change: Partial<Mail> = {}) => buildRecord(crypto, mailType, { ...mail, ...change }, alice).bytes
    const tombstone = buildRecord(crypto, mailType, mailTombstone(mail, { gen: NOW_MS - 5, nowSec: NOW_SEC }), alice)
    expect(tombstone.payload).toMatchObject({ gone: true, keepers: [], exp: NOW_SEC + MAIL_TTL_SEC })
    expect(selectDhtValue(at, sign(), sign({ gen: NOW_MS + 1 }))).toEqual({ winner: 'offered', reason: 'newer' })
    expect(selectDhtValue(at, sign(), sign({ gen: NOW_MS - 1 }))).toEqual({ winner: 'held', reason: 'older' })
    expect(selectDhtValue(at, sign(), sign({ keepers: [] }))).toEqual({ winner: 'held', reason: 'equivocation' })
    expect(selectDhtValue(at, sign({ gen: NOW_MS + 9 }), tombstone.bytes)).toEqual({ winner: 'offered', reason: 'gone' })
    expect(selectDhtValue(at, tombstone.bytes, sign({ gen: NOW_MS + 9 }))).toEqual({ winner: 'held', reason: 'gone' })
  })

  it('[DS-13] takes the higher number of two joins, from both sides alike, and keeps the held one at an equal number', () => {
    const at = joinKey(spaceId, bob.publicKey)
    fc.assert(
      fc.property(arbJoin, arbJoin, (a, b) => {
        const [one, two] = [signJoin(a as Partial<typeof join>), signJoin(b as Partial<typeof join>)]
        expect(selectDhtValue(at, one, two).winner).toBe(b.seq > a.seq ? 'offered' : 'held')
      }),
      { numRuns: 60 }
    )
    expect(selectDhtValue(at, signJoin(), signJoin({ tags: [] }))).toEqual({ winner: 'held', reason: 'older' })
  })

  it('[G-23] lets a join tombstone end the membership, an old join not revive it, and a new join begin it anew', () => {
    const at = joinKey(spaceId, bob.publicKey)
    const tombstone = buildRecord(crypto, joinType, joinTombstone(join, { seq: NOW_MS + 1, nowSec: NOW_SEC }), bob).bytes
    expect(selectDhtValue(at, signJoin(), tombstone).winner).toBe('offered')
    expect(selectDhtValue(at, tombstone, signJoin()).winner).toBe('held')
    expect(selectDhtValue(at, tombstone, signJoin({ seq: NOW_MS + 2 })).winner).toBe('offered')
  })
})

describe('who curates a space', () => {
  const key = announceKey(spaceId)

  it('[DS-09] keeps the held announcement against that of any other curator, however high its number', () => {
    fc.assert(
      fc.property(arbAnnounce(bob.publicKey, energy), (theirs) => {
        const offered = signAnnounce(theirs, bob)
        expect(selectDhtValue(key, signAnnounce(), offered)).toEqual({ winner: 'held', reason: 'other-curator' })
      }),
      { numRuns: 40 }
    )
  })

  it('[G-21] settles nothing between two curators: each stays where it is held', () => {
    const [mine, theirs] = [signAnnounce(), signAnnounce({}, bob)]
    expect(selectDhtValue(key, mine, theirs).winner).toBe('held')
    expect(selectDhtValue(key, theirs, mine).winner).toBe('held')
  })

  it('[DS-10] lets the curator take the announcement back, and nobody else', () => {
    const tombstone = announceTombstone(announce, { seq: NOW_MS + 1, nowSec: NOW_SEC })
    expect(selectDhtValue(key, signAnnounce(), signAnnounce(tombstone))).toEqual({ winner: 'offered', reason: 'newer' })
    expect(selectDhtValue(key, signAnnounce(tombstone), signAnnounce())).toEqual({ winner: 'held', reason: 'older' })
    const foreign = signAnnounce({ ...tombstone, curator: bob.publicKey }, bob)
    expect(selectDhtValue(key, signAnnounce(), foreign)).toEqual({ winner: 'held', reason: 'other-curator' })
  })

  it('[DS-10] leaves a space that was taken back to another curator, and its old record does not return', () => {
    const tombstone = signAnnounce(announceTombstone(announce, { seq: NOW_MS + 1, nowSec: NOW_SEC }))
    const theirs = signAnnounce({}, bob)
    expect(selectDhtValue(key, tombstone, theirs)).toEqual({ winner: 'offered', reason: 'gone' })
    expect(selectDhtValue(key, theirs, signAnnounce()).winner).toBe('held')
    expect(selectDhtValue(key, theirs, tombstone).winner).toBe('held')
  })

  it('[DS-09] takes the higher number of one curator and reports two records with one number', () => {
    const [old, now, other] = [signAnnounce({ seq: NOW_MS - 1 }), signAnnounce(), signAnnounce({ desc: 'Other offers' })]
    expect(selectDhtValue(key, old, now)).toEqual({ winner: 'offered', reason: 'newer' })
    expect(selectDhtValue(key, now, old)).toEqual({ winner: 'held', reason: 'older' })
    expect(selectDhtValue(key, now, other)).toEqual({ winner: 'held', reason: 'equivocation' })
  })

  it('[G-22] hands a space over only when the old curator names the new one and is named by it', () => {
    const [next, prev] = [
      { eid: bob.publicKey, ver: 1 },
      { eid: alice.publicKey, ver: 1 }
    ]
    const [mine, theirs] = [signAnnounce({ next }), signAnnounce({ prev }, bob)]
    expect(selectDhtValue(key, mine, theirs)).toEqual({ winner: 'offered', reason: 'handed-over' })
    expect(selectDhtValue(key, theirs, mine)).toEqual({ winner: 'held', reason: 'other-curator' })
    expect(selectDhtValue(key, signAnnounce(), theirs).winner).toBe('held')
    expect(selectDhtValue(key, mine, signAnnounce({}, bob)).winner).toBe('held')
    expect(selectDhtValue(key, mine, signAnnounce({ prev }, carol)).winner).toBe('held')
    expect(selectDhtValue(key, mine, signAnnounce({ prev: { eid: carol.publicKey, ver: 1 } }, bob)).winner).toBe('held')
    expect(selectDhtValue(key, mine, signAnnounce({ prev: { ...prev, ver: 2 } }, bob)).winner).toBe('held')
    expect(selectDhtValue(key, signAnnounce({ next: { ...next, ver: 2 } }), theirs).winner).toBe('held')
  })

  it('[G-22] does not swing between two curators that name each other both ways', () => {
    const both = (other: Announce['curator']) => ({ next: { eid: other, ver: 1 }, prev: { eid: other, ver: 1 } })
    const [mine, theirs] = [signAnnounce(both(bob.publicKey)), signAnnounce(both(alice.publicKey), bob)]
    expect(selectDhtValue(key, mine, theirs).winner).toBe('held')
    expect(selectDhtValue(key, theirs, mine).winner).toBe('held')
  })

  it('[DS-09] gives any two announcements of a space one winner, and an older one of the same curator never', () => {
    const any = fc.constantFrom(alice, bob).chain((signer) => arbAnnounce(signer.publicKey, energy).map((value) => ({ signer, value })))
    fc.assert(
      fc.property(any, any, (a, b) => {
        const [held, offered] = [signAnnounce(a.value, a.signer), signAnnounce(b.value, b.signer)]
        const { winner } = selectDhtValue(key, held, offered)
        if (equals(a.signer.publicKey, b.signer.publicKey)) expect(winner).toBe(b.value.seq > a.value.seq ? 'offered' : 'held')
        else expect(winner === 'offered' && selectDhtValue(key, offered, held).winner === 'offered').toBe(false)
      }),
      { numRuns: 80 }
    )
  })
})

describe('registry entries', () => {
  const child = signAnnounce()
  const prune = buildRecord(
    crypto,
    pruneType,
    { dsid: spaceId, eid: bob.publicKey, curator: alice.publicKey, until: NOW_SEC + 60, ts: NOW_SEC, exp: NOW_SEC + 60 },
    alice
  ).bytes
  const under = (prefix: string) => prefixId(crypto, 'org.agentnet', prefix)

  it('[DS-22] lists an announcement under every ancestor of its topic and the empty prefix, nowhere else', () => {
    for (const prefix of ['', 'marketplace', 'marketplace.energy']) {
      expect(openSetEntry(crypto, 'children', under(prefix), child, NOW_MS).record.kind).toBe('announce')
    }
    for (const key of [under('market'), under('marketplace.energy.trading'), prefixId(crypto, 'org', ''), spaceId]) {
      expect(codeOf(() => openSetEntry(crypto, 'children', key, child, NOW_MS))).toBe('RECORD_KEY_MISMATCH')
    }
  })

  it('[G-24] takes a join under DS_ID or a shard of its own, and under no other key', () => {
    const first = crypto.sha256(bob.publicKey)[0] as number
    const shard = (index: number) => crypto.sha256(spaceId, Uint8Array.of(index))
    for (const key of [spaceId, shard(first % 2), shard(first % 256)]) {
      expect(openSetEntry(crypto, 'members', key, signJoin(), NOW_MS).set).toBe('members')
    }
    const other = dsId(crypto, { ns: 'org.agentnet', topic: 'marketplace.energy', version: 2 })
    expect(codeOf(() => openSetEntry(crypto, 'members', other, signJoin(), NOW_MS))).toBe('RECORD_KEY_MISMATCH')
    expect(codeOf(() => openSetEntry(crypto, 'members', shard((first + 128) % 256), signJoin(), NOW_MS))).toBe(
      first >= 128 ? 'accepted' : 'RECORD_KEY_MISMATCH'
    )
  })

  it('[G-21] keeps the announcements of two curators side by side', () => {
    const ids = [signAnnounce(), signAnnounce({}, bob)].map((bytes) => openSetEntry(crypto, 'announcements', spaceId, bytes, NOW_MS).id)
    expect(new Set(ids).size).toBe(2)
    const other = dsId(crypto, { ns: 'org.agentnet', topic: 'marketplace.energy', version: 2 })
    expect(codeOf(() => openSetEntry(crypto, 'announcements', other, signAnnounce(), NOW_MS))).toBe('RECORD_KEY_MISMATCH')
  })

  it('[DS-20] takes a prune of the curator under its space', () => {
    expect(openSetEntry(crypto, 'prunes', spaceId, prune, NOW_MS)).toMatchObject({ set: 'prunes' })
    expect(codeOf(() => openSetEntry(crypto, 'prunes', under(''), prune, NOW_MS))).toBe('RECORD_KEY_MISMATCH')
  })

  it('[G-28] refuses a record of another kind in each set', () => {
    const records = { members: child, announcements: signJoin(), children: signJoin(), prunes: child, poms: child, relays: child }
    for (const set of REGISTRY_SETS) expect(codeOf(() => openSetEntry(crypto, set, spaceId, records[set], NOW_MS))).toBe('RECORD_KIND')
  })

  it('takes a relay under the one key of all relays, and of two records of one node the later', () => {
    const relay: CircuitRelay = { node: alice.publicKey, addrs: ['/ip4/192.0.2.7/udp/4001/quic-v1'], ts: NOW_SEC - 10, exp: NOW_SEC + 600 }
    const key = circuitRelaysKey(crypto)
    const sign = (payload: CircuitRelay) =>
      openSetEntry(crypto, 'relays', key, buildRecord(crypto, circuitRelayType, payload, alice).bytes, NOW_MS)
    const [held, later] = [sign(relay), sign({ ...relay, ts: NOW_SEC - 9 })]
    expect(selectSetEntry(held, later)).toMatchObject({ winner: 'offered' })
    expect(selectSetEntry(later, held)).toMatchObject({ winner: 'held' })
    expect(selectSetEntry(held, sign({ ...relay, addrs: [] }))).toEqual({ winner: 'held', reason: 'older' })
    expect(selectSetEntry(held, sign({ ...circuitRelayTombstone(relay, NOW_SEC), addrs: [] }))).toMatchObject({ winner: 'offered' })
    expect(codeOf(() => openSetEntry(crypto, 'relays', spaceId, held.record.bytes, NOW_MS))).toBe('RECORD_KEY_MISMATCH')
  })

  it('[F031] orders the entries of one place as the DHT does', () => {
    const [old, now] = [signJoin({ seq: NOW_MS - 1 }), signJoin()].map((bytes) => openSetEntry(crypto, 'members', spaceId, bytes, NOW_MS))
    if (old === undefined || now === undefined) throw new Error('two entries')
    expect(selectSetEntry(old, now).winner).toBe('offered')
    expect(selectSetEntry(now, old).winner).toBe('held')
    const pruned = openSetEntry(crypto, 'prunes', spaceId, prune, NOW_MS)
    expect(selectSetEntry(pruned, pruned)).toEqual({ winner: 'held', reason: 'same' })
    expect(() => selectSetEntry(now, pruned)).toThrow(TypeError)
  })
})

it('[ESE-10] keeps a global point at the coordinate of its EID and tag, and takes it back by tombstone', () => {
  const gp = { eid: alice.publicKey, tag: 'battery-7', access: 'open', gen: NOW_MS, ts: NOW_SEC, exp: NOW_SEC + 3_600 }
  const key = gpKey(gpCoordinate(crypto, alice.publicKey, 'battery-7'))
  const record = buildRecord(crypto, gpType, gp, alice)
  expect(validateDhtValue(crypto, key, record.bytes, NOW_MS).payload).toEqual(gp)
  const elsewhere = gpKey(gpCoordinate(crypto, alice.publicKey, 'battery-8'))
  expect(codeOf(() => validateDhtValue(crypto, elsewhere, record.bytes, NOW_MS))).toBe('RECORD_KEY_MISMATCH')
  const tombstone = buildRecord(crypto, gpType, gpTombstone(gp, { gen: NOW_MS + 1, nowSec: NOW_SEC }), alice)
  expect(selectDhtValue(key, record.bytes, tombstone.bytes).winner).toBe('offered')
  expect(selectDhtValue(key, tombstone.bytes, record.bytes).winner).toBe('held')
})

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { fromHex, toHex } from '../bytes.ts'
import { encodeCbor } from '../cbor.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { REACHABILITY_MODES } from '../delivery/modes.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import { ANNOUNCE_TTL_SEC, type Announce, announceTombstone, announceType, POLICY_OPEN } from '../records/announce.ts'
import { buildRecord } from '../records/envelope.ts'
import { JOIN_TTL_SEC, joinType } from '../records/join.ts'
import { Admission, difficultyAt, REQUEST_WINDOW_MS } from './admission.ts'
import { decodeAnswer, encodeAnswer, memberContent, verifyAnswer, verifySpaceAnswer } from './answer.ts'
import { type Criteria, decodeCriteria, encodeCriteria, meetsCriteria } from './criteria.ts'
import { dsId } from './names.ts'
import { Allowance, membersOfEach, roleOf, stemCandidates } from './relay.ts'
import { ReplaySet } from './replay-set.ts'
import { buildRequest, type DiscoveryRequest, decodeRequestHeader, encodeRequestHeader, withHops, withNonce } from './request.ts'
import { decodeResponseHead, encodeRejection, encodeResponse, REJECT_REASONS, type RejectReason } from './response.ts'
import { ITEM_BYTES, ITEM_CONTENT_BYTES_MAX, openItem, sealItem } from './sealed-item.ts'
import { requestSeed, type WorkSeed } from './work.ts'

interface Vector {
  id: string
  note: string
  req: string[]
  hex: string
  error?: string
}
interface RequestVector extends Vector {
  nowMs: number
  difficulty: number
  criteria: string
  judged: string
  seed?: string
  decoded?: Record<string, unknown>
  wanted?: Criteria
}
interface ItemVector extends Vector {
  nowMs: number
  secret: string
  ephemeral: string
  seed: string
  target: string
  plaintext?: string
  answer?: { kind: string; eid: string; join: boolean; gp: boolean; locator: boolean }
}

const rows = <T extends Vector>(name: string): [string, T][] =>
  (JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), 'utf8')) as T[]).map((row) => [
    `${row.req.map((id) => `[${id}]`).join(' ')} ${row.id}: ${row.note}`,
    row
  ])
const shown = (value: object) =>
  Object.fromEntries(Object.entries(value).map(([name, member]) => [name, member instanceof Uint8Array ? toHex(member) : member]))

const signerOf = (fill: number) => {
  const seed = new Uint8Array(32).fill(fill)
  return { publicKey: nodeCrypto.ed25519.publicKey(seed), sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
}

async function codeOf(run: () => unknown): Promise<string | undefined> {
  try {
    await run()
    return undefined
  } catch (error) {
    if (error instanceof ProtocolError) return error.code
    throw error
  }
}

/** An Admission whose queue is as full as it takes to ask for so many bits. */
function asking(difficulty: number): Admission {
  const admission = new Admission({ capacity: 16 })
  for (let i = 0; difficultyAt(i, 16) < difficulty; i++) {
    const header = new Uint8Array(120)
    header[8] = i
    expect(admission.enter(header, 0).kind).toBe('entered')
  }
  return admission
}

describe('requests', () => {
  it.each(rows<RequestVector>('discovery-req'))('%s', async (_title, row) => {
    const header = fromHex(row.hex)
    const judgement = asking(row.difficulty).judge(header, row.nowMs)
    expect(judgement.kind === 'faulty' ? judgement.fault.code : judgement.kind === 'wanting' ? judgement.reason : 'sound').toBe(row.judged)
    if (judgement.kind === 'faulty') expect(await codeOf(() => decodeRequestHeader(header))).toBe(row.judged)
    if (row.decoded === undefined) return
    const decoded = decodeRequestHeader(header)
    expect(shown(decoded)).toEqual(row.decoded)
    expect(toHex(encodeRequestHeader(decoded))).toBe(row.hex)
    expect(toHex(requestSeed(header))).toBe(row.seed)
    expect(decodeCriteria(fromHex(row.criteria))).toEqual(row.wanted)
    expect(toHex(encodeCriteria(row.wanted as Criteria))).toBe(row.criteria)
    const built = buildRequest(nodeCrypto, decoded, row.wanted as Criteria)
    expect(toHex(withHops(withNonce(built.header, decoded.nonce), decoded.hops))).toBe(row.hex)
  })

  it('[AD-02] gives back every header it encoded, and meets arbitrary ones with a request or a ProtocolError', () => {
    const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
    const arbRequest: fc.Arbitrary<DiscoveryRequest> = fc
      .record({
        flags: fc.integer({ min: 1, max: 3 }),
        difficulty: fc.integer({ min: 16, max: 32 }),
        hops: fc.nat(3),
        fanOut: fc.integer({ min: 1, max: 16 }),
        criteriaBytes: fc.integer({ min: 1, max: 512 }),
        target: bytes(32),
        ephemeral: bytes(32),
        timestampMs: fc.maxSafeNat(),
        criteriaHash: bytes(32),
        nonce: bytes(8)
      })
      .map(({ flags, ...rest }) => ({ records: (flags & 1) !== 0, contact: (flags & 2) !== 0, ...rest }))
    fc.assert(
      fc.property(arbRequest, (request) => {
        expect(decodeRequestHeader(encodeRequestHeader(request))).toEqual(request)
      })
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 130 }), (header) => {
        try {
          decodeRequestHeader(header)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      })
    )
  })

  it('[DS-15] [G-27] matches on all tags, the mode and the reputation that the judging node knows', () => {
    const member = { tags: ['solar', 'de-by'], mode: 'always_on', reputation: 50 } as const
    expect(meetsCriteria(member, {})).toBe(true)
    expect(meetsCriteria(member, { tags: ['de-by', 'solar'], mode: 'always_on', minReputation: 50 })).toBe(true)
    expect(meetsCriteria(member, { tags: ['solar', 'wind'] })).toBe(false)
    expect(meetsCriteria(member, { mode: 'sleep' })).toBe(false)
    expect(meetsCriteria(member, { minReputation: 51 })).toBe(false)
  })

  it('[G-27] gives back all criteria, and refuses those with an unknown member, an unknown mode, seventeen tags or 513 bytes', async () => {
    const arbCriteria = fc.record(
      {
        tags: fc.array(fc.stringMatching(/^[a-z0-9-]{1,16}$/), { minLength: 1, maxLength: 16 }),
        mode: fc.constantFrom(...REACHABILITY_MODES),
        minReputation: fc.nat(100)
      },
      { requiredKeys: [] }
    )
    fc.assert(
      fc.property(arbCriteria, (criteria) => {
        expect(decodeCriteria(encodeCriteria(criteria))).toEqual(criteria)
      })
    )
    expect(await codeOf(() => decodeCriteria(encodeCbor({ colour: 'red' })))).toBe('FIELD_UNKNOWN')
    expect(await codeOf(() => decodeCriteria(encodeCbor({ mode: 'often' })))).toBe('FIELD_INVALID')
    expect(await codeOf(() => decodeCriteria(encodeCbor({ minReputation: 101 })))).toBe('FIELD_INVALID')
    expect(await codeOf(() => decodeCriteria(encodeCbor({ tags: Array.from({ length: 17 }, (_, i) => `t${i}`) })))).toBe('FIELD_INVALID')
    expect(await codeOf(() => decodeCriteria(new Uint8Array(513)))).toBe('TOO_LARGE')
    expect(await codeOf(() => encodeCriteria({ tags: Array.from({ length: 16 }, (_, i) => `${i}`.padEnd(40, 'x')) }))).toBe('TOO_LARGE')
  })
})

describe('answers', () => {
  it.each(rows<Vector & { decoded?: object }>('discovery-res'))('%s', async (_title, row) => {
    if (row.error !== undefined) return expect(await codeOf(() => decodeResponseHead(fromHex(row.hex)))).toBe(row.error)
    const head = decodeResponseHead(fromHex(row.hex))
    expect(head).toEqual(row.decoded)
    if (head.type === 'rej') expect(toHex(encodeRejection(head))).toBe(row.hex)
    else expect(toHex(encodeResponse(Array.from({ length: head.count }, () => new Uint8Array(ITEM_BYTES))).subarray(0, 4))).toBe(row.hex)
  })

  it('[G-37] refuses to send no items, 33, or one of another size, and says REJ by a type of its own with every reason', () => {
    const item = new Uint8Array(ITEM_BYTES)
    expect(() => encodeResponse([])).toThrow(RangeError)
    expect(() => encodeResponse(Array.from({ length: 33 }, () => item))).toThrow(RangeError)
    expect(() => encodeResponse([item, item.subarray(1)])).toThrow(RangeError)
    expect(encodeRejection({ difficulty: 16, reason: 'work' })[1]).toBe(0xf0)
    for (const reason of Object.keys(REJECT_REASONS) as RejectReason[]) {
      expect(decodeResponseHead(encodeRejection({ difficulty: 20, reason }))).toEqual({ type: 'rej', difficulty: 20, reason })
    }
  })

  it('[G-37] takes no type but its own: every number that the draft or others use for something else is refused by name', async () => {
    const [, request] = rows<RequestVector>('discovery-req')[0] as [string, RequestVector]
    for (let type = 0; type < 256; type++) {
      const code = await codeOf(() => decodeResponseHead(Uint8Array.of(1, type, 0, 1)))
      if (type === 0x02) expect(code).toBeUndefined()
      else expect(code).toBe(type === 0xf0 ? 'RANGE' : 'FRAME_TYPE')
      const header = fromHex(request.hex)
      header[1] = type
      if (type !== 0x01) expect(await codeOf(() => decodeRequestHeader(header))).toBe('FRAME_TYPE')
    }
  })

  describe.each([
    ['node', nodeCrypto],
    ['noble', nobleCrypto]
  ])('opened with %s', (_, crypto) => {
    it.each(rows<ItemVector>('discovery-item'))('%s', async (_title, row) => {
      const seed = fromHex(row.seed) as WorkSeed
      const open = async () => {
        const content = await openItem(crypto, { seed, secret: fromHex(row.secret), item: fromHex(row.hex) })
        return { content, answer: verifyAnswer(crypto, decodeAnswer(content), { seed, target: fromHex(row.target), nowMs: row.nowMs }) }
      }
      expect(row.hex.length).toBe(2 * ITEM_BYTES)
      if (row.error !== undefined) return expect(await codeOf(open)).toBe(row.error)
      const { content, answer } = await open()
      const { kind, eid, join, gp, locator } = answer
      expect({ kind, eid: toHex(eid), join: join !== undefined, gp: gp !== undefined, locator: locator !== undefined }).toEqual(row.answer)
      expect(toHex(encodeAnswer(decodeAnswer(content)))).toBe(toHex(content))
      const recipient = crypto.x25519.publicKey(fromHex(row.secret))
      expect(toHex(await sealItem(crypto, { seed, recipient, ephemeralSecret: fromHex(row.ephemeral), content }))).toBe(row.hex)
    })
  })

  it('[AD-05] [G-35] [D-06] opens with the secret of its request alone, and is of one size whatever it says', async () => {
    const secret = new Uint8Array(32).fill(5)
    const seed = new Uint8Array(32).fill(6) as WorkSeed
    const recipient = nodeCrypto.x25519.publicKey(secret)
    for (const length of [0, 1, 700, ITEM_CONTENT_BYTES_MAX]) {
      const content = new Uint8Array(length).fill(7)
      const item = await sealItem(nodeCrypto, { seed, recipient, ephemeralSecret: new Uint8Array(32).fill(8), content })
      expect(item.length).toBe(3_072)
      expect(await openItem(nodeCrypto, { seed, secret, item })).toEqual(content)
      expect(await codeOf(() => openItem(nodeCrypto, { seed, secret: new Uint8Array(32).fill(4), item }))).toBe('AEAD_OPEN')
      item[100] = 1 ^ (item[100] as number)
      expect(await codeOf(() => openItem(nodeCrypto, { seed, secret, item }))).toBe('AEAD_OPEN')
    }
    const tooLong = { seed, recipient, ephemeralSecret: secret, content: new Uint8Array(ITEM_CONTENT_BYTES_MAX + 1) }
    expect(await codeOf(() => sealItem(nodeCrypto, tooLong))).toBe('TOO_LARGE')
    const lowOrder = { seed, recipient: new Uint8Array(32), ephemeralSecret: secret, content: new Uint8Array(1) }
    expect(await codeOf(() => sealItem(nodeCrypto, lowOrder))).toBe('KEY_INVALID')
  })

  it('[AD-06] [G-35] [D-07] signs for one request: the same answer does not verify under another seed', async () => {
    const signer = signerOf(1)
    const seed = new Uint8Array(32).fill(6) as WorkSeed
    const content = decodeAnswer(memberContent(signer, seed, {}))
    const at = { target: new Uint8Array(32), nowMs: 0 }
    expect(toHex(verifyAnswer(nodeCrypto, content, { seed, ...at }).eid)).toBe(toHex(signer.publicKey))
    const other = new Uint8Array(32).fill(7) as WorkSeed
    expect(await codeOf(() => verifyAnswer(nodeCrypto, content, { seed: other, ...at }))).toBe('SIGNATURE_INVALID')
  })
})

describe('what a registrar may say of a space', () => {
  const curator = signerOf(1)
  const nowMs = 1_800_000_000_000
  const name = { ns: 'org.agentnet', topic: 'energy', version: 1 }
  const target = dsId(nodeCrypto, name)
  const ts = nowMs / 1_000
  const payload: Announce = {
    ns: name.ns,
    topic: name.topic,
    ver: 1,
    desc: '',
    curator: eid(curator.publicKey),
    seeds: [],
    policy: POLICY_OPEN,
    shards: 4,
    seq: nowMs,
    ts,
    exp: ts + ANNOUNCE_TTL_SEC
  }
  const announce = buildRecord(nodeCrypto, announceType, payload, curator)

  it('[AD-01] [DS-15] is its announcement, alone in an answer and of the very space that was asked for', async () => {
    const content = encodeAnswer({ announce: announce.bytes })
    expect(content.length).toBeLessThanOrEqual(ITEM_CONTENT_BYTES_MAX)
    const said = decodeAnswer(content)
    expect(verifySpaceAnswer(nodeCrypto, said.announce as Uint8Array, { target, nowMs }).payload.shards).toBe(4)
    expect(await codeOf(() => verifySpaceAnswer(nodeCrypto, announce.bytes, { target: new Uint8Array(32), nowMs }))).toBe(
      'RECORD_KEY_MISMATCH'
    )
    const late = nowMs + ANNOUNCE_TTL_SEC * 1_000
    expect(await codeOf(() => verifySpaceAnswer(nodeCrypto, announce.bytes, { target, nowMs: late }))).toBe('RECORD_EXPIRED')
    const withdrawn = buildRecord(nodeCrypto, announceType, announceTombstone(payload, { seq: nowMs + 1, nowSec: ts }), curator)
    expect(await codeOf(() => verifySpaceAnswer(nodeCrypto, withdrawn.bytes, { target, nowMs }))).toBe('RECORD_EXPIRED')
    const crowded = encodeAnswer({ announce: announce.bytes, join: Uint8Array.of(1) })
    expect(await codeOf(() => decodeAnswer(crowded))).toBe('FIELD_UNKNOWN')
  })

  it('[G-27] is no member that is unlisted: such a one answers itself', async () => {
    const member = signerOf(2)
    const seed = new Uint8Array(32).fill(6) as WorkSeed
    const join = (unlisted: { unlisted?: true }) =>
      buildRecord(
        nodeCrypto,
        joinType,
        {
          dsid: target,
          eid: eid(member.publicKey),
          curator: payload.curator,
          tags: [],
          mode: 'always_on',
          seq: nowMs,
          ts,
          exp: ts + JOIN_TTL_SEC,
          ...unlisted
        },
        member
      ).bytes
    const judge = (content: Uint8Array) => verifyAnswer(nodeCrypto, decodeAnswer(content), { seed, target, nowMs })
    expect(judge(encodeAnswer({ join: join({}) })).kind).toBe('record')
    expect(await codeOf(() => judge(encodeAnswer({ join: join({ unlisted: true }) })))).toBe('FIELD_INVALID')
    expect(judge(memberContent(member, seed, { join: join({ unlisted: true }) })).kind).toBe('member')
  })
})

describe('admission', () => {
  const sound = rows<RequestVector>('discovery-req').find(([, row]) => row.id === 'request')?.[1] as RequestVector
  const header = fromHex(sound.hex)

  it('[AD-02] [G-30] [D-04] asks for one bit more with every sixteenth of the queue, 32 when it is full', () => {
    expect([0, 15, 16, 31, 128, 240, 256].map((queued) => difficultyAt(queued, 256))).toEqual([16, 16, 17, 17, 24, 31, 32])
    const admission = new Admission({ capacity: 2 })
    admission.enter(header, sound.nowMs)
    expect(admission.difficulty).toBe(24)
    expect(admission.judge(header, sound.nowMs)).toEqual({ kind: 'wanting', reason: 'work' })
    admission.leave()
    expect(admission.difficulty).toBe(16)
  })

  it('[AD-03] [G-31] leaves no trace of what it judges, sound or not', () => {
    const admission = new Admission()
    for (const [, row] of rows<RequestVector>('discovery-req')) admission.judge(fromHex(row.hex), row.nowMs)
    expect([admission.queued, admission.remembered]).toEqual([0, 0])
  })

  it('[AD-02] [G-30] [D-05] takes a token once for each role until its time is over, and a node may play three roles', () => {
    const admission = new Admission()
    const { nowMs } = sound
    for (const hops of [3, 2, 1, 0]) expect(admission.enter(withHops(header, hops), nowMs).kind).toBe('entered')
    for (const hops of [3, 2, 1, 0]) expect(admission.enter(withHops(header, hops), nowMs + REQUEST_WINDOW_MS).kind).toBe('known')
    expect([admission.queued, admission.remembered]).toEqual([4, 4])
    // no longer remembered when the clock would refuse it anyway
    expect(admission.enter(header, nowMs + REQUEST_WINDOW_MS + 1_000).kind).toBe('entered')
    expect(admission.judge(header, nowMs + REQUEST_WINDOW_MS + 1_000)).toEqual({ kind: 'wanting', reason: 'clock' })
    expect(admission.remembered).toBe(1)
  })

  it('[G-30] refuses new tokens when it can remember no more, and forgets none for them', () => {
    const set = new ReplaySet(2)
    const at = { nowMs: 1_000, untilMs: 5_000 }
    expect([set.enter('a', at), set.enter('b', at), set.enter('c', at), set.enter('a', at)]).toEqual([
      'entered',
      'entered',
      'full',
      'known'
    ])
    expect(set.enter('c', { nowMs: 5_000, untilMs: 9_000 })).toBe('full')
    expect(set.enter('c', { nowMs: 6_000, untilMs: 9_000 })).toBe('entered')
    expect(set.size).toBe(1)
    const admission = new Admission({ replaysMax: 1 })
    expect(admission.enter(header, sound.nowMs).kind).toBe('entered')
    expect(admission.enter(withHops(header, 2), sound.nowMs).kind).toBe('full')
    expect(admission.queued).toBe(1)
  })

  it('refuses what comes when the queue is full, whatever work it has, and remembers nothing of it', () => {
    const admission = new Admission({ capacity: 1 })
    admission.enter(header, sound.nowMs)
    expect(admission.enter(withHops(header, 2), sound.nowMs).kind).toBe('full')
    expect(admission.remembered).toBe(1)
  })
})

describe('relays', () => {
  it('[G-34] knows its role by the hops left, and sends to at most 18 members in all', () => {
    expect([3, 2, 1, 0].map(roleOf)).toEqual(['stem', 'deliver', 'registrar', 'member'])
    expect(() => roleOf(4)).toThrow(RangeError)
    expect([1, 3, 4, 6, 16].map(membersOfEach)).toEqual([1, 1, 2, 2, 6])
  })

  it('[G-34] passes back 32 items and one REJ, and no more', () => {
    const allowance = new Allowance()
    expect(Array.from({ length: 40 }, () => allowance.takeItem()).filter(Boolean)).toHaveLength(32)
    expect([allowance.takeRejection(), allowance.takeRejection()]).toEqual([true, false])
    expect(allowance.items).toBe(0)
  })

  it('[AD-01] [G-33] takes for the stem whoever is no registrar of the target, any peer in a small network, nobody where there is nobody', () => {
    const registrars = new Set(['b', 'c'])
    expect(stemCandidates(['a', 'b', 'c', 'd'], registrars)).toEqual({ peers: ['a', 'd'], path: 'stem' })
    expect(stemCandidates(['a', 'b', 'c', 'd'], registrars, new Set(['a']))).toEqual({ peers: ['d'], path: 'stem' })
    expect(stemCandidates(['b', 'c'], registrars, new Set(['b']))).toEqual({ peers: ['c'], path: 'small' })
    expect(stemCandidates(['b'], registrars, new Set(['b']))).toBeUndefined()
  })
})

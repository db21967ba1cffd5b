import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto as crypto } from '../../src/crypto/node-crypto.ts'
import { alice, arbDotted, bob } from '../../test/unit/record-arbitraries.ts'
import { fromHex, toHex } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { eid } from '../identity/eid.ts'
import { announceKey, gpKey, joinKey, locatorKey, mailKey, parseDhtKey } from './dht-key.ts'
import {
  type DsId,
  dsId,
  formatSpaceName,
  type GpCoordinate,
  gpCoordinate,
  isTopicWithin,
  memberKey,
  parseSpaceName,
  parseSpaceQuery,
  prefixId,
  prefixIds,
  shardIndex,
  shardKey,
  shardKeys,
  spaceName,
  topicPrefixes
} from './names.ts'

interface Vector {
  id: string
  req: string
  note: string
  error?: string
  text?: string
  decoded?: { ns: string; topic: string; version: number; dsid: string; prefixes: Record<string, string>; pin?: string }
  field?: string | null
  names?: string
  eid?: string
  tag?: string
  coordinate?: string
  dsid?: string
  shards?: number
  index?: number
  key?: string
  namespace?: string
  parts?: Record<string, string>
}

const vectors: Vector[] = JSON.parse(readFileSync(new URL('../vectors/names.json', import.meta.url), 'utf8'))
const hexOf = (value: unknown) => (value instanceof Uint8Array ? toHex(value) : value)

function refusal(run: () => unknown): ProtocolError {
  try {
    run()
  } catch (error) {
    if (error instanceof ProtocolError) return error
    throw error
  }
  throw new Error('was accepted')
}

describe('vectors', () => {
  for (const vector of vectors) {
    it(`[${vector.req}] ${vector.error === undefined ? 'agrees with' : `refuses as ${vector.error}`} ${vector.id}: ${vector.note}`, () => {
      if (vector.text !== undefined && vector.decoded !== undefined) {
        const name = parseSpaceName(vector.text)
        const prefixes = Object.fromEntries(topicPrefixes(name.topic).map((prefix) => [prefix, toHex(prefixId(crypto, name.ns, prefix))]))
        const read = {
          ...Object.fromEntries(Object.entries(name).map(([k, v]) => [k, hexOf(v)])),
          dsid: toHex(dsId(crypto, name)),
          prefixes
        }
        expect(read).toEqual(vector.decoded)
        expect(formatSpaceName(name)).toBe(vector.text)
        expect(prefixIds(crypto, name).map(toHex)).toEqual(Object.values(vector.decoded.prefixes))
      } else if (vector.text !== undefined) {
        const error = refusal(() => parseSpaceName(vector.text as string))
        expect(error.code).toBe(vector.error)
        expect(error.message).toContain(vector.names)
        expect(error.message.length).toBeLessThan(220)
        if (vector.field !== null) expect(error.field).toBe(vector.field)
      } else if (vector.tag !== undefined) {
        const coordinate = () => gpCoordinate(crypto, eid(fromHex(vector.eid as string)), vector.tag as string)
        if (vector.error === undefined) expect(toHex(coordinate())).toBe(vector.coordinate)
        else expect(refusal(coordinate).code).toBe(vector.error)
      } else if (vector.shards !== undefined) {
        const [id, member] = [fromHex(vector.dsid as string) as DsId, eid(fromHex(vector.eid as string))]
        expect(shardIndex(crypto, member, vector.shards)).toBe(vector.index)
        expect(toHex(memberKey(crypto, id, member, vector.shards))).toBe(vector.key)
        expect(shardKeys(crypto, id, vector.shards).map(toHex)).toContain(vector.key)
      } else if (vector.error !== undefined) {
        expect(refusal(() => parseDhtKey(fromHex(vector.key as string))).code).toBe(vector.error)
      } else {
        const { namespace, ...parts } = parseDhtKey(fromHex(vector.key as string))
        expect(namespace).toBe(vector.namespace)
        expect(Object.fromEntries(Object.entries(parts).map(([k, v]) => [k, hexOf(v)]))).toEqual(vector.parts)
      }
    })
  }
})

describe('names', () => {
  it('[DS-02] have one text, and come back from it', () => {
    const arbVersion = fc.integer({ min: 1, max: 0xffffffff })
    fc.assert(
      fc.property(arbDotted, arbDotted, arbVersion, fc.constantFrom(undefined, alice.publicKey), (ns, topic, version, pin) => {
        const name = spaceName({ ns, topic, version, ...(pin === undefined ? {} : { pin }) })
        expect(parseSpaceName(formatSpaceName(name))).toEqual(name)
      })
    )
  })

  it('[G-20] have different DS_IDs unless all three words are equal', () => {
    const arbName = fc.record({ ns: arbDotted, topic: arbDotted, version: fc.integer({ min: 1, max: 200 }) })
    fc.assert(
      fc.property(arbName, arbName, (a, b) => {
        const equal = a.ns === b.ns && a.topic === b.topic && a.version === b.version
        expect(toHex(dsId(crypto, a)) === toHex(dsId(crypto, b))).toBe(equal)
      })
    )
  })

  it('[DS-03] meet any text with a name or a ProtocolError, nothing else, and a text read is the text written', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[a-z.]{1,9}\/[a-z.:@#-]{1,9}@[0-9]{1,11}$/)), (text) => {
        try {
          expect(formatSpaceName(parseSpaceQuery(text))).toBe(text)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      })
    )
  })

  it('[DS-22] read a topic without a version as a query for it and its children', () => {
    const query = parseSpaceQuery('org.agentnet/marketplace')
    expect(query).toEqual({ ns: 'org.agentnet', topic: 'marketplace' })
    expect(query.version).toBeUndefined()
    expect(formatSpaceName(query)).toBe('org.agentnet/marketplace')
    expect(refusal(() => parseSpaceQuery('org.agentnet/')).code).toBe('NAME_INVALID')
  })

  it('[G-21] carry the pinned curator beside the name, outside DS_ID', () => {
    const text = `org/a@1#${'did:key:z6MkqGC3nWZhYieEVTVDKW5v588CiGfsDSmRVG9ZwwWTvLSK'}`
    const pinned = parseSpaceName(text)
    expect(formatSpaceName(pinned)).toBe(text)
    expect(toHex(dsId(crypto, pinned))).toBe(toHex(dsId(crypto, parseSpaceName('org/a@1'))))
  })
})

describe('the hierarchy of topics', () => {
  it('[DS-21] goes by whole labels: market holds no part of marketplace', () => {
    expect(isTopicWithin('marketplace.energy.trading', 'marketplace.energy')).toBe(true)
    expect(isTopicWithin('marketplace', 'marketplace')).toBe(true)
    expect(isTopicWithin('marketplace', 'market')).toBe(false)
    expect(isTopicWithin('marketplace.energy', 'marketplace.energy.trading')).toBe(false)
    expect(isTopicWithin('anything.at.all', '')).toBe(true)
  })

  it('[DS-22] lists a topic under itself, every ancestor and the empty prefix', () => {
    expect(topicPrefixes('a.b.c')).toEqual(['', 'a', 'a.b', 'a.b.c'])
    expect(topicPrefixes('a.b.c.d.e.f.g.h')).toHaveLength(9)
  })

  it('[G-25] holds a topic below a parent exactly when the parent is among its prefixes', () => {
    const arbTopic = fc.array(fc.constantFrom('a', 'ab', 'b'), { minLength: 1, maxLength: 5 }).map((labels) => labels.join('.'))
    fc.assert(
      fc.property(arbTopic, arbTopic, (topic, parent) => {
        expect(topicPrefixes(topic).includes(parent)).toBe(isTopicWithin(topic, parent))
        const ids = prefixIds(crypto, { ns: 'org', topic }).map(toHex)
        expect(ids.includes(toHex(prefixId(crypto, 'org', parent)))).toBe(isTopicWithin(topic, parent))
      })
    )
  })

  it('[G-26] does not nest namespaces', () => {
    const ids = prefixIds(crypto, { ns: 'org.agentnet', topic: 'market' }).map(toHex)
    expect(ids).not.toContain(toHex(prefixId(crypto, 'org', 'market')))
    expect(ids).not.toContain(toHex(prefixId(crypto, 'org', '')))
  })
})

describe('keys', () => {
  it('[DS-13] are taken apart into what they were made of', () => {
    const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 })
    fc.assert(
      fc.property(bytes32, bytes32, (a, b) => {
        const [id, who] = [a as DsId, eid(b)]
        expect(parseDhtKey(locatorKey(who))).toEqual({ namespace: 'eid', eid: who })
        expect(parseDhtKey(announceKey(id))).toEqual({ namespace: 'ds', dsid: id })
        expect(parseDhtKey(joinKey(id, who))).toEqual({ namespace: 'dsj', dsid: id, eid: who })
        expect(parseDhtKey(mailKey(who))).toEqual({ namespace: 'mail', eid: who })
        expect(parseDhtKey(gpKey(a as Uint8Array as GpCoordinate))).toEqual({ namespace: 'gp', coordinate: a })
      })
    )
  })

  it('[F032] meet arbitrary bytes with parts or a ProtocolError, nothing else', () => {
    fc.assert(
      fc.property(fc.constantFrom('', '/eid/', '/ds/', '/dsj/', '/gp/', '/mail/'), fc.uint8Array({ maxLength: 80 }), (prefix, rest) => {
        const key = Uint8Array.of(...new TextEncoder().encode(prefix), ...rest)
        try {
          parseDhtKey(key)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      })
    )
  })

  it('[G-24] spread members over exactly the parts that an announcement names', () => {
    const id = dsId(crypto, { ns: 'org', topic: 'a', version: 1 })
    expect(shardKeys(crypto, id, 1).map(toHex)).toEqual([toHex(id)])
    expect(new Set(shardKeys(crypto, id, 256).map(toHex)).size).toBe(256)
    for (const who of [alice.publicKey, bob.publicKey])
      expect(shardKeys(crypto, id, 7).map(toHex)).toContain(toHex(memberKey(crypto, id, who, 7)))
    expect(() => shardIndex(crypto, alice.publicKey, 257)).toThrow(RangeError)
    expect(() => shardKey(crypto, id, 4, 4)).toThrow(RangeError)
  })
})

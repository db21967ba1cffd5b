import { describe, expect, it } from 'vitest'
import { utf8 } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ENTRIES_MAX, EntryUnion } from '../../src/spaces/entry-union.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { ENERGY_ID, joinRecord } from './fakes/fake-records.ts'

const NOW_MS = 1_767_225_600_000
const alice = fakeAgent('alice')
const bob = fakeAgent('bob')

describe('the union of what registrars serve', () => {
  it('takes an honest entry however much one that lies has served before: it can hide its own, not crowd out others', () => {
    const union = new EntryUnion(nodeCrypto, { set: 'members', key: ENERGY_ID }, NOW_MS)
    for (let i = 0; i <= 2 * ENTRIES_MAX; i++) expect(union.add(utf8(`rubbish ${i}`), 'liar').taken).toBe('refused')
    const record = joinRecord(bob, alice.eid, NOW_MS)
    expect(union.add(record, 'honest').taken).toBe('taken')
    expect(union.add(record, 'honest too').taken).toBe('taken')
    expect(union.winners().map(({ servedBy }) => servedBy)).toEqual([['honest', 'honest too']])
  })

  it('lets no registrar that serves any number of its own valid entries crowd out those of another', () => {
    const union = new EntryUnion(nodeCrypto, { set: 'members', key: ENERGY_ID }, NOW_MS, undefined, 20)
    const made = (name: string) => joinRecord(fakeAgent(name), alice.eid, NOW_MS)
    for (let i = 0; i < 30; i++) expect(union.add(made(`sybil ${i}`), 'liar').taken).toBe('taken')
    const honest = Array.from({ length: 8 }, (_, i) => made(`honest ${i}`))
    for (const registrar of ['one', 'two']) for (const record of honest) union.add(record, registrar)
    const winners = union.winners()
    expect(winners).toHaveLength(20)
    expect(winners.filter(({ servedBy }) => servedBy.length === 2)).toHaveLength(8)
  })

  it('calls refused what no honest registrar keeps, and excuses what clocks and knowledge explain', () => {
    const refuses = (who: unknown) => who !== undefined
    const evidence = { refusesJoins: refuses, onTicket() {}, onMember() {}, onEquivocation() {} }
    const union = new EntryUnion(nodeCrypto, { set: 'members', key: ENERGY_ID, tags: ['solar'] }, NOW_MS, evidence)
    const at = (ms: number, more: object = {}) => union.add(joinRecord(bob, alice.eid, ms, { tags: ['solar'], ...more }), 'r').taken
    expect(at(NOW_MS - 3_600_000 - 60_000)).toBe('excused')
    expect(at(NOW_MS - 3_600_000 - 180_000)).toBe('refused')
    expect(at(NOW_MS + 180_000)).toBe('excused')
    expect(at(NOW_MS + 300_000)).toBe('refused')
    expect(at(NOW_MS)).toBe('excused')
    const trusting = new EntryUnion(nodeCrypto, { set: 'members', key: ENERGY_ID, tags: ['solar'] }, NOW_MS)
    expect(trusting.add(joinRecord(bob, alice.eid, NOW_MS, { tags: ['wind'] }), 'r').taken).toBe('refused')
  })
})

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
    for (let i = 0; i <= 2 * ENTRIES_MAX; i++) expect(union.add(utf8(`rubbish ${i}`), 'liar')).toBe('refused')
    const record = joinRecord(bob, alice.eid, NOW_MS)
    expect(union.add(record, 'honest')).toBe('taken')
    expect(union.add(record, 'honest too')).toBe('taken')
    expect(union.winners().map(({ servedBy }) => servedBy)).toEqual([['honest', 'honest too']])
  })
})

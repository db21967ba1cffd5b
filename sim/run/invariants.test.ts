import { describe, expect, it } from 'vitest'
import { INVARIANTS } from '../scenario/definition.ts'
import type { Fact } from './facts.ts'
import { Invariants } from './invariants.ts'

const point = (node: number, seq: number, hash: string): Fact => ({ fact: 'chain', node, chain: 's a', seq: String(seq), hash })

function judged(facts: readonly Fact[], settings: ConstructorParameters<typeof Invariants>[0] = {}) {
  const invariants = new Invariants(settings)
  for (const fact of facts) invariants.see(fact, 1)
  invariants.end(2)
  const verdict = (name: string) => invariants.verdicts().find(({ invariant }) => invariant === name)
  return { invariants, broken: invariants.brokenNames(), verdict }
}

describe('the judge of rolling hashes', () => {
  it('compares what both ends of a session hold after one transaction, whichever speaks first', () => {
    const { broken, verdict } = judged([point(1, 1, 'aa'), point(1, 2, 'bb'), point(2, 2, 'bb'), point(2, 1, 'aa')])
    expect(broken).toEqual([])
    expect(verdict('hashes-agree')).toMatchObject({ state: 'holds', judged: 2 })
  })

  it('breaks where they part, naming the transaction, and both hashes', () => {
    const { invariants, broken } = judged([point(1, 7, 'aa'), point(2, 7, 'bb')])
    expect(broken).toEqual(['hashes-agree'])
    expect(invariants.broken[0]).toMatchObject({ node: 2, message: 'after transaction 7 it holds bb, node 1 holds aa' })
  })

  it('breaks where one end changes its mind', () => {
    expect(judged([point(1, 7, 'aa'), point(1, 7, 'bb')]).broken).toEqual(['hashes-agree'])
  })

  it('counts nothing that one end alone has told of, keeps the newest 64 points, and takes two directions for two', () => {
    const many = Array.from({ length: 100 }, (_, seq) => point(1, seq, 'aa'))
    const { broken, verdict } = judged([...many, point(2, 0, 'zz'), { ...point(2, 99, 'zz'), chain: 's b' } as Fact])
    expect(broken).toEqual([])
    expect(verdict('hashes-agree')).toMatchObject({ state: 'not-seen', judged: 0 })
  })
})

describe('the judge of searches', () => {
  const search = (honestFound: number, hostileShare = 0): Fact => ({ fact: 'searched', node: 1, honestFound, hostileShare })

  it.each([
    ['holds where 99 of 100 found an honest member', 99, 1, []],
    ['breaks where 98 of 100 did', 98, 2, ['honest-found']]
  ] as const)('%s', (_what, found, lost, broken) => {
    const facts = [...Array.from({ length: found }, () => search(1)), ...Array.from({ length: lost }, () => search(0))]
    expect(judged(facts).broken).toEqual(broken)
  })

  it('says nothing where a fifth or more are hostile', () => {
    const { broken, verdict } = judged(Array.from({ length: 10 }, () => search(0, 0.2)))
    expect(broken).toEqual([])
    expect(verdict('honest-found')).toMatchObject({ state: 'not-seen' })
  })
})

describe('every invariant', () => {
  it('is on unless a scenario turns it off, and says so', () => {
    expect(
      judged([])
        .invariants.verdicts()
        .map(({ state }) => state)
    ).toEqual(INVARIANTS.map(() => 'not-seen'))
    const off = judged([{ fact: 'queue', node: 1, length: 2, bound: 1 }], { 'queue-bounds': false })
    expect(off.broken).toEqual([])
    expect(off.verdict('queue-bounds')).toMatchObject({ state: 'off', judged: 0 })
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto as crypto } from '../../src/crypto/node-crypto.ts'
import {
  announceOf,
  checkpointOf,
  checkpointPair,
  groupHeadOf,
  locatorOf,
  locatorPair,
  signedBy,
  ticketOf
} from '../../test/unit/fakes/contradictions.ts'
import { alice as aliceSigner, bob as bobSigner, NOW_MS } from '../../test/unit/record-arbitraries.ts'
import { ProtocolError } from '../errors.ts'
import { openPom, POM_BYTES_MAX } from '../records/pom.ts'
import { findConflicts } from './checkpoint-conflicts.ts'
import { ESCROW_MS, type EscrowInput, type EscrowState, NOMINAL, stepEscrow } from './escrow.ts'
import { type Evidence, verifyEvidence } from './proof.ts'
import { decodeRevocation, encodeRevocation, REVOCATION_REASONS } from './revocation.ts'
import { PROOF_HALF_LIFE_MS, proofScore, REHABILITATION_MS } from './weight.ts'

const mallory = signedBy(aliceSigner)
const bob = signedBy(bobSigner)
const DAY_MS = 86_400_000

const evidence: Evidence[] = [
  locatorPair(mallory, NOW_MS),
  checkpointPair(mallory),
  { target: mallory.eid, kind: 'announce', a: announceOf(mallory, NOW_MS), b: announceOf(mallory, NOW_MS, { desc: 'other' }) },
  { target: mallory.eid, kind: 'group', a: groupHeadOf(mallory), b: groupHeadOf(mallory, { g: 2 }) }
]

const proves = (one: Evidence) => {
  try {
    verifyEvidence(crypto, one)
    return true
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError)
    return false
  }
}

describe('evidence', () => {
  it.each(evidence)(
    '[TRM-07] [G-52] proves a $kind contradiction to whoever holds both items, in either order, and nothing else',
    (one) => {
      expect(proves(one)).toBe(true)
      expect(proves({ ...one, a: one.b, b: one.a })).toBe(true)
      expect(proves({ ...one, b: one.a })).toBe(false)
      expect(proves({ ...one, target: bob.eid })).toBe(false)
      for (const other of evidence) if (other.kind !== one.kind) expect(proves({ ...one, kind: other.kind })).toBe(false)
    }
  )

  it.each(evidence)('[D-24] proves nothing once any bit of a $kind item is turned', (one) => {
    fc.assert(
      fc.property(fc.nat(), fc.nat({ max: 7 }), fc.boolean(), (at, bit, first) => {
        const bent = (first ? one.a : one.b).slice()
        const i = at % bent.length
        bent[i] = (bent[i] as number) ^ (1 << bit)
        expect(proves(first ? { ...one, a: bent } : { ...one, b: bent })).toBe(false)
      }),
      { numRuns: 150 }
    )
  })

  it('[D-24] meets arbitrary bytes with a ProtocolError, never with a verdict', () => {
    const kind = fc.constantFrom('locator', 'checkpoint', 'announce', 'group' as const)
    fc.assert(
      fc.property(kind, fc.uint8Array({ maxLength: 200 }), fc.uint8Array({ maxLength: 200 }), (kind, a, b) => {
        expect(proves({ target: mallory.eid, kind: kind as Evidence['kind'], a, b })).toBe(false)
      })
    )
  })

  it('[IX-27] fits into a ticket at its largest: two records of 1,792 bytes', () => {
    const addrs = (host: number) => Array.from({ length: 8 }, (_, i) => `/dns4/${`${host}${i}`.padEnd(95, 'x')}.example/udp/4001/quic-v1`)
    const keepers = Array.from({ length: 4 }, () => bob.eid)
    const [a, b] = [1, 2].map((host) => locatorOf(mallory, NOW_MS, { addrs: addrs(host), keepers }).bytes) as [Uint8Array, Uint8Array]
    const ticket = ticketOf({ target: mallory.eid, kind: 'locator', a, b }, bob, NOW_MS)
    expect(a.length).toBeGreaterThan(1_300)
    expect(ticket.bytes.length + 2 * (1_792 - a.length)).toBeLessThanOrEqual(POM_BYTES_MAX)
    expect(openPom(crypto, ticket.bytes, { nowMs: NOW_MS }).payload.target).toEqual(mallory.eid)
  })

  it('[D-24] has no signer but the accuser that it names, and that one is believed nothing', () => {
    const honest = { target: bob.eid, kind: 'checkpoint' as const, a: checkpointOf(bob), b: checkpointOf(bob, { seq: 2_048n, hash: 2 }) }
    expect(() => openPom(crypto, ticketOf(honest, mallory, NOW_MS).bytes, { nowMs: NOW_MS })).toThrow(
      expect.objectContaining({ code: 'EVIDENCE_NO_CONFLICT' })
    )
  })
})

describe('findConflicts', () => {
  it('[TRM-05] finds the one contradiction among honest checkpoints, crashes and junk', () => {
    const honest = [0, 1].flatMap((dir) =>
      [1, 2, 3].flatMap((epoch) =>
        [1_024n, 2_048n].map((seq) => checkpointOf(mallory, { dir: dir as 0 | 1, epoch, seq, hash: epoch + Number(seq / 1_024n) }))
      )
    )
    const bent = checkpointOf(mallory, { hash: 99 })
    bent[184] = (bent[184] as number) ^ 1
    expect(findConflicts(crypto, [...honest, ...honest, checkpointOf(bob), bent, new Uint8Array(3)])).toEqual([])
    const conflict = checkpointOf(mallory, { epoch: 2, seq: 2_048n, hash: 77 })
    const found = findConflicts(crypto, [...honest, conflict])
    expect(found).toHaveLength(1)
    expect(found[0]).toMatchObject({ target: mallory.eid, kind: 'checkpoint', b: conflict })
    expect(proves(found[0] as Evidence)).toBe(true)
  })
})

describe('the escrow', () => {
  const challenge = (nowMs: number, firstSeenMs = nowMs): EscrowInput => ({ kind: 'challenge', nowMs, firstSeenMs })
  const tick = (nowMs: number): EscrowInput => ({ kind: 'tick', nowMs })
  const rebuttal = (nowMs: number, heldSinceMs: number): EscrowInput => ({ kind: 'rebuttal', rebuttal: 'tombstone', nowMs, heldSinceMs })
  const run = (inputs: EscrowInput[], state: EscrowState = NOMINAL) => {
    const outcomes: string[] = []
    for (const input of inputs) {
      const step = stepEscrow(state, input)
      state = step.state
      outcomes.push(step.outcome)
    }
    return { state, outcomes }
  }

  it('[IX-28] [TRM-09] leads from a proof over one hour to SLASHED, told once', () => {
    const { state, outcomes } = run([tick(0), challenge(1_000), tick(1_000 + ESCROW_MS - 1), tick(1_000 + ESCROW_MS), tick(9e12)])
    expect(outcomes).toEqual(['unchanged', 'challenged', 'unchanged', 'slashed', 'unchanged'])
    expect(state).toEqual({ phase: 'slashed', sinceMs: 1_000, atMs: 1_000 + ESCROW_MS })
  })

  it('[D-25] has a fixed deadline: a new challenge every minute moves nothing', () => {
    const challenges = Array.from({ length: 60 }, (_, minute) => challenge(minute * 60_000))
    const { state, outcomes } = run(challenges)
    expect(outcomes.slice(1).every((outcome) => outcome === 'unchanged')).toBe(true)
    expect(state).toEqual({ phase: 'challenged', sinceMs: 0, deadlineMs: ESCROW_MS, firstSeenMs: 0 })
    expect(run([challenge(ESCROW_MS)], state).outcomes).toEqual(['slashed'])
  })

  it('[D-25] is cleared by a retirement held before either item was seen, and by no other', () => {
    expect(run([challenge(5_000), rebuttal(5_001, 4_999)])).toEqual({ state: NOMINAL, outcomes: ['challenged', 'rebutted'] })
    for (const heldSinceMs of [5_000, 5_001]) expect(run([challenge(5_000), rebuttal(5_001, heldSinceMs)]).outcomes[1]).toBe('too-late')
    expect(run([challenge(5_000, 1_000), rebuttal(5_001, 2_000)]).outcomes[1]).toBe('too-late')
    expect(run([challenge(5_000), challenge(6_000, 1_000), rebuttal(6_001, 2_000)]).outcomes[2]).toBe('too-late')
  })

  it('[D-25] is over at its deadline: what comes then is too late, and SLASHED is for good', () => {
    expect(run([challenge(5_000), rebuttal(5_000 + ESCROW_MS, 0)]).outcomes).toEqual(['challenged', 'slashed'])
    const slashed = run([challenge(0), tick(ESCROW_MS)]).state
    const after = run([challenge(9e12), rebuttal(9e12, 0), tick(9e12), challenge(9e12)], slashed)
    expect(after).toEqual({ state: slashed, outcomes: ['unchanged', 'too-late', 'unchanged', 'unchanged'] })
  })

  it('[IX-28] keeps to the model over any sequence: slashed at most once, never before its hour, never back', () => {
    const input = fc.oneof(
      fc.record({ kind: fc.constant('challenge' as const), step: fc.nat(2e6), back: fc.nat(1e6) }),
      fc.record({ kind: fc.constant('rebuttal' as const), step: fc.nat(2e6), back: fc.nat(4e6) }),
      fc.record({ kind: fc.constant('tick' as const), step: fc.nat(2e6), back: fc.constant(0) })
    )
    fc.assert(
      fc.property(fc.array(input, { maxLength: 40 }), (inputs) => {
        let nowMs = 1e7
        let state: EscrowState = NOMINAL
        let model: { since: number; seen: number; over: boolean } | undefined
        let slashings = 0
        for (const { kind, step, back } of inputs) {
          nowMs += step
          const given: EscrowInput =
            kind === 'challenge' ? challenge(nowMs, nowMs - back) : kind === 'rebuttal' ? rebuttal(nowMs, nowMs - back) : tick(nowMs)
          const next = stepEscrow(state, given)
          if (model !== undefined && !model.over && nowMs >= model.since + ESCROW_MS) model.over = true
          else if (model === undefined && kind === 'challenge') model = { since: nowMs, seen: nowMs - back, over: false }
          else if (model !== undefined && !model.over && kind === 'challenge') model.seen = Math.min(model.seen, nowMs - back)
          else if (model !== undefined && !model.over && kind === 'rebuttal' && nowMs - back < model.seen) model = undefined
          if (next.outcome === 'slashed') slashings++
          expect(next.state.phase).toBe(model === undefined ? 'nominal' : model.over ? 'slashed' : 'challenged')
          state = next.state
        }
        expect(slashings).toBe(model?.over === true ? 1 : 0)
      }),
      { numRuns: 500 }
    )
  })
})

describe('the weight of proofs', () => {
  it('[IX-29] halves in 30 days and is gone 7 days after the last', () => {
    expect(proofScore([], 0)).toBe(0)
    expect(proofScore([0], 0)).toBeCloseTo(0.2)
    expect(proofScore([0, 0, 0, 0, 0, 0], 0)).toBe(1)
    expect(proofScore([0, PROOF_HALF_LIFE_MS], PROOF_HALF_LIFE_MS)).toBeCloseTo((1 + 0.5) / 5)
    expect(proofScore([0], 6 * DAY_MS)).toBeGreaterThan(0.17)
    expect(proofScore([0], REHABILITATION_MS)).toBe(0)
    expect(proofScore([0, DAY_MS], REHABILITATION_MS)).toBeGreaterThan(0)
    expect(proofScore([DAY_MS], 0)).toBeCloseTo(0.2)
  })
})

describe('REVOCATION_PUBLISH', () => {
  it('[TRM-05] carries a reason and the ticket, within its bound', () => {
    const pom = ticketOf(checkpointPair(mallory), bob, NOW_MS).bytes
    const payload = encodeRevocation({ reason: REVOCATION_REASONS.sequence, pom })
    expect(payload.subarray(0, 2)).toEqual(Uint8Array.of(0, 1))
    expect(decodeRevocation(payload)).toEqual({ reason: 1, pom })
    for (const bad of [new Uint8Array(0), new Uint8Array(1), new Uint8Array(2), new Uint8Array(2 + POM_BYTES_MAX + 1)]) {
      expect(() => decodeRevocation(bad)).toThrow(ProtocolError)
    }
  })
})

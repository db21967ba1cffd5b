import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  connectionOf,
  establishedOf,
  fixedBytes,
  flippedBit,
  handshakePair,
  type PairOptions,
  runHandshake,
  sent,
  type Wire
} from '../../test/support/handshake-pair.ts'
import { isZero } from '../bytes.ts'
import { FLAG } from './flags.ts'

const FRAME_BITS = { INIT: 256 * 8, NEG: 200 * 8, ACK: 284 * 8 } as const

/**
 * One exchange in which bit `bit` of the frame `target` is flipped on its way.
 * @returns which sides came to ESTABLISHED by what they received after the flip
 */
function exchangeWithFlip(sides: ReturnType<typeof handshakePair>, target: Wire, bit: number, occurrence = 0) {
  let seen = 0
  const pair = { ...sides, ...sides.initiatorOf('exchange') }
  const { initiatorStep, responderStep } = runHandshake(pair, {
    tamper: (wire, frame) => (wire === target && seen++ === occurrence ? flippedBit(frame, bit) : frame)
  })
  return {
    flipped: seen > occurrence,
    initiator: initiatorStep.state === 'ESTABLISHED' ? establishedOf(initiatorStep) : undefined,
    responder: responderStep?.kind,
    wiped: isZero(pair.ephSecret)
  }
}

const scenarios: [string, PairOptions][] = [
  ['a plain session', {}],
  ['a contract, a group and an ESE pair of its own', { flags: FLAG.SFC | FLAG.GROUP | FLAG.EXCLUSIVE }],
  ['a resume', { flags: FLAG.RESUME, resumeId: fixedBytes('resume', 16) }]
]

/** Thousands of exchanges each: seconds alone, more on a machine that is busy. */
const MANY = { timeout: 120_000 }

describe.each(scenarios)('any bit flipped in %s', MANY, (_, options) => {
  it('[PSS-11] [D-11] [D-15] in PSS_INIT: neither side reaches ESTABLISHED', () => {
    const pair = handshakePair(options)
    for (let bit = 0; bit < FRAME_BITS.INIT; bit++) {
      const { flipped, initiator, responder, wiped } = exchangeWithFlip(pair, 'INIT', bit)
      if (!flipped || initiator !== undefined || responder === 'established') throw new Error(`bit ${bit} of PSS_INIT went unnoticed`)
      // either the responder refused the INIT, or its NEG did not open at the initiator, which then wiped
      if (responder === 'send') expect(wiped).toBe(true)
    }
  })

  it('[PSS-11] [D-11] [D-15] in PSS_NEG: neither side reaches ESTABLISHED, and the initiator wipes', () => {
    const pair = handshakePair(options)
    for (let bit = 0; bit < FRAME_BITS.NEG; bit++) {
      const { flipped, initiator, responder, wiped } = exchangeWithFlip(pair, 'NEG', bit)
      if (!flipped || initiator !== undefined || responder !== 'send') throw new Error(`bit ${bit} of PSS_NEG went unnoticed`)
      expect(wiped).toBe(true)
    }
  })

  it('[PSS-11] [D-11] [D-15] in PSS_ACK: the responder does not reach ESTABLISHED', () => {
    const pair = handshakePair(options)
    const neg = sent(pair.responder.receive(sent(pair.initiator.start(0)), connectionOf(), 0))
    const ack = sent(pair.initiator.receive(neg, 0))
    for (let bit = 0; bit < FRAME_BITS.ACK; bit++) {
      const step = pair.responder.receive(flippedBit(ack, bit), connectionOf(), 0)
      if (step.kind !== 'close') throw new Error(`bit ${bit} of PSS_ACK went unnoticed`)
    }
    expect(pair.responder.held).toEqual({ spentPairs: 0 })
    expect(pair.responder.receive(ack, connectionOf(), 0).kind).toBe('established')
  })
})

describe('any bit flipped around a RETRY', MANY, () => {
  const options: PairOptions = { load: () => ({ state: 'busy', waitSeconds: 5 }), flags: FLAG.SFC }
  const WAIT_BITS = 16

  it('[PSS-11] [PSS-14] in the repeated PSS_INIT: neither side reaches ESTABLISHED', () => {
    const pair = handshakePair(options)
    for (let bit = 0; bit < FRAME_BITS.INIT; bit++) {
      const { flipped, initiator, responder } = exchangeWithFlip(pair, 'INIT', bit, 1)
      if (!flipped || initiator !== undefined || responder === 'established') throw new Error(`bit ${bit} went unnoticed`)
    }
  })

  it('[PSS-11] [PSS-14] in the first PSS_INIT or in RETRY, its wait apart: neither side reaches ESTABLISHED', () => {
    const pair = handshakePair(options)
    for (let bit = 0; bit < FRAME_BITS.INIT; bit++) {
      const { initiator, responder } = exchangeWithFlip(pair, 'INIT', bit)
      if (initiator !== undefined || responder === 'established') throw new Error(`bit ${bit} of PSS_INIT went unnoticed`)
    }
    for (let bit = 0; bit < 42 * 8 - WAIT_BITS; bit++) {
      const { initiator, responder } = exchangeWithFlip(pair, 'NEG', bit)
      if (initiator !== undefined || responder === 'established') throw new Error(`bit ${bit} of RETRY went unnoticed`)
    }
  })
})

describe('frames changed at random', MANY, () => {
  /** xorshift32: the same mutations in every run. */
  function mutations(seed: number) {
    let state = seed
    const next = (below: number) => {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      return (state >>> 0) % below
    }
    return (frame: Uint8Array): Uint8Array => {
      const copy = frame.slice()
      for (let i = next(6); i >= 0; i--) copy[next(copy.length)] = next(256)
      return next(8) === 0 ? copy.subarray(0, next(copy.length)) : copy
    }
  }
  const same = (a: Uint8Array, b: Uint8Array) => a.length === b.length && a.every((byte, i) => byte === b[i])

  it('[PSS-11] closes on each of 5,000 mutated PSS_NEG and wipes its secret', () => {
    const pair = handshakePair()
    const neg = sent(pair.responder.receive(sent(pair.initiator.start(0)), connectionOf(), 0))
    const mutate = mutations(1)
    let tried = 0
    while (tried < 5_000) {
      const frame = mutate(neg)
      if (same(frame, neg)) continue
      tried += 1
      const { initiator, ephSecret } = pair.initiatorOf('exchange')
      initiator.start(0)
      if (initiator.receive(frame, 0).state !== 'CLOSED' || !isZero(ephSecret)) throw new Error(`mutation ${tried} went unnoticed`)
    }
  })

  it('[PSS-11] meets arbitrary bytes with a step of the state machine, nothing else', () => {
    const pair = handshakePair()
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(pair.responder.receive(bytes, connectionOf(), 0).kind).toBe('close')
        const { initiator, ephSecret } = pair.initiatorOf('exchange')
        initiator.start(0)
        expect(initiator.receive(bytes, 0).state).toBe('CLOSED')
        expect(isZero(ephSecret)).toBe(true)
      })
    )
  })

  it('[PSS-11] closes on each of 5,000 mutated PSS_ACK and spends nothing', () => {
    const pair = handshakePair()
    const ack = sent(pair.initiator.receive(sent(pair.responder.receive(sent(pair.initiator.start(0)), connectionOf(), 0)), 0))
    const mutate = mutations(2)
    let tried = 0
    while (tried < 5_000) {
      const frame = mutate(ack)
      if (same(frame, ack)) continue
      tried += 1
      if (pair.responder.receive(frame, connectionOf(), 0).kind !== 'close') throw new Error(`mutation ${tried} went unnoticed`)
    }
    expect(pair.responder.held).toEqual({ spentPairs: 0 })
  })
})

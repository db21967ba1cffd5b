import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { fromHex, toHex } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { encodeGroupKey, openGroupKey } from './group-key.ts'
import { isSigned, nextRunChain, openGroupOp, readGroupOp, runChainStart, runCipher } from './group-op.ts'
import {
  decodeGroupVector,
  decodeGroupWant,
  decodeReadyRuns,
  encodeGroupVector,
  encodeGroupWant,
  encodeReadyRuns,
  type RunPoint
} from './group-vector.ts'
import { decodeOpBody, encodeOpBody } from './op-body.ts'
import { openStatement } from './statement.ts'

interface Vector {
  kind: 'statement' | 'key' | 'op' | 'ready' | 'vector' | 'want'
  id: string
  req: string
  note: string
  hex: string
  decoded?: unknown
  error?: string
}

const { dgk, vectors } = JSON.parse(readFileSync(new URL('../vectors/group.json', import.meta.url), 'utf8')) as {
  dgk: string
  vectors: Vector[]
}

const pointOf = ({ writer, run, n, gn }: RunPoint) => ({ writer: toHex(writer), run: toHex(run), n: n.toString(), gn: toHex(gn) })

/** What a vector says, in the words of the file; what is encoded again must be the same bytes. */
function read(crypto: CryptoProvider, { kind, hex }: Vector): unknown {
  const bytes = fromHex(hex)
  switch (kind) {
    case 'statement': {
      const { gid, owner, epoch, name, ts, key, members } = openStatement(crypto, bytes)
      const listed = members.map((one) => [toHex(one.eid), one.since, one.history])
      return { gid: toHex(gid), owner: toHex(owner), epoch, name, ts, key: toHex(key), members: listed }
    }
    case 'key': {
      const key = openGroupKey(crypto, bytes)
      expect(toHex(encodeGroupKey(key))).toBe(hex)
      return { epoch: key.statement.epoch, ...(key.dgk === undefined ? {} : { dgk: toHex(key.dgk) }) }
    }
    case 'op': {
      const op = readGroupOp(bytes)
      expect(isSigned(crypto, op)).toBe(true)
      const body = openGroupOp(runCipher(crypto, fromHex(dgk), op.gid, op.writer, op.run), op)
      return { n: op.n.toString(), epoch: op.epoch, gn: toHex(op.gn), body: toHex(body ?? new Uint8Array(0)) }
    }
    case 'ready': {
      const runs = decodeReadyRuns(bytes)
      expect(toHex(encodeReadyRuns(runs))).toBe(hex)
      return runs.map((run) => ({ gid: toHex(run.gid), ...pointOf(run) }))
    }
    case 'vector': {
      const vector = decodeGroupVector(bytes)
      expect(toHex(encodeGroupVector(vector))).toBe(hex)
      return { epoch: vector.epoch, keys: vector.keys, runs: vector.runs.map(pointOf) }
    }
    case 'want': {
      const want = decodeGroupWant(bytes)
      expect(toHex(encodeGroupWant(want))).toBe(hex)
      return { writer: toHex(want.writer), run: toHex(want.run), from: want.from.toString(), count: want.count }
    }
  }
}

describe('vectors', () => {
  for (const [name, crypto] of [
    ['node', nodeCrypto],
    ['noble', nobleCrypto]
  ] as const) {
    for (const vector of vectors) {
      if (vector.decoded !== undefined) {
        it(`[${vector.req}] reads ${vector.kind} ${vector.id} (${name}): ${vector.note}`, () => {
          expect(read(crypto, vector)).toEqual(vector.decoded)
        })
      } else {
        it(`[${vector.req}] refuses ${vector.kind} ${vector.id} (${name}): ${vector.note}`, () => {
          let code = 'accepted'
          try {
            read(crypto, vector)
          } catch (error) {
            code = error instanceof ProtocolError ? error.code : String(error)
          }
          expect(code).toBe(vector.error)
        })
      }
    }
  }

  it('[PSS-19] chains the ops of a run: each follows from the one before', () => {
    const [first, second] = vectors
      .filter(({ kind, decoded }) => kind === 'op' && decoded !== undefined)
      .map(({ hex }) => readGroupOp(fromHex(hex)))
    if (first === undefined || second === undefined) throw new Error('the vectors hold no two ops')
    const start = runChainStart(nodeCrypto, first.gid, first.writer, first.run)
    const one = nextRunChain(nodeCrypto, start, 1n, first.sealed)
    expect(toHex(one)).toBe(toHex(first.gn))
    expect(toHex(nextRunChain(nodeCrypto, one, 2n, second.sealed))).toBe(toHex(second.gn))
  })
})

describe('what a peer sends', () => {
  const read = [
    openGroupKey.bind(undefined, nodeCrypto),
    openStatement.bind(undefined, nodeCrypto),
    readGroupOp,
    decodeReadyRuns,
    decodeGroupVector,
    decodeGroupWant,
    decodeOpBody
  ]

  it('[PSS-23] is read, or refused by a ProtocolError, whatever its bytes are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat({ max: read.length - 1 }), (bytes, which) => {
        try {
          read[which]?.(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      })
    )
  })

  it('[PSS-23] means nothing once a bit of it is another one: head, chain, signature or content of an op', () => {
    const op = vectors.find(({ id, kind }) => kind === 'op' && id === 'first') as Vector
    const bytes = fromHex(op.hex)
    for (let bit = 0; bit < bytes.length * 8; bit += 7) {
      const changed = bytes.slice()
      changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
      const raw = readGroupOp(changed)
      const start = runChainStart(nodeCrypto, raw.gid, raw.writer, raw.run)
      const isSound = isSigned(nodeCrypto, raw) && toHex(nextRunChain(nodeCrypto, start, raw.n, raw.sealed)) === toHex(raw.gn)
      expect(isSound).toBe(false)
    }
  })

  it('[PSS-23] says what a writer put into it', () => {
    const bodies = fc.oneof(
      fc.record({ kind: fc.constant('change' as const), op: fc.uint8Array({ minLength: 1 }) }),
      fc.record({ kind: fc.constant('snapshot' as const), started: fc.nat(), state: fc.uint8Array() })
    )
    fc.assert(
      fc.property(bodies, (body) => {
        expect(decodeOpBody(encodeOpBody(body))).toEqual(body)
      })
    )
  })
})

import { describe, expect, it } from 'vitest'
import { ProtocolError } from '../../../protocol/errors.ts'
import { FLAG } from '../../../protocol/session/flags.ts'
import { Journal } from '../../../protocol/session/journal.ts'
import { decodeReady, encodeReady } from '../../../protocol/session/ready.ts'
import { SessionStream } from '../../../protocol/session/stream.ts'
import { CONTROL_CHANNEL, HANDSHAKE_STREAM, type ReadyGroups } from '../../../protocol/session/stream-init.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { establishedOf, fixed, seedA, seedB, signerOf } from './stream-pair.ts'

const points = () => ({ rx: { seq: 0n, hash: fixed(1) }, tx: { seq: 0n, hash: fixed(2) }, eseLost: false, heads: new Map() })

function side(role: 'initiator' | 'responder', flags: number, groups?: ReadyGroups): SessionStream<string> {
  const established = { ...establishedOf(role), flags }
  const { i2r, r2i } = established.keys
  const [mine, theirs] = role === 'initiator' ? [i2r, r2i] : [r2i, i2r]
  const carried = {
    direction: role === 'initiator' ? (0 as const) : (1 as const),
    journal: new Journal<string>(nodeCrypto, { seq: 0n, hash: mine.chain.slice() }),
    rx: { seq: 0n, hash: theirs.chain.slice() },
    rxHeads: new Map(),
    known: new Map(),
    epoch: 'new' as const,
    ...(groups === undefined ? {} : { groups })
  }
  return new SessionStream({ crypto: nodeCrypto, established, signer: signerOf(role === 'initiator' ? seedA : seedB), nowMs: 0, carried })
}

function readyOf(stream: SessionStream<string>): Uint8Array {
  const frame = stream.next(CONTROL_CHANNEL, 0)
  if (frame === undefined) throw new Error('no READY')
  return frame.bytes
}

describe('what READY says of groups', () => {
  it('[PSS-23] follows the heads whole where the session has the flag, and is refused where it has not', () => {
    const groups = Uint8Array.of(1, 2, 3)
    const payload = encodeReady({ ...points(), groups })
    expect(decodeReady(payload, 'with groups').groups).toEqual(groups)
    expect(() => decodeReady(payload)).toThrow(expect.objectContaining({ code: 'TRAILING_BYTES' }))
  })

  it('[PSS-23] is handed to whoever keeps the groups before anything else of READY takes effect', () => {
    const seen: Uint8Array[] = []
    const a = side('initiator', FLAG.GROUP, { write: () => Uint8Array.of(1, 9), take: () => {} })
    const b = side('responder', FLAG.GROUP, {
      write: () => Uint8Array.of(0),
      take: (bytes) => {
        expect(b.phase).toBe('opening')
        seen.push(bytes.slice())
      }
    })
    readyOf(b)
    expect(b.receive(HANDSHAKE_STREAM, readyOf(a), 0)).toMatchObject([{ kind: 'ready' }])
    expect(seen).toEqual([Uint8Array.of(1, 9)])
  })

  it('[PSS-23] names no group where nobody keeps any, and closes with VIOLATION where it cannot be read', () => {
    const none: Uint8Array[] = []
    const a = side('initiator', FLAG.GROUP)
    const reader = side('responder', FLAG.GROUP, { write: () => Uint8Array.of(0), take: (bytes) => void none.push(bytes.slice()) })
    reader.receive(HANDSHAKE_STREAM, readyOf(a), 0)
    expect(none).toEqual([Uint8Array.of(0)])

    const refusing = side('responder', FLAG.GROUP, {
      write: () => Uint8Array.of(0),
      take: () => {
        throw new ProtocolError('RANGE', 'too many groups', { field: 'count' })
      }
    })
    expect(refusing.receive(HANDSHAKE_STREAM, readyOf(side('initiator', FLAG.GROUP)), 0)).toMatchObject([
      { kind: 'closed', close: { reason: 'violation', by: 'local' } }
    ])
  })
})

import { concat } from '../../../protocol/bytes.ts'
import { eid } from '../../../protocol/identity/eid.ts'
import { decodeAck, encodeAckClear } from '../../../protocol/session/ack.ts'
import { decodeByteFrame, encodeByteFrame } from '../../../protocol/session/byte-frames.ts'
import { decodeChannelControl, encodeChannelControl } from '../../../protocol/session/channel-control.ts'
import { decodeClose } from '../../../protocol/session/close.ts'
import { cookie } from '../../../protocol/session/cookie.ts'
import { encodeHeader, parseFrame } from '../../../protocol/session/header.ts'
import { decodeInit, encodeInit } from '../../../protocol/session/init.ts'
import { encodeItems, readItems } from '../../../protocol/session/items.ts'
import { Journal } from '../../../protocol/session/journal.ts'
import { decodeNeg, encodeNeg, encodeRetry } from '../../../protocol/session/neg.ts'
import { decodeReady, encodeReady } from '../../../protocol/session/ready.ts'
import { reconcile } from '../../../protocol/session/reconcile.ts'
import { readRecord } from '../../../protocol/session/record.ts'
import { decodeSfc, encodeSfc } from '../../../protocol/session/sfc.ts'
import { decodeSnapshotPart, SnapshotParts } from '../../../protocol/session/snapshot.ts'
import { decodeTeardown, encodeTeardown } from '../../../protocol/session/teardown.ts'
import { decodeWindow, encodeWindow } from '../../../protocol/session/window.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { vectorBytes } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { mustBe, mustEqual, refusedOr } from './support.ts'

/** Takes the bytes where they are of this form; what is taken is written as it came. */
function check<T>(bytes: Uint8Array, decode: (bytes: Uint8Array) => T, encode?: (value: T) => Uint8Array): T | undefined {
  const value = refusedOr(() => decode(bytes))
  if (value !== undefined && encode !== undefined) mustEqual(encode(value), bytes, `${decode.name} takes one encoding`)
  return value
}

/** Whole frames of a handshake and of a session, up to their seals. */
const frames: FuzzTarget = {
  name: 'frames',
  bytesMax: 2_048,
  mutators: [],
  seeds: () => vectorBytes(['pss-init', 'pss-neg', 'pss-ack', 'pss-handshake', 'pss-data-stream', 'pss-teardown', 'sfc-block']),
  run(bytes) {
    const frame = refusedOr(() => parseFrame(bytes))
    if (frame !== undefined) mustEqual(concat([encodeHeader({ ...frame.header }), frame.body]), bytes, 'a header has one encoding')
    check(bytes, decodeInit, encodeInit)
    // a RETRY's flags 8 to 14 mean nothing and are let go
    check(bytes, decodeNeg, (neg) =>
      neg.kind === 'neg' ? encodeNeg(neg) : Uint8Array.from([...bytes.subarray(0, 4), ...encodeRetry(neg).subarray(4)])
    )
    check(bytes, decodeAck, (ack) => concat([encodeAckClear(ack), ack.sealed]))
    check(bytes, decodeClose)
    check(bytes, decodeSfc, encodeSfc)
    if (frame !== undefined) refusedOr(() => readRecord(bytes, { i: frame.header.iCookie, r: frame.header.rCookie }))
    refusedOr(() => readRecord(bytes, { i: cookie(new Uint8Array(8)), r: cookie(new Uint8Array(8)) }))
    refusedOr(() => eid(bytes))
  }
}

/** What stands inside records, and what a READY asks of a journal. */
const items: FuzzTarget = {
  name: 'items',
  bytesMax: 4_096,
  mutators: [],
  seeds: () =>
    vectorBytes(['pss-items', 'pss-ready', 'pss-snapshot', 'pss-byte-stream', 'pss-channel-control', 'pss-resume', 'pss-teardown']).filter(
      ({ length }) => length <= 4_096
    ),
  run(bytes) {
    check(bytes, readItems, encodeItems)
    check(bytes, decodeTeardown, encodeTeardown)
    check(bytes, decodeWindow, encodeWindow)
    check(bytes, decodeChannelControl, encodeChannelControl)
    check(bytes, decodeByteFrame, encodeByteFrame)
    const part = check(bytes, decodeSnapshotPart)
    if (part !== undefined) {
      const parts = refusedOr(() => new SnapshotParts(bytes))
      if (parts !== undefined && !parts.complete) refusedOr(() => parts.add(bytes))
      if (parts?.complete === true) parts.bytes()
    }
    const ready = check(bytes, (payload) => decodeReady(payload), encodeReady)
    check(bytes, (payload) => decodeReady(payload, 'with groups'), encodeReady)
    if (ready === undefined) return
    const journal = journalOfThree()
    const held = { rx: ready.tx, heads: new Map() }
    const verdict = reconcile(ready, journal, held)
    if (verdict.kind === 'resend') mustBe(verdict.entries.length <= 3 && verdict.ack <= 3n, 'no more is sent again than there is')
  }
}

function journalOfThree(): Journal<string> {
  const journal = new Journal<string>(nodeCrypto, { seq: 0n, hash: new Uint8Array(32) })
  for (const channel of [1, 2, 1]) journal.append({ kind: 2, channel, payload: Uint8Array.of(channel), tag: '', state: 'waiting' })
  journal.markSynced(3n)
  return journal
}

export const targets: readonly FuzzTarget[] = [frames, items]

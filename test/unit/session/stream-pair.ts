import { toHex } from '../../../protocol/bytes.ts'
import { eid } from '../../../protocol/identity/eid.ts'
import type { ContractMeter } from '../../../protocol/session/contract.ts'
import { cookie } from '../../../protocol/session/cookie.ts'
import type { Established } from '../../../protocol/session/established.ts'
import { SessionStream } from '../../../protocol/session/stream.ts'
import type { StreamEffect } from '../../../protocol/session/stream-effects.ts'
import { CONTROL_CHANNEL, type StreamCounters } from '../../../protocol/session/stream-init.ts'
import type { RekeyLimits } from '../../../protocol/session/traffic-keys.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'

/** 32 bytes that only tests know. */
export const fixed = (byte: number, length = 32) => new Uint8Array(length).fill(byte)

export const seedA = fixed(0xa1)
export const seedB = fixed(0xb2)
export const eidA = eid(nodeCrypto.ed25519.publicKey(seedA))
export const eidB = eid(nodeCrypto.ed25519.publicKey(seedB))

export function signerOf(seed: Uint8Array) {
  return { publicKey: nodeCrypto.ed25519.publicKey(seed), sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
}

/** What a handshake with fixed keys would leave at each side. */
export function establishedOf(role: 'initiator' | 'responder', salt = 0): Established {
  const keys = () => ({
    i2r: { key: fixed(0x11 + salt), iv: fixed(0x12, 12), chain: fixed(0x13) },
    r2i: { key: fixed(0x21 + salt), iv: fixed(0x22, 12), chain: fixed(0x23) },
    export: fixed(0x31)
  })
  return {
    role,
    sid: fixed(0x41, 16),
    epoch: fixed(0x51 + salt),
    localEid: role === 'initiator' ? eidA : eidB,
    remoteEid: role === 'initiator' ? eidB : eidA,
    cookies: { i: cookie(fixed(0x61, 8)), r: cookie(fixed(0x62, 8)) },
    flags: 0,
    keys: keys()
  }
}

export interface PairInit {
  rekey?: RekeyLimits
  counters?: { a: StreamCounters; b: StreamCounters }
  salt?: number
  /** what each side holds the session to */
  contracts?: { a?: ContractMeter; b?: ContractMeter }
}

/** One side of a pair: its stream, what it was handed, and the frames on their way to the other, by channel. */
export class Side {
  readonly stream: SessionStream<string>
  readonly delivered: { channel: number; kind: number; seq: bigint | undefined; text: string }[] = []
  readonly acked: { seq: bigint; hash: string }[] = []
  readonly effects: StreamEffect<string>[] = []
  readonly ackedTags: string[] = []
  /** chain after each transaction as this side's receiver computed it */
  readonly rxHashes = new Map<bigint, string>()
  readonly wire = new Map<number, Uint8Array[]>()
  /** streams that lose everything, by channel */
  readonly lost = new Set<number>()
  syncs: 'at-once' | 'never' = 'at-once'
  readonly unsynced: { seq: bigint; channel: number; bytes: number }[] = []

  constructor(role: 'initiator' | 'responder', init: PairInit) {
    const contract = role === 'initiator' ? init.contracts?.a : init.contracts?.b
    const counters = role === 'initiator' ? init.counters?.a : init.counters?.b
    this.stream = new SessionStream({
      crypto: nodeCrypto,
      established: establishedOf(role, init.salt),
      signer: signerOf(role === 'initiator' ? seedA : seedB),
      nowMs: 0,
      ...(init.rekey ? { rekey: init.rekey } : {}),
      ...(counters ? { counters } : {}),
      ...(contract ? { contract } : {})
    })
  }

  take(effects: StreamEffect<string>[]): void {
    for (const effect of effects) {
      this.effects.push(effect)
      if (effect.kind === 'acked') {
        this.acked.push({ seq: effect.upTo.seq, hash: toHex(effect.upTo.hash) })
        this.ackedTags.push(...effect.items.map(({ tag }) => tag))
      }
      if (effect.kind !== 'deliver' && effect.kind !== 'unknown') continue
      const { channel, itemKind, seq, payload } = effect
      if (effect.kind === 'deliver') this.delivered.push({ channel, kind: itemKind, seq, text: new TextDecoder().decode(payload) })
      if (this.syncs === 'never') {
        if (seq !== undefined) this.unsynced.push({ seq, channel, bytes: payload.length })
        continue
      }
      if (seq !== undefined) this.stream.synced(seq)
      this.stream.handled(channel, payload.length)
    }
    this.rxHashes.set(this.stream.rx.seq, toHex(this.stream.rx.hash))
  }

  /** Pulls every frame that is due onto the wire. */
  flush(nowMs = 0): void {
    for (let busy = true; busy; ) {
      busy = false
      for (const channel of this.stream.channels(nowMs)) {
        const frame = this.stream.next(channel, nowMs)
        if (frame === undefined) continue
        busy = true
        this.take(frame.effects)
        const queue = this.wire.get(channel) ?? []
        this.wire.set(channel, queue)
        queue.push(frame.bytes)
      }
    }
  }
}

/** Two sides and the streams between them, moved by hand. A channel's stream has the channel's number. */
export class StreamPair {
  readonly a: Side
  readonly b: Side
  nowMs = 0

  constructor(init: PairInit = {}) {
    this.a = new Side('initiator', init)
    this.b = new Side('responder', init)
  }

  other(side: Side): Side {
    return side === this.a ? this.b : this.a
  }

  /** Moves one frame of one stream. @returns false where none waits */
  deliver(from: Side, channel: number): boolean {
    const frame = from.wire.get(channel)?.shift()
    if (frame === undefined) return false
    if (!from.lost.has(channel)) this.other(from).take(this.other(from).stream.receive(channel, frame, this.nowMs))
    return true
  }

  /** Flushes and moves frames both ways until nothing is left to move. */
  run(): void {
    for (let busy = true; busy; ) {
      busy = false
      for (const side of [this.a, this.b]) {
        side.flush(this.nowMs)
        for (const channel of [...side.wire.keys()]) while (this.deliver(side, channel)) busy = true
      }
    }
  }

  /** Both READYs exchanged. */
  opened(): this {
    this.run()
    return this
  }

  tick(ms: number): void {
    this.nowMs += ms
    for (const side of [this.a, this.b]) side.take(side.stream.tick(this.nowMs))
  }
}

export const text = (value: string) => new TextEncoder().encode(value)
export { CONTROL_CHANNEL }

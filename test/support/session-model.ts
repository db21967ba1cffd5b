import fc from 'fast-check'
import { cookie } from '../../protocol/session/cookie.ts'
import type { Established } from '../../protocol/session/established.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { Journal, type Outgoing } from '../../protocol/session/journal.ts'
import { type Position, ReceiveLedger } from '../../protocol/session/ledger.ts'
import { SessionStream } from '../../protocol/session/stream.ts'
import type { StreamEffect } from '../../protocol/session/stream-effects.ts'
import type { CarriedState } from '../../protocol/session/stream-init.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { eidA, eidB, fixed, seedA, seedB, signerOf, text } from '../unit/session/stream-pair.ts'

/** One step of a session's life. `side` is who does it; `pick` chooses among what there is to choose from. */
export type Command =
  | { do: 'send'; side: boolean; channel: number; live: boolean }
  | { do: 'journal' | 'flush' | 'tidy' | 'crash'; side: boolean }
  | { do: 'deliver' | 'apply' | 'lose'; side: boolean; pick: number }
  | { do: 'cut'; swap: boolean }

const side = fc.boolean()
const pick = fc.nat(7)
export const arbCommand: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ do: fc.constant('send' as const), side, channel: fc.integer({ min: 1, max: 3 }), live: fc.constant(false) })
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('send' as const), side, channel: fc.integer({ min: 1, max: 3 }), live: fc.constant(true) })
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('journal' as const), side }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('flush' as const), side }) },
  { weight: 16, arbitrary: fc.record({ do: fc.constant('deliver' as const), side, pick }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant('apply' as const), side, pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), side, pick }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('tidy' as const), side }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), swap: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const), side }) }
)

/** What a session promises: what was journaled is applied once, in order within its channel; what is acked is applied. */
class Model {
  readonly journaled = new Map<number, string[]>()
  readonly acked: string[] = []

  check(applied: readonly { channel: number; word: string }[], end: 'open' | 'quiet'): void {
    for (const [channel, words] of this.journaled) {
      const got = applied.filter((one) => one.channel === channel).map(({ word }) => word)
      const expected = end === 'quiet' ? words : words.slice(0, got.length)
      if (got.join() !== expected.join()) throw new Error(`channel ${channel} applied ${got.join()}, not ${expected.join()}`)
    }
    const have = new Set(applied.map(({ word }) => word))
    const lost = this.acked.filter((word) => !have.has(word))
    if (lost.length > 0) throw new Error(`acked and not applied: ${lost.join()}`)
  }
}

interface Disk {
  base: { seq: bigint; hash: Uint8Array; heads: Map<number, { seq: bigint; digest: Uint8Array }> }
  journal: Map<bigint, { channel: number; payload: Uint8Array; word: string }>
  run: { seq: bigint; hash: Uint8Array; heads: Map<number, { seq: bigint; digest: Uint8Array }> }
  positions: Map<bigint, Position>
  applied: { channel: number; word: string }[]
}

interface InHand {
  seq: bigint
  channel: number
  word: string
  bytes: number
  position: Position
}

/** A mistake made on purpose, which a checker must find. */
export type SessionBug =
  | 'acks before the effect is on disk'
  | 'writes an effect without its position'
  | 'forgets positions at a restart'
  | 'forgets its journal at a restart'
  | 'sends before it journals'
  | 'forgets what is in hand when an epoch ends'

/** One side: a disk that survives, and all that does not. */
class Side {
  readonly bug: SessionBug | undefined
  readonly disk: Disk
  readonly model = new Model()
  journal!: Journal<string>
  ledger!: ReceiveLedger
  stream!: SessionStream<string>
  pending: { channel: number; word: string }[] = []
  /** by channel, handed over and not applied yet */
  inHand = new Map<number, InHand[]>()
  readonly wire = new Map<number, Uint8Array[]>()
  broken: string | undefined
  #first = true

  constructor(tx: Uint8Array, rx: Uint8Array, bug?: SessionBug) {
    this.bug = bug
    const start = (hash: Uint8Array) => ({ seq: 0n, hash, heads: new Map() })
    this.disk = { base: start(tx), journal: new Map(), run: start(rx), positions: new Map(), applied: [] }
    this.load()
  }

  /** A process starts on what the disk holds. */
  load(): void {
    const { base, journal, run, positions } = this.disk
    this.journal = new Journal(nodeCrypto, base)
    const kept = this.bug === 'forgets its journal at a restart' && !this.#first ? [] : [...journal].sort(([a], [b]) => (a < b ? -1 : 1))
    for (const [, { channel, payload, word }] of kept) {
      this.journal.append({ kind: ITEM_KINDS.a2a, channel, payload, tag: word, state: 'sent' })
    }
    this.journal.markSynced(this.journal.tx.seq)
    this.ledger = new ReceiveLedger(nodeCrypto, run, run.heads)
    if (this.bug !== 'forgets positions at a restart') for (const [seq, position] of positions) this.ledger.restore(seq, position)
    this.pending = []
    this.inHand = new Map()
  }

  begin(established: Established, direction: 0 | 1, seed: Uint8Array): void {
    const carried: CarriedState<string> = {
      direction,
      journal: this.journal,
      rx: this.ledger.run,
      rxHeads: this.ledger.heads,
      known: this.bug === 'forgets what is in hand when an epoch ends' ? new Map() : this.ledger.known(),
      epoch: this.#first ? 'new' : 'resumed'
    }
    this.#first = false
    this.stream = new SessionStream({ crypto: nodeCrypto, established, signer: signerOf(seed), nowMs: 0, carried })
    this.wire.clear()
  }

  take(effects: StreamEffect<string>[]): void {
    for (const effect of effects) {
      if (effect.kind === 'acked') this.model.acked.push(...effect.items.map(({ tag }) => tag))
      if (effect.kind === 'closed' || effect.kind === 'snapshot')
        this.broken = JSON.stringify(effect.kind === 'closed' ? effect.close.reason : 'snapshot')
      if (effect.kind !== 'deliver') continue
      const { channel, seq, position, payload } = effect
      if (seq === undefined || position === undefined) {
        this.stream.handled(channel, payload.length)
        continue
      }
      this.ledger.take(seq, position)
      if (this.bug === 'acks before the effect is on disk') this.stream.synced(seq)
      const waiting = this.inHand.get(channel) ?? []
      this.inHand.set(channel, waiting)
      waiting.push({ seq, channel, word: new TextDecoder().decode(payload), bytes: payload.length, position })
    }
  }

  flush(): void {
    for (let busy = true; busy; ) {
      busy = false
      for (const channel of this.stream.channels(0)) {
        const frame = this.stream.next(channel, 0)
        if (frame === undefined) continue
        busy = true
        this.take(frame.effects)
        const queue = this.wire.get(channel) ?? []
        this.wire.set(channel, queue)
        queue.push(frame.bytes)
      }
    }
  }

  /** Numbers, writes and sends what waits; a crash before this loses it, and nobody was promised anything. */
  writeJournal(): void {
    for (const { channel, word } of this.pending) {
      const item: Outgoing<string> = { kind: ITEM_KINDS.a2a, channel, payload: text(word), tag: word, state: 'waiting' }
      const entry = this.journal.append(item)
      if (this.bug !== 'sends before it journals') this.disk.journal.set(entry.seq, { channel, payload: item.payload, word })
      this.model.journaled.set(channel, [...(this.model.journaled.get(channel) ?? []), word])
      this.stream.enqueue(entry, 'unreserved')
    }
    this.pending = []
  }

  /** One transaction's effect and position reach the disk together. */
  apply(pick: number): boolean {
    const channels = [...this.inHand].filter(([, items]) => items.length > 0)
    const item = channels[pick % Math.max(1, channels.length)]?.[1].shift()
    if (item === undefined) return false
    this.disk.applied.push({ channel: item.channel, word: item.word })
    if (this.bug !== 'writes an effect without its position') this.disk.positions.set(item.seq, item.position)
    this.ledger.synced(item.seq)
    this.stream.synced(item.seq)
    this.stream.handled(item.channel, item.bytes)
    return true
  }

  tidy(): void {
    const { base } = this.journal
    this.disk.base = { seq: base.seq, hash: base.hash, heads: new Map(base.heads) }
    for (const seq of this.disk.journal.keys()) if (seq <= base.seq) this.disk.journal.delete(seq)
    const { run, heads } = this.ledger
    this.disk.run = { seq: run.seq, hash: run.hash, heads: new Map(heads) }
    for (const seq of this.disk.positions.keys()) if (seq <= run.seq) this.disk.positions.delete(seq)
  }
}

/** Two sides on one network, under commands; {@link run} throws where they break the model's promise. */
export class SessionModel {
  readonly a: Side
  readonly b: Side
  #epoch = 0
  #words = 0

  constructor({ bug }: { bug?: SessionBug } = {}) {
    this.a = new Side(fixed(0x13), fixed(0x23), bug)
    this.b = new Side(fixed(0x23), fixed(0x13), bug)
    this.#connect(false)
  }

  #connect(swap: boolean): void {
    this.#epoch += 1
    const salt = this.#epoch % 128
    const established = (role: 'initiator' | 'responder', mine: 'a' | 'b'): Established => ({
      role,
      sid: fixed(0x41, 16),
      epoch: nodeCrypto.sha256(text(`epoch ${this.#epoch}`)),
      localEid: mine === 'a' ? eidA : eidB,
      remoteEid: mine === 'a' ? eidB : eidA,
      cookies: { i: cookie(fixed(salt + 1, 8)), r: cookie(fixed(salt + 2, 8)) },
      flags: 0,
      keys: {
        i2r: { key: fixed(salt + 3), iv: fixed(0x12, 12), chain: fixed(0x13) },
        r2i: { key: fixed(salt + 4), iv: fixed(0x22, 12), chain: fixed(0x23) },
        export: fixed(0x31)
      }
    })
    this.a.begin(established(swap ? 'responder' : 'initiator', 'a'), 0, seedA)
    this.b.begin(established(swap ? 'initiator' : 'responder', 'b'), 1, seedB)
  }

  #other(one: Side): Side {
    return one === this.a ? this.b : this.a
  }

  #deliver(from: Side, pick: number): boolean {
    const to = this.#other(from)
    // a driver leaves the other streams unread until READY is there
    const channels = [...from.wire].filter(([channel, frames]) => frames.length > 0 && (channel === 0 || to.stream.phase !== 'opening'))
    const chosen = channels[pick % Math.max(1, channels.length)]
    const frame = chosen?.[1].shift()
    if (chosen === undefined || frame === undefined) return false
    to.take(to.stream.receive(chosen[0], frame, 0))
    return true
  }

  do(command: Command): void {
    const one = 'side' in command ? (command.side ? this.a : this.b) : this.a
    switch (command.do) {
      case 'send': {
        const word = `${this.#words++}`
        if (!command.live) one.pending.push({ channel: command.channel, word })
        else one.stream.queue(command.channel, ITEM_KINDS.live, text(word), word)
        break
      }
      case 'journal':
        one.writeJournal()
        break
      case 'flush':
        one.flush()
        break
      case 'deliver':
        this.#deliver(one, command.pick)
        break
      case 'apply':
        one.apply(command.pick)
        break
      case 'lose':
        // a frame that is lost takes its stream, and so the epoch, with it
        if ([...one.wire.values()].some((frames) => frames.length > 0)) this.#connect(command.pick % 2 === 0)
        break
      case 'tidy':
        one.tidy()
        break
      case 'cut':
        this.#connect(command.swap)
        break
      case 'crash':
        one.load()
        this.#connect(command.side)
        break
    }
    this.check('open')
  }

  check(end: 'open' | 'quiet'): void {
    for (const one of [this.a, this.b]) {
      if (one.broken !== undefined) throw new Error(`an epoch was broken off: ${one.broken}`)
      one.model.check(this.#other(one).disk.applied, end)
    }
  }

  /** Everything that can move moves; then all that was journaled is applied and acked, and both chains agree. */
  quiesce(): void {
    this.#connect(false)
    for (let busy = true; busy; ) {
      busy = false
      for (const one of [this.a, this.b]) {
        one.flush()
        while (this.#deliver(one, 0)) busy = true
        while (one.apply(0)) busy = true
      }
    }
    this.check('quiet')
    for (const [one, peer] of [
      [this.a, this.b],
      [this.b, this.a]
    ] as const) {
      const [sent, held] = [one.journal.acked, peer.ledger.run]
      if (one.journal.length > 0) throw new Error(`${one.journal.length} transactions stay unacknowledged`)
      if (sent.seq !== held.seq || Buffer.compare(sent.hash, held.hash) !== 0) throw new Error('the chains of both sides differ')
    }
  }
}

/** Runs `commands` commands in sequences of at most `length`; throws fast-check's report, seed and shrunk case, at the first violation. */
export function runSessionModel({ commands, length = 200, seed }: { commands: number; length?: number; seed?: number }): {
  commands: number
} {
  let done = 0
  for (let round = 0; done < commands; round++) {
    const property = fc.property(fc.array(arbCommand, { minLength: length / 2, maxLength: length, size: 'max' }), (sequence) => {
      const model = new SessionModel()
      for (const command of sequence) model.do(command)
      model.quiesce()
      done += sequence.length
    })
    fc.assert(property, {
      numRuns: Math.max(1, Math.min(50, Math.ceil((commands - done) / length))),
      ...(seed === undefined ? {} : { seed: seed + round })
    })
  }
  return { commands: done }
}

import { concat, equals, Reader, Writer } from '../bytes.ts'
import type { CryptoProvider, KeyedAead, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import type { Eid } from '../identity/eid.ts'
import { decodeEseBatch, type EseBatch, encodeEseBatch } from '../state/batch.ts'
import { type EseBounds, type EseDelta, EseMap } from '../state/map.ts'
import { RUN_LOG_BYTES_MAX, RUN_LOG_OPS_MAX, SNAPSHOT_AFTER_BYTES, SNAPSHOT_AFTER_OPS, WRITER_STATE_BYTES_MAX } from './bounds.ts'
import { GROUP_OP_BODY_BYTES_MAX, nextRunChain, openGroupOp, type RawGroupOp, readGroupOp, runChainStart, sealGroupOp } from './group-op.ts'
import { decodeOpBody, encodeOpBody } from './op-body.ts'

/** Bounds of what one writer holds in a group. */
export const GROUP_ESE_BOUNDS: EseBounds = { keysMax: 16_384, bytesMax: WRITER_STATE_BYTES_MAX }

/** What became of an op that was offered to a run. */
export type Taken =
  | 'taken'
  | 'duplicate'
  /** beyond a gap: it is asked for later */
  | 'gap'
  /** one place, two contents: both signed */
  | { fork: Uint8Array }
  /** it does not follow what is held, so the writer has told two histories; the other end of it is not seen yet */
  | 'broken'
  /** the log is full, the writer went back to an older epoch, or broke the rules before */
  | 'refused'

type Sealer = (epoch: number) => KeyedAead | undefined

/**
 * One run of one writer as a member holds it: the ops from its last snapshot on, as they were signed, the chain over all of them, and the state that
 * they make as far as this member has keys.
 */
export class WriterRun {
  readonly gid: Uint8Array
  readonly writer: Eid
  readonly run: Uint8Array
  /** orders the runs of a writer */
  readonly started: number
  readonly #crypto: CryptoProvider
  /** from the last snapshot that was read; bounded by RUN_LOG_OPS_MAX and RUN_LOG_BYTES_MAX */
  #log: RawGroupOp[] = []
  #logBytes = 0
  #applied = 0n
  #state: EseMap
  /** undefined: all is well */
  #fault: ProtocolError | undefined
  #cipher: { epoch: number; cipher: KeyedAead } | undefined

  private constructor(crypto: CryptoProvider, place: { gid: Uint8Array; writer: Eid; run: Uint8Array; started: number }) {
    this.#crypto = crypto
    this.gid = place.gid
    this.writer = place.writer
    this.run = place.run
    this.started = place.started
    this.#state = new EseMap(crypto, GROUP_ESE_BOUNDS)
  }

  /** An own run: nothing is written yet. `place.run` is 16 random bytes. */
  static own(crypto: CryptoProvider, place: { gid: Uint8Array; writer: Eid; run: Uint8Array; started: number }): WriterRun {
    return new WriterRun(crypto, place)
  }

  /**
   * A run as somebody else's ops begin it, at its start or at any later snapshot. The caller has checked the signature.
   * @returns undefined where the op is no snapshot, or does not open
   * @throws ProtocolError where it opens and makes no sense
   */
  static from(crypto: CryptoProvider, op: RawGroupOp, cipher: KeyedAead): WriterRun | undefined {
    if (op.n === 1n && !equals(op.gn, nextRunChain(crypto, runChainStart(crypto, op.gid, op.writer, op.run), 1n, op.sealed))) {
      throw new ProtocolError('HASH_MISMATCH', 'the first op of a run does not begin its chain', { field: 'group-op.g_n' })
    }
    const plain = openGroupOp(cipher, op)
    if (plain === undefined) return undefined
    const body = decodeOpBody(plain)
    if (body.kind !== 'snapshot') return undefined
    const { gid, writer, run } = op
    const made = new WriterRun(crypto, { gid: gid.slice(), writer: writer.slice() as Eid, run: run.slice(), started: body.started })
    made.#state = stateOf(crypto, body.state)
    made.#log = [readGroupOp(op.bytes.slice())]
    made.#logBytes = op.bytes.length
    made.#applied = op.n
    return made
  }

  /** Of the newest op that is held. */
  get n(): bigint {
    return this.#log.at(-1)?.n ?? 0n
  }

  get gn(): Uint8Array {
    return this.#log.at(-1)?.gn ?? runChainStart(this.#crypto, this.gid, this.writer, this.run)
  }

  /** The op up to which the state goes. */
  get applied(): bigint {
    return this.#applied
  }

  /** Of the oldest op that is held: a snapshot. */
  get firstN(): bigint {
    return this.#log[0]?.n ?? 0n
  }

  get firstEpoch(): number {
    return this.#log[0]?.epoch ?? 0
  }

  get state(): EseMap {
    return this.#state
  }

  /** Why it is followed no further. */
  get fault(): ProtocolError | undefined {
    return this.#fault
  }

  get logLength(): number {
    return this.#log.length
  }

  entry(n: bigint): RawGroupOp | undefined {
    return n < this.firstN || n > this.n ? undefined : this.#log[Number(n - this.firstN)]
  }

  /** Whether the writer is to publish its whole state again. */
  get isSnapshotDue(): boolean {
    const first = this.#log[0]
    return this.#log.length > SNAPSHOT_AFTER_OPS || (first !== undefined && this.#logBytes - first.bytes.length > SNAPSHOT_AFTER_BYTES)
  }

  /** Whether it is the same op, another one of the same place, or one that may follow. Costs no signature. */
  place(op: RawGroupOp): 'next' | 'held' | 'other' | 'behind' | 'ahead' {
    if (op.n === this.n + 1n) return 'next'
    if (op.n > this.n) return 'ahead'
    const held = this.entry(op.n)
    if (held === undefined) return 'behind'
    return equals(held.head, op.head) ? 'held' : 'other'
  }

  /** Takes an op whose signature was checked. */
  take(op: RawGroupOp, keys: Sealer): Taken {
    const place = this.place(op)
    if (place === 'held' || place === 'behind') return 'duplicate'
    if (place === 'other') return { fork: (this.entry(op.n) as RawGroupOp).head }
    if (this.#fault !== undefined) return 'refused'
    if (place === 'ahead') return this.#jump(op, keys)
    const last = this.#log.at(-1)
    if (!equals(op.gn, nextRunChain(this.#crypto, this.gn, op.n, op.sealed))) return 'broken'
    if (last !== undefined && op.epoch < last.epoch) return this.#refuse('a writer goes back to an older epoch')
    if (this.#log.length >= RUN_LOG_OPS_MAX || this.#logBytes + op.bytes.length > RUN_LOG_BYTES_MAX) {
      // not for good: a snapshot may yet open and make room
      return 'refused'
    }
    this.#append(readGroupOp(op.bytes.slice()))
    return 'taken'
  }

  /** A later snapshot makes what lies between needless. */
  #jump(op: RawGroupOp, keys: Sealer): Taken {
    const cipher = keys(op.epoch)
    if (cipher === undefined || op.epoch < (this.#log.at(-1)?.epoch ?? 0)) return 'gap'
    let later: WriterRun | undefined
    try {
      later = WriterRun.from(this.#crypto, op, cipher)
    } catch (error) {
      return this.#refuse((error as Error).message)
    }
    if (later === undefined || later.started !== this.started) return 'gap'
    this.#state.erase()
    this.#state = later.#state
    this.#log = later.#log
    this.#logBytes = later.#logBytes
    this.#applied = later.#applied
    return 'taken'
  }

  #append(op: RawGroupOp): void {
    this.#log.push(op)
    this.#logBytes += op.bytes.length
  }

  #refuse(why: string): 'refused' {
    this.#fault = new ProtocolError('OUT_OF_ORDER', why, { field: 'group-op' })
    return 'refused'
  }

  /** Takes effect of what is held, as far as there are keys. @returns what each op did, in order */
  catchUp(keys: Sealer): EseDelta[] {
    const deltas: EseDelta[] = []
    while (this.#fault === undefined && this.#applied < this.n) {
      const op = this.entry(this.#applied + 1n) as RawGroupOp
      const cipher = this.#cipherOf(op.epoch, keys)
      if (cipher === undefined) break
      try {
        deltas.push(this.#apply(op, openGroupOp(cipher, op)))
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error
        this.#fault = error
      }
    }
    return deltas
  }

  #apply(op: RawGroupOp, plain: Uint8Array | undefined): EseDelta {
    if (plain === undefined) throw new ProtocolError('AEAD_OPEN', 'a group op does not open under its epoch', { field: 'group-op' })
    const body = decodeOpBody(plain)
    if (body.kind === 'change') {
      const delta = this.#state.apply(decodeEseBatch(body.op))
      this.#applied = op.n
      return delta
    }
    if (body.started !== this.started) {
      throw new ProtocolError('FIELD_INVALID', 'a run tells two starts', { field: 'group-op.started' })
    }
    const state = stateOf(this.#crypto, body.state)
    const keys = [...state.keys()]
    this.#state.erase()
    this.#state = state
    this.#applied = op.n
    this.#cutTo(op.n)
    return { cleared: true, keys }
  }

  /** What was before a snapshot is nobody's need any more. */
  #cutTo(n: bigint): void {
    const gone = this.#log.splice(0, Number(n - this.firstN))
    for (const { bytes } of gone) this.#logBytes -= bytes.length
  }

  #cipherOf(epoch: number, keys: Sealer): KeyedAead | undefined {
    if (this.#cipher?.epoch === epoch) return this.#cipher.cipher
    const cipher = keys(epoch)
    this.#cipher = cipher === undefined ? undefined : { epoch, cipher }
    return cipher
  }

  /** The cipher taken in goes with the key that it was made of. */
  forgetCipher(): void {
    this.#cipher = undefined
  }

  // ── writing ──

  /**
   * Makes a change of one's own, all of it or nothing.
   * @throws ProtocolError of {@link EseMap.apply}, `TOO_LARGE` (the batch)
   */
  write(signer: Signer, epoch: number, keys: Sealer, batch: EseBatch): EseDelta {
    const body = encodeOpBody({ kind: 'change', op: encodeEseBatch(batch) })
    if (body.length > GROUP_OP_BODY_BYTES_MAX) {
      throw new ProtocolError('TOO_LARGE', `a batch of ${body.length} bytes, at most ${GROUP_OP_BODY_BYTES_MAX}`, { field: 'batch' })
    }
    const delta = this.#state.apply(batch)
    this.#seal(signer, epoch, keys, body)
    return delta
  }

  /** Publishes the whole state: the first op of every run, and what lets the log before it go. */
  snapshot(signer: Signer, epoch: number, keys: Sealer, from: EseMap = this.#state): void {
    const parts: Uint8Array[] = []
    for (const part of from.snapshot()) parts.push(new Writer(4 + part.length).u32(part.length).bytes(part).finish())
    const state = concat(parts)
    if (from !== this.#state) this.#state = stateOf(this.#crypto, state)
    this.#seal(signer, epoch, keys, encodeOpBody({ kind: 'snapshot', started: this.started, state }))
    this.#cutTo(this.n)
  }

  #seal(signer: Signer, epoch: number, keys: Sealer, body: Uint8Array): void {
    const cipher = this.#cipherOf(epoch, keys)
    if (cipher === undefined) throw new TypeError(`no key of epoch ${epoch}`)
    const { gid, writer, run } = this
    const n = this.n + 1n
    const { bytes } = sealGroupOp(this.#crypto, signer, cipher, { gid, epoch, writer, run, n }, this.gn, body)
    this.#append(readGroupOp(bytes))
    this.#applied = n
  }

  /** Overwrites the state and lets go of the log. */
  erase(): void {
    this.#state.erase()
    this.#log = []
    this.#logBytes = 0
    this.#cipher = undefined
  }
}

/** (u32 length ‖ batch)*, the first of which clears */
function stateOf(crypto: CryptoProvider, bytes: Uint8Array): EseMap {
  const reader = new Reader(bytes)
  const parts: Uint8Array[] = []
  while (reader.remaining > 0) parts.push(reader.bytes(reader.u32('length'), 'batch'))
  return EseMap.fromSnapshot(crypto, GROUP_ESE_BOUNDS, parts)
}

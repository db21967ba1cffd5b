import type { WriteOp } from '../store/store.ts'
import type { SessionState } from './session-state.ts'

/** What was acknowledged, either way, leaves the disk within this, or with the next write after so many. */
const HOUSEKEEPING_MS = 1_000
const HOUSEKEEPING_ITEMS = 256

/** What a session need not keep on disk any more: transactions that were acknowledged, positions that the run has passed. */
export class Housekeeping {
  readonly #s: SessionState
  /** transactions of ours that are acknowledged and still on disk; cleared with every batch beyond HOUSEKEEPING_ITEMS */
  #droppedTx: bigint[] = []
  #compactedRx: bigint
  #cancel: (() => void) | undefined

  constructor(state: SessionState) {
    this.#s = state
    this.#compactedRx = state.record.rx.seq
  }

  get isDue(): boolean {
    return this.#droppedTx.length >= HOUSEKEEPING_ITEMS
  }

  dropped(seq: bigint): void {
    this.#droppedTx.push(seq)
  }

  takeDropped(): bigint[] {
    const dropped = this.#droppedTx
    this.#droppedTx = []
    return dropped
  }

  /** The writes that drop positions up to `last`, and from then on those beyond `run`. */
  replaced(last: bigint, run: bigint): WriteOp[] {
    const ops: WriteOp[] = []
    for (let seq = this.#compactedRx + 1n; seq <= last; seq += 1n) ops.push(this.#s.init.store.positionGone(this.#s.id, seq))
    this.#compactedRx = run
    return ops
  }

  soon(): void {
    if (this.#cancel !== undefined || this.#s.end !== undefined) return
    this.#cancel = this.#s.init.clock.after(HOUSEKEEPING_MS, () => {
      this.#cancel = undefined
      void this.tidy()
    })
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** What was acknowledged leaves the disk, in one batch with the record that no longer needs it. */
  ops(): WriteOp[] {
    const { init, id, contract, row } = this.#s
    const { store } = init
    const ops: WriteOp[] = [store.record(row)]
    if (contract !== undefined) ops.push(store.totals(id, contract.totals()))
    for (const seq of this.takeDropped()) ops.push(store.transactionGone(id, seq))
    ops.push(...this.replaced(row.rx.seq, row.rx.seq))
    return ops
  }

  async tidy(): Promise<void> {
    if (this.#s.end !== undefined) return
    try {
      await this.#s.stored
      if (this.#s.end === undefined) await this.#s.commit(this.ops())
    } catch (error) {
      this.#s.log.warn({ err: error }, 'what was acknowledged could not be dropped yet')
    }
  }
}

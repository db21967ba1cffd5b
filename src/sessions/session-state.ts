import { toHex } from '../../protocol/bytes.ts'
import { LazySet } from '../../protocol/lazy.ts'
import { CONTRACT_GRACE_MS, ContractMeter } from '../../protocol/session/contract.ts'
import { Journal } from '../../protocol/session/journal.ts'
import { ReceiveLedger } from '../../protocol/session/ledger.ts'
import { decodeSfc } from '../../protocol/session/sfc.ts'
import type { TeardownReason } from '../../protocol/session/teardown.ts'
import type { RookeryError } from '../errors.ts'
import type { Logger } from '../platform/logger.ts'
import type { WriteOp } from '../store/store.ts'
import type { DurableSessionInit } from './durable-session-init.ts'
import type { LiveSession } from './live-session.ts'
import type { SessionInfo } from './session.ts'
import { sessionError } from './session-errors.ts'
import type { SessionRecord } from './session-record.ts'
import type { JournalTag } from './session-store.ts'

/** What the parts of one session share: where it stands in memory, and its writes to disk. */
export class SessionState {
  readonly init: DurableSessionInit
  readonly id: string
  readonly log: Logger
  readonly journal: Journal<JournalTag>
  readonly ledger: ReceiveLedger
  readonly contract: ContractMeter | undefined
  record: SessionRecord
  phase: SessionInfo['state'] = 'disconnected'
  /** what carries it now */
  epoch: LiveSession | undefined
  lastEpoch: LiveSession | undefined
  end: { reason: string } | undefined
  closeWanted: TeardownReason | undefined
  lastLoss: string | undefined
  resumes = 0
  /** the run of what came, or of a head, moved */
  runMoved: () => void = () => {}
  /** settles with the first write of the record; undefined before a new session's first READY */
  stored: Promise<void> | undefined
  /** commits of this session under way */
  readonly #writing = new LazySet<Promise<void>>()

  constructor(init: DurableSessionInit, age: 'new' | 'held') {
    this.init = init
    this.record = init.record
    this.id = toHex(init.record.sid)
    this.log = init.logger.child(`session ${this.id.slice(0, 8)}`)
    const { crypto, record, held } = init
    this.journal = held?.journal ?? new Journal(crypto, record.tx)
    this.ledger = held?.ledger ?? new ReceiveLedger(crypto, record.rx, record.rx.heads)
    this.contract = meterOf(init, () => this.record)
    if (age === 'held') this.stored = Promise.resolve()
  }

  /** Synced when it resolves. */
  async commit(ops: readonly WriteOp[]): Promise<void> {
    const writing = this.init.store.commit(ops)
    this.#writing.add(writing)
    try {
      await writing
    } finally {
      this.#writing.delete(writing)
    }
  }

  /** Resolves once the writes that are under way now are done, well or not. */
  async written(): Promise<void> {
    await Promise.allSettled([...this.#writing])
  }

  /** The record as it is to be stored now. */
  get row(): SessionRecord {
    const { base } = this.journal
    const { run, heads } = this.ledger
    return {
      ...this.record,
      tx: { seq: base.seq, hash: base.hash, heads: base.heads },
      rx: { seq: run.seq, hash: run.hash, heads }
    }
  }

  touch(): void {
    const nowMs = this.init.clock.nowMs()
    if (nowMs > this.record.activeAtMs) this.record = { ...this.record, activeAtMs: nowMs }
  }

  /** The contract ended, and with it the time to say goodbye: no connection can carry the session any more. */
  get contractIsOver(): boolean {
    return this.contract !== undefined && this.init.clock.monotonicMs() > this.contract.expiresAtMs + CONTRACT_GRACE_MS
  }

  closedError(): RookeryError {
    return sessionError('SESSION_CLOSED', 'the session is closing or closed', {
      remedy: 'open a new session',
      data: { reason: this.end?.reason }
    })
  }
}

function meterOf({ record, clock, held }: DurableSessionInit, now: () => SessionRecord): ContractMeter | undefined {
  if (record.sfc === undefined) return undefined
  const totals = held?.totals
  return new ContractMeter({
    block: decodeSfc(record.sfc),
    eids: {
      get sent() {
        return now().local
      },
      get received() {
        return now().remote
      }
    },
    nowMs: clock.monotonicMs(),
    ageMs: Math.max(0, clock.nowMs() - record.openedAtMs),
    start: held === undefined ? 'new' : 'resumed',
    ...(totals === undefined ? {} : { totals })
  })
}

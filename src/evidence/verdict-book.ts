import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type EscrowState, type EscrowStep, NOMINAL, type RebuttalKind, stepEscrow } from '../../protocol/evidence/escrow.ts'
import type { EvidenceKind } from '../../protocol/evidence/proof.ts'
import { type Eid, type EidHex, eidHex, eidToDid, eid as toEid } from '../../protocol/identity/eid.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { type PomRecord, pomType } from '../../protocol/records/pom.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import { cborCodec, type Store, type Table } from '../store/store.ts'
import type { Origin, Standing, Verdict } from './evidence.ts'
import type { StakeLedger } from './stake-ledger.ts'

/**
 * Verdicts on others' word. A further one takes the place of one whose escrow is over, whose ledger was told, and whose target this node has had
 * least to do with: its ticket stays at the registrars, and is found again when the target is met. Where there is none it is refused (`full`).
 */
export const VERDICTS_MAX = 10_000
/** Beyond them, for evidence that this node found itself. */
export const VERDICTS_OWN_MAX = 1_000
/** Deadlines are wall time; the clock is looked at this often, so that one that was set, or a laptop that slept, is noticed. */
const LOOK_MS = 60_000
const LEDGER_RETRY_MIN_MS = 60_000
const LEDGER_RETRY_MAX_MS = 3_600_000

/** p: phase, s: challenged at, d: deadline, f: items first seen, x: slashed at (0: not yet), o: found by us, l: ledger told, r: the ticket */
type Row = { p: 'challenged' | 'slashed'; s: number; d: number; f: number; x: number; o: Origin; l: boolean; r: Uint8Array }

/** What is held in memory of one identity; its ticket stays on disk. */
export interface HeldVerdict {
  state: Exclude<EscrowState, { phase: 'nominal' }>
  deadlineMs: number
  kind: EvidenceKind
  accuser: Eid
  origin: Origin
  ledgerTold: boolean
}

export interface VerdictBookInit {
  verdictsMax?: number
  verdictsOwnMax?: number
}

interface Components {
  store: Store
  clock: Clock
  crypto: CryptoProvider
  logger: Logger
  ledger: StakeLedger
}

/**
 * The two-phase slashing of every identity that was proven to contradict itself, on disk before it is acted upon. One timer runs all escrows; a
 * deadline that passed while the node was down is made up for at the start, and a ledger that was not told for certain is told then.
 */
export class VerdictBook {
  readonly #c: Components
  readonly #max: Record<Origin, number>
  readonly #table: Table<Row>
  readonly #held = new Map<EidHex, HeldVerdict>()
  /** targets that this node refused something, the longest ago first; among `#held` */
  readonly #met = new Set<EidHex>()
  readonly #locks = new KeyedLock()
  readonly #listeners: ((eid: EidHex, standing: Standing) => void)[] = []
  readonly #stopping = new AbortController()
  readonly #telling = new Map<EidHex, { retryMs: number; cancel: () => void }>()
  /** undefined: no escrow is open */
  #cancelLook: (() => void) | undefined
  #work: Promise<void> = Promise.resolve()

  private constructor(components: Components, { verdictsMax = VERDICTS_MAX, verdictsOwnMax = VERDICTS_OWN_MAX }: VerdictBookInit) {
    this.#c = components
    this.#max = { told: verdictsMax, own: verdictsMax + verdictsOwnMax }
    this.#table = components.store.table('evidence-verdicts', cborCodec<Row>())
  }

  static async open(components: Components, init: VerdictBookInit = {}): Promise<VerdictBook> {
    const book = new VerdictBook(components, init)
    for await (const [name, row] of book.#table.entries()) book.#held.set(name as EidHex, heldOf(row))
    return book
  }

  /** Ends what came due while the node was down and runs the escrows from now on. */
  begin(): void {
    this.#look()
  }

  get(eid: Eid): HeldVerdict | undefined {
    return this.#held.get(eidHex(eid))
  }

  /** Something was asked of the target, or it asked for something. */
  met(eid: Eid): void {
    const name = eidHex(eid)
    if (!this.#held.has(name)) return
    this.#met.delete(name)
    this.#met.add(name)
  }

  standing(eid: Eid): Standing {
    return this.get(eid)?.state.phase ?? 'nominal'
  }

  entries(): Iterable<[EidHex, HeldVerdict]> {
    return this.#held.entries()
  }

  get size(): number {
    return this.#held.size
  }

  onStanding(listener: (eid: EidHex, standing: Standing) => void): void {
    this.#listeners.push(listener)
  }

  /** The ticket that the verdict rests on. */
  async ticket(eid: Eid): Promise<Uint8Array | undefined> {
    return (await this.#table.get(eidHex(eid)))?.r
  }

  /**
   * A ticket that was verified.
   * @param firstSeenMs - when this node first saw the earlier of the two items
   * @param rebuttal - what this node holds of the identity's retirement
   */
  challenge(
    pom: PomRecord,
    {
      origin,
      firstSeenMs,
      rebuttal
    }: { origin: Origin; firstSeenMs: number; rebuttal: { by: RebuttalKind; heldSinceMs: number } | undefined }
  ): Promise<Verdict> {
    const { target } = pom.payload
    const name = eidHex(target)
    return this.#locks.run(name, async () => {
      const nowMs = this.#c.clock.nowMs()
      const held = this.#held.get(name)
      const challenged = stepEscrow(held?.state ?? NOMINAL, { kind: 'challenge', nowMs, firstSeenMs })
      const step = rebuttal === undefined ? challenged : rebut(challenged, rebuttal, nowMs)
      if (step.state === held?.state) return 'known'
      if (step.state.phase === 'nominal') {
        if (held !== undefined) await this.#forget(name)
        this.#c.logger.info({ agent: eidToDid(target), by: rebuttal?.by }, 'a charge is rebutted: the identity was retired before')
        return 'rebutted'
      }
      if (held === undefined && this.#held.size >= this.#max[origin] && !(await this.#makeRoom())) {
        this.#c.logger.warn({ agent: eidToDid(target), verdicts: this.#held.size }, 'no room for another verdict')
        return 'full'
      }
      await this.#write(name, step.state, held ?? newVerdict(pom, origin), held === undefined ? pom.bytes : undefined)
      if (held === undefined) {
        this.#c.logger.warn({ agent: eidToDid(target), kind: pom.payload.kind, origin }, 'an identity is proven to contradict itself')
      }
      if (held?.state.phase !== step.state.phase) this.#tell(name, step.state.phase)
      // a new deadline is later than all that the timer runs for
      if (this.#cancelLook === undefined || step.state.phase === 'slashed') this.#look()
      return held === undefined ? 'challenged' : 'known'
    })
  }

  async #makeRoom(): Promise<boolean> {
    const isOver = ({ state, ledgerTold, origin }: HeldVerdict) => state.phase === 'slashed' && ledgerTold && origin === 'told'
    let oldest: EidHex | undefined
    for (const [name, held] of this.#held) {
      if (isOver(held) && !this.#met.has(name)) {
        oldest = name
        break
      }
    }
    for (const name of oldest === undefined ? this.#met : []) {
      const held = this.#held.get(name)
      if (held !== undefined && isOver(held)) {
        oldest = name
        break
      }
    }
    if (oldest === undefined) return false
    await this.#forget(oldest)
    return true
  }

  async #forget(name: EidHex): Promise<void> {
    await this.#c.store.commit([this.#table.del(name)])
    this.#held.delete(name)
    this.#met.delete(name)
    this.#tell(name, 'nominal')
  }

  /** @param ticket - undefined keeps the one on disk */
  async #write(name: EidHex, state: HeldVerdict['state'], verdict: HeldVerdict, ticket: Uint8Array | undefined): Promise<void> {
    const record = ticket ?? (await this.#table.get(name))?.r
    if (record === undefined) throw new TypeError('a verdict rests on a ticket')
    const next: HeldVerdict = { ...verdict, state, deadlineMs: state.phase === 'challenged' ? state.deadlineMs : verdict.deadlineMs }
    await this.#c.store.commit([this.#table.put(name, rowOf(next, record))])
    this.#held.set(name, next)
  }

  #tell(name: EidHex, standing: Standing): void {
    for (const listener of this.#listeners) listener(name, standing)
  }

  /** Ends the escrows that are over and sets the timer to the next. */
  #look(): void {
    this.#cancelLook?.()
    this.#cancelLook = undefined
    if (this.#stopping.signal.aborted) return
    const nowMs = this.#c.clock.nowMs()
    let nextMs = nowMs + LOOK_MS
    let open = false
    for (const [name, { state, ledgerTold }] of this.#held) {
      if (state.phase === 'challenged') {
        open = true
        if (state.deadlineMs <= nowMs) this.#end(name)
        else nextMs = Math.min(nextMs, state.deadlineMs)
      } else if (!ledgerTold && !this.#telling.has(name)) this.#tellLedger(name)
    }
    if (open) this.#cancelLook = this.#c.clock.after(nextMs - nowMs, () => this.#look())
  }

  #end(name: EidHex): void {
    this.#run(() =>
      this.#locks.run(name, async () => {
        const held = this.#held.get(name)
        if (held === undefined) return
        const { state, outcome } = stepEscrow(held.state, { kind: 'tick', nowMs: this.#c.clock.nowMs() })
        if (outcome !== 'slashed' || state.phase !== 'slashed') return
        await this.#write(name, state, held, undefined)
        this.#c.logger.warn({ agent: didOf(name) }, 'an identity is slashed: no rebuttal within the escrow')
        this.#tell(name, 'slashed')
        this.#tellLedger(name)
      })
    )
  }

  #tellLedger(name: EidHex): void {
    const before = this.#telling.get(name)
    before?.cancel()
    const retryMs = before?.retryMs ?? LEDGER_RETRY_MIN_MS
    this.#telling.set(name, { retryMs, cancel: () => {} })
    this.#run(async () => {
      try {
        await this.#slash(name)
        this.#telling.delete(name)
      } catch (error) {
        if (this.#stopping.signal.aborted) return
        this.#c.logger.error({ err: error, agent: didOf(name) }, 'the stake ledger did not take a slashing; it is told again')
        const cancel = this.#c.clock.after(retryMs, () => this.#tellLedger(name))
        this.#telling.set(name, { retryMs: Math.min(retryMs * 2, LEDGER_RETRY_MAX_MS), cancel })
      }
    })
  }

  async #slash(name: EidHex): Promise<void> {
    const held = this.#held.get(name)
    const row = await this.#table.get(name)
    if (held === undefined || row === undefined || held.state.phase !== 'slashed' || held.ledgerTold) return
    const slashing = { target: eidOf(name), evidence: row.r, atMs: held.state.atMs }
    const ops = await this.#c.ledger.slash(slashing, { signal: this.#stopping.signal })
    const told: HeldVerdict = { ...held, ledgerTold: true }
    await this.#c.store.commit([...ops, this.#table.put(name, rowOf(told, row.r))])
    this.#held.set(name, told)
  }

  /** Work nobody waits for; {@link idle} does. */
  #run(work: () => Promise<void>): void {
    const done = work().catch((error: unknown) => {
      if (!this.#stopping.signal.aborted) this.#c.logger.error({ err: error }, 'a verdict could not be carried on; it is tried again')
    })
    this.#work = Promise.all([this.#work, done]).then(() => {})
  }

  async idle(): Promise<void> {
    for (let work: Promise<void> | undefined; work !== this.#work; ) {
      work = this.#work
      await work
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the node stops'))
    this.#cancelLook?.()
    for (const { cancel } of this.#telling.values()) cancel()
    await this.idle()
  }
}

function rebut(step: EscrowStep, { by, heldSinceMs }: { by: RebuttalKind; heldSinceMs: number }, nowMs: number): EscrowStep {
  const after = stepEscrow(step.state, { kind: 'rebuttal', rebuttal: by, nowMs, heldSinceMs })
  return after.outcome === 'rebutted' ? after : step
}

function newVerdict({ payload }: PomRecord, origin: Origin): HeldVerdict {
  const state = { phase: 'challenged', sinceMs: 0, deadlineMs: 0, firstSeenMs: 0 } as const
  return { state, deadlineMs: 0, kind: payload.kind, accuser: payload.accuser, origin, ledgerTold: false }
}

function rowOf({ state, deadlineMs, origin, ledgerTold }: HeldVerdict, ticket: Uint8Array): Row {
  const [f, x] = state.phase === 'challenged' ? [state.firstSeenMs, 0] : [0, state.atMs]
  return { p: state.phase, s: state.sinceMs, d: deadlineMs, f, x, o: origin, l: ledgerTold, r: ticket }
}

function heldOf({ p, s, d, f, x, o, l, r }: Row): HeldVerdict {
  const { kind, accuser } = decodeRecord(pomType, r).payload
  const state: HeldVerdict['state'] =
    p === 'slashed' ? { phase: p, sinceMs: s, atMs: x } : { phase: p, sinceMs: s, deadlineMs: d, firstSeenMs: f }
  return { state, deadlineMs: d, kind, accuser: toEid(new Uint8Array(accuser)), origin: o, ledgerTold: l }
}

function eidOf(name: EidHex): Eid {
  return toEid(Uint8Array.from(Buffer.from(name, 'hex')))
}

function didOf(name: EidHex): string {
  return eidToDid(eidOf(name))
}

import { ProtocolError } from '../errors.ts'
import type { ChainPoint, ChannelHead } from './chain.ts'
import { FLAG } from './flags.ts'
import { ITEM_KINDS, type Item } from './items.ts'
import type { Unacked } from './journal.ts'
import { decodeReady, encodeReady } from './ready.ts'
import type { ReceiveSide } from './receive-side.ts'
import { reconcile } from './reconcile.ts'
import type { SendSide } from './send-side.ts'
import type { ReadyFacts } from './stream-effects.ts'
import type { CarriedState } from './stream-init.ts'

/** Both READYs of an epoch (protocol/README.md §6): what ours tells, and what follows from the peer's. */
export class ReadyExchange<T> {
  readonly #send: SendSide<T>
  readonly #receive: ReceiveSide
  readonly #eseLost: boolean
  readonly #groups: CarriedState<T>['groups']
  readonly #isGroup: boolean
  /** as this epoch began: what READY tells and is compared with */
  readonly #rx: { rx: ChainPoint; heads: ReadonlyMap<number, ChannelHead> }
  #sent = false
  #facts: ReadyFacts | undefined

  constructor(carried: CarriedState<T>, flags: number, send: SendSide<T>, receive: ReceiveSide) {
    this.#send = send
    this.#receive = receive
    this.#eseLost = carried.eseLost === true
    this.#groups = carried.groups
    this.#isGroup = (flags & FLAG.GROUP) !== 0
    this.#rx = { rx: carried.rx, heads: carried.rxHeads }
  }

  get sent(): boolean {
    return this.#sent
  }

  /** What the peer's said. */
  get facts(): ReadyFacts | undefined {
    return this.#facts
  }

  get isOver(): boolean {
    return this.#sent && this.#facts !== undefined
  }

  /** Our READY, which leaves now. */
  write(): Uint8Array {
    this.#sent = true
    const groups = this.#isGroup ? (this.#groups?.write() ?? NO_GROUPS) : undefined
    const { journal } = this.#send
    return encodeReady({ rx: this.#receive.run, tx: journal.synced, eseLost: this.#eseLost, heads: this.#receive.headsAhead(), groups })
  }

  /**
   * Takes the peer's READY, and lets out what it lacks.
   * @returns what it acknowledges; `diverged`: the two sides hold different histories
   * @throws ProtocolError `OUT_OF_ORDER`; those of `decodeReady` and of the groups' own part
   */
  take(items: readonly Item[]): { diverged?: ProtocolError; acked: Unacked<T>[] } {
    const [item] = items
    if (item === undefined || items.length !== 1 || item.kind !== ITEM_KINDS.ready) {
      throw new ProtocolError('OUT_OF_ORDER', "the peer's first record is not its READY alone", { field: 'kind' })
    }
    const ready = decodeReady(item.payload, this.#isGroup ? 'with groups' : 'plain')
    if (ready.groups !== undefined) this.#groups?.take(ready.groups)
    const verdict = reconcile(ready, this.#send.journal, this.#rx)
    if (verdict.kind === 'diverged') return { diverged: verdict.error, acked: [] }
    const peer = { rx: ready.rx.seq, tx: ready.tx.seq, heads: copyHeads(ready.heads), eseLost: ready.eseLost }
    if (verdict.kind === 'snapshot') {
      this.#facts = { peer, resent: 0, snapshot: 'wanted' }
      return { acked: [] }
    }
    const acked = this.#send.ack(verdict.ack)
    const { seq } = this.#send.journal.synced
    const lacking = verdict.entries.filter((entry) => entry.seq <= seq)
    this.#send.begin(lacking)
    this.#facts = { peer, resent: lacking.length, snapshot: 'none' }
    return { acked }
  }
}

/** u8 count 0 */
const NO_GROUPS = new Uint8Array(1)

function copyHeads(heads: ReadonlyMap<number, ChannelHead>): Map<number, ChannelHead> {
  return new Map([...heads].map(([channel, { seq, digest }]) => [channel, { seq, digest: digest.slice() }]))
}

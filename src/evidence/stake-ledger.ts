import type { Eid } from '../../protocol/identity/eid.ts'
import { eidHex } from '../../protocol/identity/eid.ts'
import { bytesCodec, type Store, type Table, type WriteOp } from '../store/store.ts'

/** An identity whose escrow ended without a rebuttal. */
export interface Slashing {
  target: Eid
  /** the signed `pom` record, whole: whoever holds the stake verifies it again */
  evidence: Uint8Array
  /** when the escrow ended, Unix ms */
  atMs: number
}

/**
 * Where stakes are kept: a hook, as no ledger is part of the protocol (protocol/README.md §8). Called once for each target. The operations that it gives
 * back are written in the same batch as the mark that it was told: a ledger in the node's store takes each stake exactly once, whatever the process
 * dies of. A ledger elsewhere may see a call again when the node dies before the mark is written, or when a verdict that had made room is reached anew, and must know a target that it has dealt with.
 * A rejection is tried again.
 */
export interface StakeLedger {
  slash(slashing: Slashing, options: { signal: AbortSignal }): Promise<readonly WriteOp[]>
}

/** The ledger for tests and for nodes that have no other: writes down whose stake was taken, and with what evidence. */
export class LocalStakeLedger implements StakeLedger {
  readonly #table: Table<Uint8Array>

  constructor(store: Store) {
    this.#table = store.table('evidence-ledger', bytesCodec)
  }

  async slash({ target, evidence }: Slashing): Promise<readonly WriteOp[]> {
    return [this.#table.put(eidHex(target), evidence)]
  }

  /** The evidence on which the stake was taken. */
  async taken(target: Eid): Promise<Uint8Array | undefined> {
    const evidence = await this.#table.get(eidHex(target))
    return evidence === undefined ? undefined : new Uint8Array(evidence)
  }
}

import { ITEM_KINDS } from '../../protocol/session/items.ts'
import type { Unacked } from '../../protocol/session/journal.ts'
import { decodeSnapshotPart } from '../../protocol/session/snapshot.ts'
import type { ReadyFacts } from '../../protocol/session/stream-effects.ts'
import type { WriteOp } from '../store/store.ts'
import type { DurableSession } from './durable-session.ts'
import type { ItemTag, SnapshotEffect } from './epoch-owner.ts'
import type { Housekeeping } from './housekeeping.ts'
import type { LiveSession } from './live-session.ts'
import type { Outbox } from './outbox.ts'
import type { SessionEvent } from './session.ts'
import type { SessionState } from './session-state.ts'
import type { JournalTag } from './session-store.ts'

export interface SnapshotContext {
  session: DurableSession
  state: SessionState
  outbox: Outbox
  housekeeping: Housekeeping
  tell: (event: SessionEvent) => void
}

/** The state that takes the place of what the peer lost and the journal no longer holds (protocol/README.md §6, Snapshot): on disk, then sent. */
export async function sendSnapshot(
  { session, state, outbox, housekeeping, tell }: SnapshotContext,
  epoch: LiveSession,
  { peer }: ReadyFacts
): Promise<void> {
  const { journal, init, id } = state
  const { store, snapshot, clock } = init
  try {
    await state.written()
    const { base } = journal
    const put = partsAtBase(state, peer.heads)
    if (put !== undefined) {
      epoch.sendSnapshot(put)
      tell({ kind: 'gap', session: session.info(), direction: 'sent', from: peer.rx + 1n, to: base.seq })
      return
    }
    const before = [...journal.entries].map(({ seq }) => seq)
    const bytes = (await snapshot?.(session)) ?? new Uint8Array(0)
    const tag: JournalTag = { atMs: clock.nowMs(), resolve: () => {}, reject: () => {} }
    const { parts, fallen } = journal.putSnapshot(bytes, tag, peer.heads)
    for (const part of parts) outbox.count(part.item.payload.length)
    const ops = [...before, ...housekeeping.takeDropped()].map((seq) => store.transactionGone(id, seq))
    for (const { seq, item } of journal.entries) {
      ops.push(store.transaction(id, seq, { kind: item.kind, channel: item.channel, atMs: item.tag.atMs, payload: item.payload }))
    }
    await state.commit([...ops, store.record(state.row)])
    for (const item of fallen) outbox.settle(item)
    epoch.sendSnapshot(parts as Unacked<ItemTag>[])
    tell({ kind: 'gap', session: session.info(), direction: 'sent', from: peer.rx + 1n, to: base.seq })
  } catch (error) {
    epoch.abort('failed', error instanceof Error ? error : undefined)
  }
}

/**
 * A snapshot that an earlier epoch put there and the peer never took stands at the base still: it serves again. To write everything anew each time
 * would let a peer that asks again and again write our disk.
 */
function partsAtBase({ journal }: SessionState, heads: ReadonlyMap<number, unknown>): Unacked<ItemTag>[] | undefined {
  if (heads.size > 0) return undefined
  const parts: Unacked<ItemTag>[] = []
  for (const entry of journal.entries) {
    if (entry.item.kind !== ITEM_KINDS.snapshotPart) break
    parts.push(entry as Unacked<ItemTag>)
  }
  const [first] = parts
  if (first === undefined) return undefined
  const { index, count, base } = decodeSnapshotPart(first.item.payload)
  return index === 0 && count === parts.length && base.seq === journal.base.seq ? parts : undefined
}

/** The peer's, applied in one batch with where this side then stands. */
export async function applySnapshot(
  { session, state, housekeeping, tell }: SnapshotContext,
  epoch: LiveSession,
  { lostFrom, base, bytes, run, heads }: SnapshotEffect
): Promise<void> {
  try {
    await state.written()
    const last = state.ledger.run.seq
    state.ledger.reset(run, heads)
    const goneUpTo = last + 4_096n < base ? last + 4_096n : base
    const ops: WriteOp[] = [state.init.store.record(state.row), ...housekeeping.replaced(goneUpTo, run.seq)]
    tell({ kind: 'gap', session: session.info(), direction: 'received', from: lostFrom, to: base, bytes })
    await state.commit(ops)
    epoch.snapshotSynced(run.seq)
  } catch (error) {
    epoch.lose(error)
  }
}

import { equals } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import type { ChainPoint, ChannelHead } from './chain.ts'
import type { Journal, Unacked } from './journal.ts'
import type { Ready } from './ready.ts'

/** What a peer's READY asks of this side (protocol/README.md §6, Resume). */
export type Reconciliation<T> =
  /** drop up to `ack`, then send these, in order */
  | { kind: 'resend'; ack: bigint; entries: Unacked<T>[] }
  /** the journal no longer reaches back to what the peer has: it gets a snapshot from the base on */
  | { kind: 'snapshot' }
  /** close, tell both sides, start anew: never a silent merge, never an accusation */
  | { kind: 'diverged'; error: ProtocolError }

/**
 * Compares the peer's READY with the journal, and with what this side holds of the peer.
 * @param held - the run whose effects are synced, and all channel heads
 */
export function reconcile<T>(
  ready: Ready,
  journal: Journal<T>,
  held: { rx: ChainPoint; heads: ReadonlyMap<number, ChannelHead> }
): Reconciliation<T> {
  const error = receivedDifference(ready, held) ?? sentDifference(ready, journal)
  if (error !== undefined) return { kind: 'diverged', error }
  if (ready.rx.seq < journal.base.seq) return { kind: 'snapshot' }
  const entries: Unacked<T>[] = []
  for (const entry of journal.entries) {
    if (entry.seq > ready.rx.seq && entry.seq > (ready.heads.get(entry.item.channel)?.seq ?? 0n)) entries.push(entry)
  }
  return { kind: 'resend', ack: ready.rx.seq, entries }
}

/** The peer sent less than we hold of it, or another chain up to the same number. */
function receivedDifference({ tx }: Ready, { rx, heads }: { rx: ChainPoint; heads: ReadonlyMap<number, ChannelHead> }) {
  let newest = rx.seq
  for (const head of heads.values()) if (head.seq > newest) newest = head.seq
  if (tx.seq < newest) {
    return new ProtocolError('SEQUENCE', `the peer sent ${tx.seq} transactions, we hold ${newest}`, { field: 'txSeq' })
  }
  if (tx.seq === rx.seq && !equals(tx.hash, rx.hash)) {
    return new ProtocolError('HASH_MISMATCH', "the peer's chain is another than we hold", { field: 'txHash' })
  }
  return undefined
}

/** The peer holds what we never sent, or something else than we sent. */
function sentDifference<T>({ rx, heads }: Ready, journal: Journal<T>): ProtocolError | undefined {
  const { base, synced } = journal
  if (rx.seq > synced.seq) {
    return new ProtocolError('SEQUENCE', `the peer holds ${rx.seq} of our transactions, we sent ${synced.seq}`, { field: 'rxSeq' })
  }
  if (rx.seq >= base.seq && !journal.agrees(rx)) {
    return new ProtocolError('HASH_MISMATCH', 'the peer holds another chain of our transactions', { field: 'rxHash' })
  }
  for (const [channel, head] of heads) {
    if (head.seq > synced.seq) {
      return new ProtocolError('SEQUENCE', `the peer names head ${head.seq} of channel ${channel}, we sent ${synced.seq}`, {
        field: 'heads'
      })
    }
    const mine = head.seq > base.seq ? journal.entry(head.seq) : undefined
    const agrees = mine === undefined ? agreesBelow(head, base.heads.get(channel)) : sameHead(head, mine, channel)
    if (!agrees) {
      return new ProtocolError('HASH_MISMATCH', `the peer holds another transaction ${head.seq} of channel ${channel}`, { field: 'heads' })
    }
  }
  return undefined
}

function sameHead<T>(head: ChannelHead, mine: Unacked<T>, channel: number): boolean {
  return mine.item.channel === channel && equals(mine.digest, head.digest)
}

/** Below the base only a channel's last digest is known; an older head cannot be judged, one that is newer never was. */
function agreesBelow(head: ChannelHead, mine: ChannelHead | undefined): boolean {
  if (mine === undefined || head.seq > mine.seq) return false
  return head.seq < mine.seq || equals(head.digest, mine.digest)
}

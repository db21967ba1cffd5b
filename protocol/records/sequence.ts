import { SEQUENCE_AHEAD_MS } from './envelope.ts'

/** The next number of a signer, or how long the clock needs until it may be used. */
export type NextSequence = { number: number; waitMs: 0 } | { number: number; waitMs: number }

/**
 * `gen` and `seq`: max(last + 1, seen + 1, now), never more than 60 s ahead of the clock (protocol/README.md §3). The limit is measured from the whole
 * second, since a record's `ts` has no finer unit. The caller writes the number to disk, synced, before anything is signed with it.
 * `last` is the last number written to disk, -1 when there is none; `seen` the highest number found in the network among records of this signer, -1
 * when there is none; `nowMs` the wall clock, ms since the Unix epoch.
 * @returns `waitMs` 0 when it may be used now; else ask again after that long
 */
export function nextSequence({ last, seen, nowMs }: { last: number; seen: number; nowMs: number }): NextSequence {
  const now = Math.floor(nowMs)
  const number = Math.max(last + 1, seen + 1, now)
  const limit = Math.floor(now / 1_000) * 1_000 + SEQUENCE_AHEAD_MS
  if (number <= limit) return { number, waitMs: 0 }
  return { number, waitMs: Math.ceil((number - SEQUENCE_AHEAD_MS) / 1_000) * 1_000 - now }
}

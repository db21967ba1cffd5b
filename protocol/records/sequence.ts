import { SEQUENCE_AHEAD_MS } from './envelope.ts'

/** Numbers up to this far ahead of the clock are waited for; those farther ahead came from a clock that was wrong, or is wrong now. */
export const SEQUENCE_WAIT_MAX_MS = 300_000
/** How often a signer may go back below a number that it used, until the clock has passed the highest of all. */
export const SEQUENCE_LANES = 32
/** Of so many numbers the last {@link SEQUENCE_LANES} are one lane each; all others are the ordinary lane 0. */
const LANE_PERIOD = 1_024
const LANE_FIRST = LANE_PERIOD - SEQUENCE_LANES

/** What a signer used for one kind and key; on disk before anything is signed by it. */
export interface UsedNumbers {
  /** the highest ever, -1 for none */
  readonly top: number
  /** 0, or which going back below `top` this is */
  readonly lane: number
  /** the last one used, -1 for none; in lane 0 it is `top` */
  readonly last: number
}
export const NO_NUMBERS: UsedNumbers = { top: -1, lane: 0, last: -1 }

/** The next number of a signer with what to write down for it; and how long the clock needs until it may be used, 0 for now. */
export interface NextSequence {
  number: number
  waitMs: number
  used: UsedNumbers
}

/**
 * `gen` and `seq`: max(last + 1, seen + 1, now), never more than 60 s ahead of the clock (protocol/README.md §3). The limit is measured from the whole
 * second, since a record's `ts` has no finer unit. The caller writes `used` to disk, synced, before anything is signed with the number.
 *
 * Where the numbers used lie more than {@link SEQUENCE_WAIT_MAX_MS} ahead of the clock, a wrong clock made them, and no reader with a right one took
 * them: the next number is of now again. Each such going back has a lane of its own, numbers of one remainder that no other lane uses; so no number comes twice,
 * now or when the time of the wrong clock comes in truth. `seen` is the highest number found in the network among records of this signer, -1 when
 * there is none; `nowMs` the wall clock, ms since the Unix epoch.
 * @returns `waitMs` 0 when it may be used now; else ask again after that long
 */
export function nextSequence({ used, seen, nowMs }: { used: UsedNumbers; seen: number; nowMs: number }): NextSequence {
  const now = Math.floor(nowMs)
  const limit = Math.floor(now / 1_000) * 1_000 + SEQUENCE_AHEAD_MS
  const isWrong = (number: number) => number > now + SEQUENCE_WAIT_MAX_MS
  const heard = isWrong(seen) ? -1 : seen
  const after = (last: number, lane: number) => inLane(Math.max(last + 1, heard + 1, now), lane)
  const answer = (number: number, lane: number): NextSequence => ({
    number,
    waitMs: number <= limit ? 0 : Math.ceil((number - SEQUENCE_AHEAD_MS) / 1_000) * 1_000 - now,
    used: { top: Math.max(used.top, number), lane, last: number }
  })
  const highest = after(used.top, 0)
  if (highest <= limit) return answer(highest, 0)
  if (!isWrong(used.last) || used.lane === SEQUENCE_LANES) return answer(after(used.last, used.lane), used.lane)
  return answer(after(-1, used.lane + 1), used.lane + 1)
}

/** The first number of the lane from `least` on. */
function inLane(least: number, lane: number): number {
  const rest = least % LANE_PERIOD
  if (lane === 0) return rest < LANE_FIRST ? least : least - rest + LANE_PERIOD
  const own = LANE_FIRST + lane - 1
  return least - rest + own + (rest > own ? LANE_PERIOD : 0)
}

import { SOLVER_BITS_MAX } from '../../protocol/discovery/work.ts'
import { RookeryError } from '../errors.ts'

/** Callers that wait for their turn; further ones are refused. */
export const WAITING_MAX = 64

/** How a search stands. Each try succeeds with the same small chance, so what was tried so far makes the rest no shorter. */
export interface WorkProgress {
  readonly bits: number
  readonly tries: number
  /** tries that one solution costs on average, 2^bits */
  readonly expected: number
  /** the chance, 0 to 1, that a search is done by so many tries */
  readonly probability: number
  readonly triesPerSec: number
  /** what is still to come on average */
  readonly etaMs: number
  readonly elapsedMs: number
}

export interface SolveOptions {
  /** ends the search itself, not only the waiting */
  signal?: AbortSignal
  /** told five times a second, and once at the end */
  onProgress?: (progress: WorkProgress) => void
}

/** Finds proofs of work (protocol/README.md §5), beside what else goes on. */
export interface WorkSolver {
  /**
   * @param seed - 32 bytes
   * @returns the nonce, 8 bytes
   * @throws RookeryError `WORK_TOO_HARD` above the solver's limit, `SOLVER_BUSY`, `SOLVER_FAILED`, `SOLVER_STOPPED`; or the signal's reason
   */
  solve(seed: Uint8Array, bits: number, options?: SolveOptions): Promise<Uint8Array>
  /** Ends what is under way and all threads. */
  stop(): Promise<void>
}

/** @param bits - leading zero bits asked for */
export function workProgress(bits: number, tries: number, elapsedMs: number): WorkProgress {
  const expected = 2 ** bits
  const triesPerSec = elapsedMs > 0 ? (tries / elapsedMs) * 1_000 : 0
  return {
    bits,
    tries,
    expected,
    probability: -Math.expm1(tries * Math.log1p(-1 / expected)),
    triesPerSec,
    etaMs: triesPerSec > 0 ? (expected / triesPerSec) * 1_000 : Number.POSITIVE_INFINITY,
    elapsedMs
  }
}

export function tooHard(bits: number, bitsMax = SOLVER_BITS_MAX): RookeryError {
  return new RookeryError('WORK_TOO_HARD', `work of ${bits} bits is asked for, this solver does at most ${bitsMax}`, {
    kind: 'refused',
    field: 'difficulty',
    value: bits,
    remedy: 'try again later: what is asked for falls with the load'
  })
}

export function solverFailed(message: string, cause?: unknown): RookeryError {
  return new RookeryError('SOLVER_FAILED', message, { kind: 'internal', ...(cause === undefined ? {} : { cause }) })
}

export function solverStopped(): RookeryError {
  return new RookeryError('SOLVER_STOPPED', 'the node stops', { kind: 'unavailable' })
}

export function solverBusy(): RookeryError {
  return new RookeryError('SOLVER_BUSY', `${WAITING_MAX} searches for work are waiting already`, {
    kind: 'refused',
    remedy: 'try again when some are done'
  })
}

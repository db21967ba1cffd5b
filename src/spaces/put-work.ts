import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { putSeed, SOLVER_BITS_MAX, workBits } from '../../protocol/discovery/work.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { WorkSolver } from '../work/work-solver.ts'
import { withDeadline } from './deadline.ts'

/** What one record may cost; a writer that is asked for more leaves that registrar out. */
const SOLVE_MS_MAX = 120_000
/** Solved records that are remembered, as they are put again; the oldest goes first. */
const SOLVED_MAX = 1_024
/** Work is done when more than one in so many of the registrars asks for it: a liar alone costs nothing. */
const LONE_ASKER = 5

interface Solved {
  bits: number
  nonce: Uint8Array
}

/** What registrars asked of one record, and the bits to solve: enough for four in five of those that ask; 0 where hardly any does. */
export function bitsWorthSolving(asked: readonly number[], registrars: number): number {
  const within = asked.filter((bits) => bits <= SOLVER_BITS_MAX).sort((a, b) => a - b)
  if (within.length === 0 || asked.length * LONE_ASKER <= registrars) return 0
  return within[Math.ceil(within.length * 0.8) - 1] as number
}

/** Solves what registrars ask of our records (protocol/README.md §4): once a record, whatever the number of registrars, and remembered. */
export class PutWork {
  readonly #clock: Clock
  readonly #crypto: CryptoProvider
  readonly #solver: Pick<WorkSolver, 'solve'>
  readonly #solved = new Map<string, Solved>()

  constructor({ clock, crypto, solver }: { clock: Clock; crypto: CryptoProvider; solver: Pick<WorkSolver, 'solve'> }) {
    this.#clock = clock
    this.#crypto = crypto
    this.#solver = solver
  }

  /** What was solved for this record before. */
  known({ key, record }: { key: Uint8Array; record: Uint8Array }): Solved | undefined {
    return this.#solved.get(toHex(putSeed(this.#crypto, key, record)))
  }

  /**
   * @param bits - at most 24
   * @throws RookeryError `REGISTRY_WORK_TOO_HARD` after two minutes; or the signal's reason
   */
  async solve({ key, record }: { key: Uint8Array; record: Uint8Array }, bits: number, signal: AbortSignal | undefined): Promise<Solved> {
    const known = this.known({ key, record })
    if (known !== undefined && known.bits >= bits) return known
    const seed = putSeed(this.#crypto, key, record)
    const nonce = await withDeadline(this.#clock, SOLVE_MS_MAX, signal, (inner) => this.#solver.solve(seed, bits, { signal: inner })).catch(
      (cause: unknown) => {
        signal?.throwIfAborted()
        throw new RookeryError('REGISTRY_WORK_TOO_HARD', `no nonce of ${bits} bits was found within ${SOLVE_MS_MAX / 1_000} s`, {
          kind: 'unavailable',
          field: 'bits',
          value: bits,
          remedy: 'the set is crowded; the record is put again by itself',
          cause
        })
      }
    )
    const solved = { nonce, bits: workBits(seed, nonce) }
    const name = toHex(seed)
    this.#solved.delete(name)
    if (this.#solved.size >= SOLVED_MAX) this.#solved.delete(this.#solved.keys().next().value as string)
    this.#solved.set(name, solved)
    return solved
  }
}

import { nonceBytes, SOLVER_BITS_MAX, workSeed } from '../../protocol/discovery/work.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { ScalarSearch } from '../work/search.ts'
import { type SolveOptions, solverBusy, solverStopped, tooHard, WAITING_MAX, type WorkSolver, workProgress } from '../work/work-solver.ts'

/** Tries between two turns of the page's event loop: about 10 ms. */
const SLICE_TRIES = 32_768
const LO_COUNT = 2 ** 32

/**
 * Finds proofs of work on the page's own thread, a few milliseconds at a time, so that the page stays alive. In plain JavaScript: WebAssembly and workers
 * need words in a page's security policy that most have not.
 */
export class PageSolver implements WorkSolver {
  readonly #clock: Clock
  readonly #random: Random
  readonly #stopping = new AbortController()
  #turn: Promise<unknown> = Promise.resolve()
  #waiting = 0

  constructor({ clock, random }: { clock: Clock; random: Random }) {
    this.#clock = clock
    this.#random = random
  }

  async solve(seed: Uint8Array, bits: number, options: SolveOptions = {}): Promise<Uint8Array> {
    workSeed(seed)
    if (!Number.isInteger(bits) || bits < 0 || bits > SOLVER_BITS_MAX) throw tooHard(bits)
    options.signal?.throwIfAborted()
    if (this.#waiting >= WAITING_MAX) throw solverBusy()
    this.#waiting++
    const run = this.#turn.then(() => this.#solve(seed, bits, options))
    this.#turn = run.catch(() => {})
    try {
      return await run
    } finally {
      this.#waiting--
    }
  }

  async #solve(seed: Uint8Array, bits: number, { signal, onProgress }: SolveOptions): Promise<Uint8Array> {
    const search = new ScalarSearch()
    const startedMs = this.#clock.monotonicMs()
    let upper = new DataView(this.#random.bytes(4).buffer).getUint32(0)
    for (let tries = 0; ; upper = (upper + 1) % LO_COUNT) {
      search.begin(seed, upper | 0, bits)
      for (let lo = 0; lo < LO_COUNT; lo += SLICE_TRIES) {
        signal?.throwIfAborted()
        this.#stopping.signal.throwIfAborted()
        const found = search.slice(lo, SLICE_TRIES)
        tries += SLICE_TRIES
        onProgress?.(workProgress(bits, tries, this.#clock.monotonicMs() - startedMs))
        if (found !== undefined) return nonceBytes((BigInt(upper) << 32n) | BigInt(found))
        await this.#clock.sleep(0)
      }
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort(solverStopped())
    await this.#turn
  }
}

import type { FuzzTarget } from '../target.ts'
import { Coverage } from './coverage.ts'
import { type Mutator, mutateBytes, mutateWords } from './mutate-bytes.ts'
import type { FuzzRandom } from './random.ts'

/** An input that broke a promise. */
export interface Finding {
  readonly target: string
  /** the error's name, message without numbers, and the places in the code: one for each mistake */
  readonly key: string
  readonly error: string
  readonly input: Uint8Array
}

export interface FuzzStatus {
  readonly execs: number
  readonly edges: number
  readonly features: number
  readonly corpus: number
  readonly findings: number
}

interface Entry {
  readonly bytes: Uint8Array
  /** features that it was the first to reach */
  readonly fresh: number
  /** how often it was chosen */
  used: number
}

/** An input that takes longer than this, three times over, is a finding. */
const SLOW_MS = 2_000
/** Findings of one target that are told apart. */
const FINDINGS_MAX = 50
/** Runs that are spent on making a finding smaller. */
const SHRINK_RUNS = 2_000
const NONE = new Uint8Array(0)

export interface FuzzerInit {
  readonly target: FuzzTarget
  readonly random: FuzzRandom
  /** told before each run, so that a hang or a crash of the process can be traced */
  readonly about: (input: Uint8Array) => void
  readonly found: (finding: Finding) => void
  readonly nowMs: () => number
}

/** Runs inputs of one target, keeps those that reach something new, and makes new ones of them. */
export class Fuzzer {
  readonly #init: FuzzerInit
  readonly #coverage = new Coverage()
  readonly #entries: Entry[] = []
  readonly #keys = new Set<string>()
  readonly #mutators: readonly Mutator[]
  #execs = 0
  /** an error that came outside of a run's own promise */
  #stray: { error: unknown } | undefined

  constructor(init: FuzzerInit) {
    this.#init = init
    const special = init.target.mutators
    this.#mutators = [mutateBytes, ...special, ...special, mutateWords([])]
  }

  get status(): FuzzStatus {
    const { edges, features } = this.#coverage
    return { execs: this.#execs, edges, features, corpus: this.#entries.length, findings: this.#keys.size }
  }

  get corpus(): Uint8Array[] {
    return this.#entries.map(({ bytes }) => bytes)
  }

  /** An unhandled rejection or uncaught exception: it belongs to the input under way. */
  stray(error: unknown): void {
    this.#stray ??= { error }
  }

  /** Runs inputs that are known. Those that reach nothing new are not kept. */
  async feed(inputs: Iterable<Uint8Array>): Promise<void> {
    const inOrder = [...inputs].filter(({ length }) => length <= this.#init.target.bytesMax).sort((a, b) => a.length - b.length)
    for (const input of inOrder) await this.#try(input)
  }

  /** Makes and runs inputs until `enough` says so; it is asked after every batch. */
  async run(enough: (execs: number) => boolean): Promise<void> {
    if (this.#entries.length === 0) this.#entries.push({ bytes: NONE, fresh: 0, used: 0 })
    while (!enough(this.#execs)) {
      for (let i = 0; i < 64; i++) {
        const outcome = this.#try(this.#made())
        if (outcome !== undefined) await outcome
      }
    }
  }

  #made(): Uint8Array {
    const { random, target } = this.#init
    const entry = this.#chosen()
    entry.used++
    let bytes = entry.bytes
    for (let times = 1 << random.below(4); times > 0; times--) {
      const mutator = random.pick(this.#mutators) as Mutator
      bytes = mutator(bytes, random, (random.pick(this.#entries) as Entry).bytes)
    }
    return bytes.length > target.bytesMax ? bytes.slice(0, target.bytesMax) : bytes
  }

  /** Of three, the one that was used least for what it brought; half of the time of the newest. */
  #chosen(): Entry {
    const { random } = this.#init
    const from = random.oneIn(3) ? Math.max(0, this.#entries.length - 32) : 0
    let best: Entry | undefined
    for (let i = 0; i < 3; i++) {
      const entry = this.#entries[from + random.below(this.#entries.length - from)] as Entry
      if (best === undefined || entry.used / (1 + entry.fresh) < best.used / (1 + best.fresh)) best = entry
    }
    return best as Entry
  }

  /** Not a promise where the target is not: a microtask for each input costs more than many inputs do. */
  #try(input: Uint8Array): Promise<void> | undefined {
    const { target, about, nowMs } = this.#init
    about(input)
    this.#execs++
    this.#coverage.clear()
    const before = nowMs()
    try {
      const outcome = target.run(input.slice())
      if (outcome !== undefined) {
        return outcome.then(
          () => this.#judge(input, before),
          (error) => this.#fail(input, error)
        )
      }
    } catch (error) {
      return this.#fail(input, error)
    }
    return this.#judge(input, before)
  }

  #judge(input: Uint8Array, before: number): Promise<void> | undefined {
    const fresh = this.#coverage.take()
    if (fresh > 0) this.#entries.push({ bytes: input, fresh, used: 0 })
    const error = this.#stray === undefined ? pollution() : this.#stray.error
    this.#stray = undefined
    if (error !== undefined) return this.#fail(input, error)
    if (this.#init.nowMs() - before > SLOW_MS) return this.#slow(input)
    return undefined
  }

  async #slow(input: Uint8Array): Promise<void> {
    for (let again = 0; again < 2; again++) {
      const before = this.#init.nowMs()
      await this.#outcome(input)
      if (this.#init.nowMs() - before <= SLOW_MS) return
    }
    await this.#fail(input, new Error(`takes longer than ${SLOW_MS} ms`))
  }

  async #fail(input: Uint8Array, error: unknown): Promise<void> {
    this.#coverage.take()
    const key = keyOf(error)
    if (this.#keys.has(key) || this.#keys.size >= FINDINGS_MAX) return
    this.#keys.add(key)
    const small = await this.#shrunk(input, key)
    this.#init.found({ target: this.#init.target.name, key, error: describe(error), input: small })
  }

  async #outcome(input: Uint8Array): Promise<string | undefined> {
    this.#init.about(input)
    this.#execs++
    try {
      await this.#init.target.run(input.slice())
    } catch (error) {
      return keyOf(error)
    }
    const stray = this.#stray
    this.#stray = undefined
    return stray === undefined ? undefined : keyOf(stray.error)
  }

  /** Leaves out what can be left out, in ever smaller pieces. */
  async #shrunk(input: Uint8Array, key: string): Promise<Uint8Array> {
    let best = input
    let runs = 0
    for (let piece = best.length >> 1; piece >= 1; piece >>= 1) {
      for (let at = 0; at < best.length && runs < SHRINK_RUNS; ) {
        const smaller = Uint8Array.from([...best.subarray(0, at), ...best.subarray(at + piece)])
        runs++
        if ((await this.#outcome(smaller)) === key) best = smaller
        else at += piece
      }
    }
    return best
  }
}

/** Whether something was hung onto what every object inherits. */
function pollution(): Error | undefined {
  for (const name in {}) {
    delete (Object.prototype as Record<string, unknown>)[name]
    return new Error(`Object.prototype has got a member "${name}"`)
  }
  return undefined
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? String(error)) : `thrown: ${String(error)}`
}

function keyOf(error: unknown): string {
  if (!(error instanceof Error)) return `thrown ${typeof error}`
  const places = (error.stack ?? '')
    .split('\n')
    .filter((line) => /(protocol|src|sim)\//.test(line) && line.includes('.ts:'))
    .slice(0, 2)
    .map((line) => /((?:protocol|src|sim)\/[^:)]+:\d+)/.exec(line)?.[1])
  return `${error.name}: ${error.message
    .split('\n')[0]
    ?.replaceAll(/[0-9]+|"[^"]*"/g, '#')
    .slice(0, 80)} @ ${places.join(' < ')}`
}

import type { Mutator } from './engine/mutate-bytes.ts'

/** One thing that takes bytes from outside. */
export interface FuzzTarget {
  /** lower-case words and hyphens: the corpus file's name, and what `--target` takes */
  readonly name: string
  /** inputs that are good, or nearly */
  readonly seeds: () => Iterable<Uint8Array>
  /**
   * Takes any bytes. Throws, or rejects, only where the code under test broke a promise: the errors that it may answer with are caught inside.
   */
  readonly run: (bytes: Uint8Array) => void | Promise<void>
  /** longer inputs are not made */
  readonly bytesMax: number
  /** beside the plain ones, which every target gets */
  readonly mutators: readonly Mutator[]
}

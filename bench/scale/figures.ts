export const KINDS = ['sessions', 'spaces', 'records', 'tasks'] as const
export type Kind = (typeof KINDS)[number]

/** What each kind grows to at `--part 1`. */
export const FULL: Record<Kind, number> = { sessions: 10_000, spaces: 10_000, records: 1_000_000, tasks: 100_000 }

/** What a kind's process is told. */
export interface ScaleOrder {
  kind: Kind
  size: number
  /** share of the full size, 0 to 1: bounds that would take the full size to reach are lowered by it */
  part: number
  /** where all that is written lies; removed by who gave it */
  folder: string
}

/** How it stands at one number of things. Seconds and rate are of the way from the stage before. */
export interface Stage {
  at: number
  seconds: number
  perSecond: number
  heapMib: number
  rssMib: number
  diskMib: number
  /** the longest turn of the event loop on the way, ms */
  stallMs: number
  /** single operations, ms */
  latencyMs: Record<string, { p50: number; p99: number }>
}

/** Something that was timed or counted once. */
export interface Fact {
  what: string
  value: number
  unit: string
}

/** What gave, and at which number. */
export interface Gave {
  at: number
  what: string
}

/** The words that somebody reads, as they stand: a caller, or the operator. */
export interface Said {
  where: 'caller' | 'status' | 'health' | 'metrics' | 'log'
  words: string
}

export interface ScaleFigures {
  kind: Kind
  asked: number
  reached: number
  seconds: number
  cpuSeconds: number
  stages: Stage[]
  facts: Fact[]
  /** the smallest number first */
  gave: Gave[]
  said: Said[]
  notes: string[]
}

export type ScaleNews = { kind: 'progress'; text: string } | { kind: 'done'; figures: ScaleFigures } | { kind: 'failed'; error: string }

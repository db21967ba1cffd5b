import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import v8 from 'node:v8'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'

/** So often the process is looked at. */
export const PROCESS_WATCH_MS = 5_000
/** A step of the wall clock against the elapsed time that is told; a clock that is slewed moves by milliseconds. */
export const JUMP_MS = 5_000
/** A look that comes so much too late is told. */
export const STALL_MS = 2_500
/** Share of V8's limit, which has the young generation in it, from which on the heap is nearly full, and below which it is well again. */
const HEAP_FULL = 0.7
const HEAP_WELL = 0.6

export interface ProcessWatchInit {
  /** the wall clock stepped: what waits for a time of day is looked at anew */
  jumped: () => void
  /** whether only another process can go on, and why; asked at each look, told once */
  lost?: { why: () => string | undefined; told: (why: string) => void }
  /** bytes in use and V8's limit */
  heap?: () => { used: number; limit: number }
  /** why no file can be opened; undefined: one can */
  noFile?: () => string | undefined
}

/**
 * Says what befell the process and would otherwise only be guessed from what follows: the wall clock stepped, the process stood still (stopped,
 * starved, or one turn of its loop took that long), its heap is nearly full, its file descriptors are used up. The system tells of none of them: a
 * connection that finds no descriptor waits, and nobody hears of it.
 */
export class ProcessWatch {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #init: ProcessWatchInit
  #wallMs: number
  #elapsedMs: number
  #heapIsFull = false
  #hasNoFile = false
  #isLost = false
  #cancel: () => void = () => {}

  constructor({ clock, logger }: { clock: Clock; logger: Logger }, init: ProcessWatchInit) {
    this.#clock = clock
    this.#logger = logger
    this.#init = init
    this.#wallMs = clock.nowMs()
    this.#elapsedMs = clock.monotonicMs()
  }

  start(): void {
    this.#cancel = this.#clock.after(PROCESS_WATCH_MS, () => {
      this.#look()
      this.start()
    })
  }

  #look(): void {
    const [wallMs, elapsedMs] = [this.#clock.nowMs(), this.#clock.monotonicMs()]
    const passedMs = elapsedMs - this.#elapsedMs
    const jumpMs = Math.round(wallMs - this.#wallMs - passedMs)
    this.#wallMs = wallMs
    this.#elapsedMs = elapsedMs
    const lateMs = Math.round(passedMs - PROCESS_WATCH_MS)
    if (lateMs >= STALL_MS)
      this.#logger.warn({ ms: lateMs }, 'the process stood still; sessions that were lost meanwhile are taken up again')
    if (Math.abs(jumpMs) >= JUMP_MS) {
      this.#logger.warn(
        { jumpMs, now: new Date(wallMs).toISOString() },
        'the clock of this machine jumped; run NTP, and see `rookery doctor network`'
      )
      this.#init.jumped()
    }
    const why = this.#isLost ? undefined : this.#init.lost?.why()
    if (why !== undefined) {
      this.#isLost = true
      this.#init.lost?.told(why)
    }
    const code = (this.#init.noFile ?? noFile)()
    if (code !== undefined && !this.#hasNoFile) {
      const remedy = 'raise the limit of open files (ulimit -n, LimitNOFILE=), or lower connectionsMax'
      this.#logger.warn({ code, remedy }, 'no file can be opened and no connection taken; both go on by themselves')
    } else if (code === undefined && this.#hasNoFile) this.#logger.info({}, 'files can be opened again')
    this.#hasNoFile = code !== undefined
    const { used, limit } = (this.#init.heap ?? heapOf)()
    if (!this.#heapIsFull && used > HEAP_FULL * limit) {
      this.#heapIsFull = true
      const remedy = 'raise it with NODE_OPTIONS=--max-old-space-size=MIB, or lower the bounds that `rookery status --json` lists'
      this.#logger.warn({ usedBytes: used, limitBytes: limit, remedy }, 'the heap is nearly full; the process ends where it gets no more')
    } else if (this.#heapIsFull && used < HEAP_WELL * limit) {
      this.#heapIsFull = false
      this.#logger.info({ usedBytes: used, limitBytes: limit }, 'the heap has room again')
    }
  }

  stop(): void {
    this.#cancel()
  }
}

function noFile(): string | undefined {
  try {
    closeSync(openSync(devNull, 'r'))
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error)
  }
}

function heapOf(): { used: number; limit: number } {
  const { used_heap_size: used, heap_size_limit: limit } = v8.getHeapStatistics()
  return { used, limit }
}

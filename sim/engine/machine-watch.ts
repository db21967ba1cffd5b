import { availableParallelism, totalmem } from 'node:os'
import { type EventLoopUtilization, monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import { realTime } from '../time/real-time.ts'

/** Between two looks at the process's memory */
const RSS_EVERY_MS = 100
/** The timer whose lateness is the loop's delay */
const DELAY_RESOLUTION_MS = 5
/** Above either, what took long took long because this process had no time for it (F107). */
const UTILIZATION_MAX = 0.85
const DELAY_P99_MAX_MS = 50

/** Below this part of all memory left, or above that part of the heap's bound used, time goes to collecting and paging. */
const AVAILABLE_MIN = 0.05
const HEAP_MAX = 0.9

/** What of the machine can set the pace in place of the network. */
export type MachineLimit = 'event-loop' | 'memory'

export interface MemoryFigures {
  /** least that the system had left for this process */
  availableBytesMin: number
  /** least of it, of all that the process may have */
  availableShareMin: number
  /** most of the bound of this thread's heap that was used, 0 to 1 */
  heapShareMax: number
}

/** Whether memory was so short that times say nothing (F107). */
export function isShortOfMemory({ availableShareMin, heapShareMax }: MemoryFigures): boolean {
  return availableShareMin < AVAILABLE_MIN || heapShareMax > HEAP_MAX
}

export interface EventLoopFigures {
  delayP50Ms: number
  delayP99Ms: number
  delayMaxMs: number
  /** 0 to 1 */
  utilization: number
}

/** Whether the machine set the pace, so that latencies say nothing about a network. */
export function isSaturated({ utilization, delayP99Ms }: EventLoopFigures): boolean {
  return utilization > UTILIZATION_MAX || delayP99Ms > DELAY_P99_MAX_MS
}

/** Memory of the process over the run, and how busy its event loop is while something is measured. */
export class MachineWatch {
  readonly rssBytesBefore = process.memoryUsage.rss()
  #rssBytesMax = this.rssBytesBefore
  #heapShareMax = 0
  #availableBytesMin = Number.POSITIVE_INFINITY
  #timer: NodeJS.Timeout | undefined

  constructor() {
    this.#look()
  }

  #look(): void {
    this.rssBytes()
    const { used_heap_size: used, heap_size_limit: bound } = getHeapStatistics()
    this.#heapShareMax = Math.max(this.#heapShareMax, used / bound)
    this.#availableBytesMin = Math.min(this.#availableBytesMin, process.availableMemory())
    this.#timer = realTime.setTimeout(() => this.#look(), RSS_EVERY_MS).unref()
  }

  rssBytes(): number {
    const now = process.memoryUsage.rss()
    this.#rssBytesMax = Math.max(this.#rssBytesMax, now)
    return now
  }

  get rssBytesMax(): number {
    return this.#rssBytesMax
  }

  memory(): MemoryFigures {
    const all = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)
    const least = this.#availableBytesMin
    return { availableBytesMin: least, availableShareMin: Math.min(1, least / all), heapShareMax: this.#heapShareMax }
  }

  /** Begins to watch the loop; the figures are of the time until they are asked for. */
  eventLoop(): LoopWatch {
    return new LoopWatch()
  }

  stop(): void {
    realTime.clearTimeout(this.#timer)
  }
}

export class LoopWatch {
  readonly #delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS })
  readonly #since: EventLoopUtilization = performance.eventLoopUtilization()

  constructor() {
    this.#delay.enable()
  }

  /** Ends the watch. */
  figures(): EventLoopFigures {
    this.#delay.disable()
    const { utilization } = performance.eventLoopUtilization(this.#since)
    return {
      delayP50Ms: latenessMs(this.#delay.percentile(50)),
      delayP99Ms: latenessMs(this.#delay.percentile(99)),
      delayMaxMs: latenessMs(this.#delay.max),
      utilization: Math.round(utilization * 1_000) / 1_000
    }
  }
}

/** The histogram holds the whole time between two calls of its timer, in ns. */
function latenessMs(intervalNs: number): number {
  return Math.max(0, Math.round((intervalNs / 1e6 - DELAY_RESOLUTION_MS) * 10) / 10)
}

export function machine(): { cores: number; node: string; platform: string } {
  return { cores: availableParallelism(), node: process.version, platform: `${process.platform} ${process.arch}` }
}

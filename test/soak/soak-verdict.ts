/** What is measured of each node, every few seconds. */
export const SOAK_METRICS = ['heapBytes', 'rssBytes', 'handles', 'resources', 'listeners', 'diskBytes'] as const
export type SoakMetric = (typeof SOAK_METRICS)[number]

export interface SoakSample extends Record<SoakMetric, number> {
  node: string
  /** since the soak began */
  atMs: number
  /** of the process */
  ageMs: number
}

/**
 * By how much a metric may rise over the second half: the larger of a share of its median and of so many. The second is what a healthy node
 * goes up and down by: a LevelDB log and table (4 MiB each, a few of them), V8's pages, timers and listeners of what is under way.
 */
export const TOLERANCES: Readonly<Record<SoakMetric, { share: number; least: number }>> = {
  heapBytes: { share: 0.1, least: 6 * 1_048_576 },
  rssBytes: { share: 0.15, least: 48 * 1_048_576 },
  handles: { share: 0.1, least: 12 },
  resources: { share: 0.15, least: 40 },
  listeners: { share: 0.3, least: 500 },
  diskBytes: { share: 0.15, least: 16 * 1_048_576 }
}

/** A process that is younger still fills its caches. */
export const WARM_UP_MS = 20_000
/** Fewer samples say nothing about a slope. */
const SAMPLES_MIN = 5

export interface Trend {
  node: string
  metric: SoakMetric
  samples: number
  median: number
  /** median of the slopes of all pairs (Theil–Sen), times the length of the second half */
  rise: number
  allowed: number
  flat: boolean
}

/** How each metric of each node went over the second half; a node with too few samples there has none. */
export function trendsOf(samples: readonly SoakSample[], lengthMs: number): Trend[] {
  const trends: Trend[] = []
  for (const node of new Set(samples.map((one) => one.node))) {
    const half = samples.filter((one) => one.node === node && one.atMs >= lengthMs / 2 && one.ageMs >= WARM_UP_MS)
    if (half.length < SAMPLES_MIN) continue
    for (const metric of SOAK_METRICS) {
      const points = half.map((one) => ({ x: one.atMs, y: one[metric] }))
      const middle = median(points.map(({ y }) => y))
      const rise = slopeOf(points) * (lengthMs / 2)
      const { share, least } = TOLERANCES[metric]
      const allowed = Math.max(share * middle, least)
      trends.push({ node, metric, samples: points.length, median: middle, rise, allowed, flat: rise <= allowed })
    }
  }
  return trends
}

/** Theil–Sen: no single peak moves it. */
function slopeOf(points: readonly { x: number; y: number }[]): number {
  const slopes: number[] = []
  for (const [i, a] of points.entries()) for (const b of points.slice(i + 1)) if (b.x > a.x) slopes.push((b.y - a.y) / (b.x - a.x))
  return slopes.length === 0 ? 0 : median(slopes)
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length === 0
    ? 0
    : sorted.length % 2 === 1
      ? (sorted[middle] as number)
      : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

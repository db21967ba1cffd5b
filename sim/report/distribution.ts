/** Samples summed up: exact percentiles and the bins of a histogram. */
export interface Distribution {
  unit: string
  count: number
  min: number
  p50: number
  p90: number
  p99: number
  max: number
  mean: number
  bins: { from: number; to: number; count: number }[]
}

const BINS = 20

/**
 * @param options.whole - samples are counts: bins are whole numbers wide
 */
export function distribution(samples: readonly number[], unit: string, options: { whole?: boolean } = {}): Distribution {
  if (samples.length === 0) return { unit, count: 0, min: 0, p50: 0, p90: 0, p99: 0, max: 0, mean: 0, bins: [] }
  const sorted = [...samples].sort((a, b) => a - b)
  const min = sorted[0] as number
  const max = sorted.at(-1) as number
  return {
    unit,
    count: sorted.length,
    min: rounded(min),
    p50: rounded(percentile(sorted, 0.5)),
    p90: rounded(percentile(sorted, 0.9)),
    p99: rounded(percentile(sorted, 0.99)),
    max: rounded(max),
    mean: rounded(sorted.reduce((sum, one) => sum + one, 0) / sorted.length),
    bins: binsOf(sorted, min, max, options.whole === true)
  }
}

/** Nearest rank over sorted samples. */
export function percentile(sorted: readonly number[], fraction: number): number {
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(fraction * sorted.length) - 1))] ?? 0
}

/** Bins of one width that begin at a multiple of it; the last may hold more than its name says by rounding alone. */
function binsOf(sorted: readonly number[], min: number, max: number, whole: boolean): Distribution['bins'] {
  const nice = niceWidth((max - min) / BINS)
  const width = whole ? Math.max(1, nice) : nice
  const first = Math.floor(min / width)
  const last = Math.floor(max / width)
  const bins = Array.from({ length: last - first + 1 }, (_, i) => ({
    from: rounded((first + i) * width),
    to: rounded((first + i + 1) * width),
    count: 0
  }))
  for (const sample of sorted) {
    const bin = bins[Math.floor(sample / width) - first]
    if (bin !== undefined) bin.count++
  }
  return bins
}

/** The finest step that labels show; anything narrower would only be noise, and a denormal width none at all. */
const WIDTH_MIN = 0.001

/** 1, 2 or 5 times a power of ten, so that axis labels read well. */
function niceWidth(raw: number): number {
  if (raw <= 0) return 1
  if (raw <= WIDTH_MIN) return WIDTH_MIN
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 5, 10].find((one) => one * power >= raw) ?? 10
  return step * power
}

function rounded(value: number): number {
  return Math.round(value * 1_000) / 1_000
}

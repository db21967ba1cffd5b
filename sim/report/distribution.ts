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

function binsOf(sorted: readonly number[], min: number, max: number, whole: boolean): Distribution['bins'] {
  const from = whole ? min : Math.floor(min)
  const width = whole ? Math.max(1, Math.ceil((max - min + 1) / BINS)) : niceWidth((max - from) / BINS)
  const bins: Distribution['bins'] = []
  for (let at = from; at <= max; at += width) bins.push({ from: rounded(at), to: rounded(at + width), count: 0 })
  for (const sample of sorted) {
    const bin = bins[Math.min(bins.length - 1, Math.floor((sample - from) / width))]
    if (bin !== undefined) bin.count++
  }
  return bins
}

/** 1, 2 or 5 times a power of ten, so that axis labels read well. */
function niceWidth(raw: number): number {
  if (raw <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 5, 10].find((one) => one * power >= raw) ?? 10
  return step * power
}

function rounded(value: number): number {
  return Math.round(value * 1_000) / 1_000
}

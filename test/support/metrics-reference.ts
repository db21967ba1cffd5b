/** One metric as the registry tells of it. */
export interface MetricFacts {
  name: string
  help: string
  type: string
  labels: readonly string[]
}

/** The table of docs/metrics.md between its two marks: own metrics with type, labels and meaning, in the order of their names. */
export function metricsTable(metrics: readonly MetricFacts[]): string {
  const cell = (text: string) => text.replaceAll('|', '\\|')
  const rows = [...metrics]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, help, type, labels }) => {
      const shown = labels.length === 0 ? '' : labels.map((label) => `\`${label}\``).join(', ')
      return `| \`${name}\` | ${type} | ${shown} | ${cell(help)} |`
    })
  return ['| Metric | Type | Labels | What it says |', '|---|---|---|---|', ...rows].join('\n')
}

export const METRICS_BEGIN = '<!-- metrics: begin -->'
export const METRICS_END = '<!-- metrics: end -->'

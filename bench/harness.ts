import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, platform, release } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** One of the things compared; `sample` gives one figure in the question's unit, and others that were measured with it. */
export interface Contender {
  name: string
  sample(): Promise<number | { value: number; beside: Record<string, number> }>
}

export interface Question {
  /** file name of the JSON, and what is asked */
  id: string
  question: string
  unit: string
  better: 'lower' | 'higher'
  /** how the processes were placed on cores */
  placement: string
  /** the contender that ratios are told against */
  baseline: string
  rounds: number
}

export interface Row {
  name: string
  median: number
  /** quartiles */
  p25: number
  p75: number
  /** median of the ratios to the baseline, round by round */
  ratio: number
  ratioP25: number
  ratioP75: number
  samples: number[]
  /** medians of what was measured with it */
  beside: Record<string, number>
}

/**
 * Samples every contender once a round, alternating the order, after one round that does not count. Figures of a shared machine drift:
 * the ratio within a round is what stands. $BENCH_ROUNDS lowers the number of rounds.
 */
export async function compare(question: Question, contenders: readonly Contender[]): Promise<Row[]> {
  for (const contender of contenders) await contender.sample()
  const samples = new Map<string, number[]>(contenders.map((one) => [one.name, []]))
  const besides = new Map<string, Record<string, number[]>>(contenders.map((one) => [one.name, {}]))
  const rounds = Math.min(question.rounds, Number(process.env.BENCH_ROUNDS ?? Number.POSITIVE_INFINITY))
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? contenders : [...contenders].reverse()
    for (const { name, sample } of order) {
      const got = await sample()
      const { value, beside } = typeof got === 'number' ? { value: got, beside: {} } : got
      samples.get(name)?.push(value)
      const held = besides.get(name) as Record<string, number[]>
      for (const [what, one] of Object.entries(beside)) held[what] = [...(held[what] ?? []), one]
    }
  }
  const base = samples.get(question.baseline) ?? []
  const rows = contenders.map(({ name }) => {
    const own = samples.get(name) ?? []
    const ratios = own.map((value, i) => value / (base[i] ?? Number.NaN))
    return {
      name,
      median: quantile(own, 0.5),
      p25: quantile(own, 0.25),
      p75: quantile(own, 0.75),
      ratio: quantile(ratios, 0.5),
      ratioP25: quantile(ratios, 0.25),
      ratioP75: quantile(ratios, 0.75),
      samples: own,
      beside: Object.fromEntries(Object.entries(besides.get(name) ?? {}).map(([what, values]) => [what, quantile(values, 0.5)]))
    }
  })
  print({ ...question, rounds }, rows)
  write({ ...question, rounds }, rows)
  return rows
}

export function quantile(values: readonly number[], fraction: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) * fraction
  const low = sorted[Math.floor(at)] ?? Number.NaN
  const high = sorted[Math.ceil(at)] ?? Number.NaN
  return low + (high - low) * (at - Math.floor(at))
}

function figure(value: number): string {
  return value >= 1_000 ? Math.round(value).toLocaleString('en') : value.toPrecision(3)
}

function print(question: Question, rows: readonly Row[]): void {
  const load = loadavg()
    .map((value) => value.toFixed(1))
    .join(' ')
  console.log(
    `\n${question.question}  [${question.unit}, ${question.better} is better; ${question.placement}; ${question.rounds} rounds; load ${load}]`
  )
  const width = Math.max(...rows.map((row) => row.name.length))
  for (const row of rows) {
    const spread = `${figure(row.p25)} … ${figure(row.p75)}`
    const ratio =
      row.name === question.baseline ? 'baseline' : `${row.ratio.toFixed(2)}× (${row.ratioP25.toFixed(2)} … ${row.ratioP75.toFixed(2)})`
    const beside = Object.entries(row.beside).map(([what, value]) => `   ${what} ${figure(value)}`)
    console.log(`  ${row.name.padEnd(width)}  ${figure(row.median).padStart(9)}   ${spread.padEnd(20)}  ${ratio}${beside.join('')}`)
  }
}

function write(question: Question, rows: readonly Row[]): void {
  writeFigures(question.id, { ...question, rows })
}

/** Where figures go: bench/out, or $BENCH_OUT. */
export function outFolder(): string {
  return process.env.BENCH_OUT ?? join(fileURLToPath(new URL('.', import.meta.url)), 'out')
}

/** Writes bench/out/ID.json, with the time and the machine. */
export function writeFigures(id: string, figures: object): void {
  const folder = outFolder()
  mkdirSync(folder, { recursive: true })
  const machine = {
    cores: cpus().length,
    cpu: cpus()[0]?.model,
    load: loadavg(),
    platform: `${platform()} ${release()}`,
    node: process.version
  }
  writeFileSync(join(folder, `${id}.json`), `${JSON.stringify({ ...figures, at: new Date().toISOString(), machine }, null, 2)}\n`)
}

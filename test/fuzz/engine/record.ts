import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import type { Finding, FuzzStatus } from './fuzzer.ts'

const RECORD = new URL('../record.json', import.meta.url)
const REGRESSIONS = new URL('../regressions.json', import.meta.url)

/** What was measured of one target, over all runs since its last finding. */
export interface TargetRecord {
  /** CPU minutes of the fuzzing thread without a finding */
  cleanMinutes: number
  execs: number
  /** branches of the instrumented modules that were reached */
  edges: number
  /** short hash of the tree that the last run was made of */
  commit: string
}

/** An input that broke a promise once, and must not again. */
export interface Regression {
  readonly target: string
  /** base64 */
  readonly input: string
  readonly was: string
}

export function readRegressions(): Regression[] {
  return existsSync(REGRESSIONS) ? (JSON.parse(readFileSync(REGRESSIONS, 'utf8')) as Regression[]) : []
}

/** Adds the finding as a vector, unless the same input is there. */
export function keepFinding({ target, input, key }: Finding): void {
  const all = readRegressions()
  const one: Regression = { target, input: Buffer.from(input).toString('base64'), was: key }
  if (all.some((other) => other.target === target && other.input === one.input)) return
  writeFileSync(REGRESSIONS, `${JSON.stringify([...all, one], undefined, 2)}\n`)
}

/** @param found - findings of this run */
export function recordRun(target: string, { execs, edges }: FuzzStatus, cpuSeconds: number, found: number): void {
  const all = existsSync(RECORD) ? (JSON.parse(readFileSync(RECORD, 'utf8')) as Record<string, TargetRecord>) : {}
  const before = found > 0 ? undefined : all[target]
  const minutes = found > 0 ? 0 : cpuSeconds / 60
  all[target] = {
    cleanMinutes: Number(((before?.cleanMinutes ?? 0) + minutes).toFixed(2)),
    execs: (before?.execs ?? 0) + (found > 0 ? 0 : execs),
    edges: Math.max(before?.edges ?? 0, edges),
    commit: commit()
  }
  const sorted = Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)))
  writeFileSync(RECORD, `${JSON.stringify(sorted, undefined, 2)}\n`)
}

function commit(): string {
  return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
}

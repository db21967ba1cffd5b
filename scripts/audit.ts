import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

/** What was learnt of known faults in what users install. */
export type Verdict =
  | { state: 'clean'; packages: number }
  | { state: 'faulty'; faults: { name: string; severity: string; what: string }[] }
  | { state: 'unknown'; why: string }

/** Reads what `npm audit --json` printed; whatever is no report means that nothing is known, never that nothing was found. */
export function verdictOf(printed: string): Verdict {
  let report: Report
  try {
    report = JSON.parse(printed) as Report
  } catch {
    return { state: 'unknown', why: 'npm printed no report' }
  }
  const { vulnerabilities, metadata } = report ?? {}
  if (typeof vulnerabilities !== 'object' || vulnerabilities === null || typeof metadata?.dependencies?.prod !== 'number') {
    return { state: 'unknown', why: report?.error?.summary || report?.message || 'npm could not ask the registry' }
  }
  const faults = Object.values(vulnerabilities).map(({ name, severity, via }) => ({
    name,
    severity,
    what: via.map((one) => (typeof one === 'string' ? `by ${one}` : one.title)).join('; ')
  }))
  return faults.length === 0 ? { state: 'clean', packages: metadata.dependencies.prod } : { state: 'faulty', faults }
}

interface Report {
  vulnerabilities?: Record<string, { name: string; severity: string; via: (string | { title: string })[] }> | null
  metadata?: { dependencies?: { prod?: number } }
  error?: { summary?: string }
  message?: string
}

/** What is printed, and the exit code: 1 for a known fault; without an answer 0, said plainly, or 4 where `strict`. */
export function told(verdict: Verdict, { strict }: { strict: boolean }): { text: string; exitCode: 0 | 1 | 4 } {
  switch (verdict.state) {
    case 'clean':
      return { text: `no known fault in the ${verdict.packages} packages that users install`, exitCode: 0 }
    case 'faulty':
      return { text: verdict.faults.map(({ name, severity, what }) => `${severity}  ${name}: ${what}`).join('\n'), exitCode: 1 }
    case 'unknown':
      return { text: `NOT CHECKED: ${verdict.why}; run it again with a network`, exitCode: strict ? 4 : 0 }
  }
}

if (import.meta.main) {
  const unknown = process.argv.slice(2).find((word) => word !== '--strict')
  if (unknown !== undefined) {
    process.stderr.write(
      `there is no option ${unknown}\n\nnpm run audit -- [--strict]\n\n  --strict  ends with 4 where nothing could be checked\n`
    )
    process.exit(2)
  }
  const { stdout } = spawnSync('npm', ['audit', '--omit=dev', '--json'], {
    cwd: join(import.meta.dirname, '..'),
    encoding: 'utf8',
    timeout: 120_000
  })
  const { text, exitCode } = told(verdictOf(stdout ?? ''), { strict: process.argv.includes('--strict') })
  process.stdout.write(`${text}\n`)
  process.exitCode = exitCode
}

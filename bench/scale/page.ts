import type { Kind, Said, ScaleFigures, Stage } from './figures.ts'

const TITLES: Record<Kind, string> = {
  sessions: 'Sessions of one node',
  spaces: 'Spaces of one node',
  records: 'Records at one registrar',
  tasks: 'Tasks of one node'
}
const WHERE: Record<Said['where'], string> = {
  caller: 'The caller gets',
  status: '`rookery status --json`',
  health: '`/readyz`',
  metrics: '`/metrics`',
  log: 'The log'
}

const whole = (value: number) => Math.round(value).toLocaleString('en')
const short = (value: number) => (value >= 100 ? whole(value) : value >= 1 ? value.toFixed(1) : value.toFixed(2))

/** Head and rows of a kind's stages; a column for each operation that was timed. */
function stageCells({ stages }: ScaleFigures): { head: string[]; rows: string[][] } {
  const operations = [...new Set(stages.flatMap(({ latencyMs }) => Object.keys(latencyMs)))]
  const latency = ({ latencyMs }: Stage, what: string) => {
    const one = latencyMs[what]
    return one === undefined ? '' : `${short(one.p50)} (${short(one.p99)})`
  }
  return {
    head: [
      'number',
      'seconds',
      'a second',
      'heap MiB',
      'RSS MiB',
      'disk MiB',
      'longest turn ms',
      ...operations.map((what) => `${what} ms`)
    ],
    rows: stages.map((stage) => [
      whole(stage.at),
      short(stage.seconds),
      whole(stage.perSecond),
      whole(stage.heapMib),
      whole(stage.rssMib),
      whole(stage.diskMib),
      whole(stage.stallMs),
      ...operations.map((what) => latency(stage, what))
    ])
  }
}

const gaveFirst = ({ gave, reached, kind }: ScaleFigures) => {
  const [first] = gave
  return first === undefined ? `nothing gave up to ${whole(reached)} ${kind}` : `at ${whole(first.at)}: ${first.what}`
}

/** For a terminal. */
export function table(all: readonly ScaleFigures[]): string {
  return all
    .map((figures) => {
      const { head, rows } = stageCells(figures)
      const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)))
      const line = (cells: readonly string[]) => `  ${cells.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  ')}\n`
      const facts = figures.facts.map(({ what, value, unit }) => `  ${what}: ${short(value)} ${unit}\n`)
      const said = figures.said.map(({ where, words }) => `  ${where}: ${words}\n`)
      return [
        `\n${TITLES[figures.kind]}: ${whole(figures.reached)} of ${whole(figures.asked)}, ${short(figures.seconds)} s, processor ${short(figures.cpuSeconds)} s\n`,
        line(head),
        ...rows.map(line),
        `  what gave first: ${gaveFirst(figures)}\n`,
        ...figures.gave.slice(1).map(({ at, what }) => `  then at ${whole(at)}: ${what}\n`),
        ...facts,
        ...said
      ].join('')
    })
    .join('')
}

const row = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`

function section(figures: ScaleFigures): string {
  const { head, rows } = stageCells(figures)
  const gave = figures.gave.map(({ at, what }) => `- at ${whole(at)}: ${what}`)
  const facts = figures.facts.map(({ what, value, unit }) => row([what, `${short(value)} ${unit}`]))
  const said = figures.said.map(({ where, words }) => `- ${WHERE[where]}: \`${words.replaceAll('`', "'")}\``)
  return `## ${TITLES[figures.kind]}

${whole(figures.reached)} of ${whole(figures.asked)} were reached, in ${short(figures.seconds)} s, ${short(figures.cpuSeconds)} s of processor.

${[row(head), row(head.map(() => '---:')), ...rows.map(row)].join('\n')}

### What gives first

${gave.length === 0 ? `Nothing gave up to ${whole(figures.reached)}.` : gave.join('\n')}

### Timed once

${['| what | |', '|---|---:|', ...facts].join('\n')}

### What is said of it

${said.join('\n')}

${figures.notes.map((note) => `${note}\n`).join('\n')}`
}

/** docs/scale.md. */
export function page(all: readonly ScaleFigures[], { machine, part }: { machine: string; part: number }): string {
  const summary = all.map((figures) => row([TITLES[figures.kind], whole(figures.reached), gaveFirst(figures)]))
  return `# How far one node grows

\`npm run scale\` grows one node until something gives: real components, real QUIC on loopback, LevelDB on disk, each kind in a process of its own.
${part === 1 ? '' : `This run was of ${part} of the full size. `}Measured on: ${machine}.

| what | reached | what gave first |
|---|---:|---|
${summary.join('\n')}

Memory is heap with buffers, and resident set, after a collection. Times of single operations are medians, the 99th percentile in brackets. The longest
turn is how long the event loop of the process stood still at most on the way to that number.

${all.map(section).join('\n')}`
}

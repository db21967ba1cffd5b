/**
 * How many simulated nodes fit into a GiB, and what does it cost to boot and join them, beside plain libp2p nodes on its own memory transport? How
 * many events a second does the model play? Each size in a process of its own; NODES=100,300 chooses, MODEL=10000 is the model's size (0: none),
 * BOUND_SEC=600 is how long one size of one kind may take.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { writeFigures } from './harness.ts'

interface Figures {
  kind: string
  nodes: number
  wallMs: number
  cpuMs: number
  rssBytes: number
  events?: number
}

const SIZES = (process.env.NODES ?? '100,300,500,1000').split(',').map(Number)
const BOUND_SEC = Number(process.env.BOUND_SEC ?? 600)
const MODEL = Number(process.env.MODEL ?? 10_000)
const file = fileURLToPath(new URL('./simulation-process.ts', import.meta.url))
const rows: Figures[] = []

function run(kind: string, nodes: number): void {
  const { stdout, stderr, status, error } = spawnSync(process.execPath, ['--max-old-space-size=8192', file, kind, String(nodes)], {
    encoding: 'utf8',
    timeout: BOUND_SEC * 1_000
  })
  if (error !== undefined) {
    console.log(`${kind.padEnd(8)} ${String(nodes).padStart(6)} nodes: had not all joined within ${BOUND_SEC} s`)
    return
  }
  if (status !== 0) {
    console.error(`${kind} ${nodes}: ended with ${status}: ${stderr.slice(-400)}`)
    return
  }
  const figures = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Figures
  rows.push(figures)
  const perGiB = Math.round(nodes / (figures.rssBytes / 2 ** 30))
  const rate =
    figures.events === undefined
      ? `${perGiB} nodes a GiB`
      : `${Math.round(figures.events / (figures.cpuMs / 1_000)).toLocaleString('en')} events a second of processor`
  console.log(
    `${kind.padEnd(8)} ${String(nodes).padStart(6)} nodes: ${(figures.wallMs / 1_000).toFixed(1)} s, processor ${(figures.cpuMs / 1_000).toFixed(1)} s, ${Math.round(figures.rssBytes / 2 ** 20)} MiB, ${rate}`
  )
}

for (const nodes of SIZES) for (const kind of ['plain', 'direct', 'threads']) run(kind, nodes)
if (MODEL > 0) run('model', MODEL)
writeFigures('simulation', { question: 'nodes a GiB, boot and join, events a second of the model', rows })

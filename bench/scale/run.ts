/** Grows one node until it gives, and tells what gave first: each kind in a process of its own. */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { writeFigures } from '../harness.ts'
import { FULL, KINDS, type Kind, type ScaleFigures, type ScaleNews, type ScaleOrder } from './figures.ts'
import { page, table } from './page.ts'

const HELP = `Grows one node until it gives: sessions, spaces, records of a registrar, tasks.

  npm run scale -- [sessions] [spaces] [records] [tasks] [--part <0 to 1>] [--json] [--docs]

  <kind>   those named; all of them where none is
  --part   share of the full size, such as 0.01 for a quick look (default 1: ${KINDS.map((kind) => `${FULL[kind].toLocaleString('en')} ${kind}`).join(', ')})
  --json   the figures as JSON instead of a table
  --docs   writes docs/scale.md, of all kinds only

Figures: bench/out/scale.json. Everything else is written to a temporary folder that goes away with the run. Ends with 1 where a kind failed.
`

const usage = (message: string): never => {
  process.stderr.write(`${message}\n\n${HELP}`)
  process.exit(2)
}

function parsed() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        part: { type: 'string', default: '1' },
        json: { type: 'boolean', default: false },
        docs: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false }
      }
    })
  } catch (error) {
    return usage(error instanceof Error ? error.message : String(error))
  }
}

const { values, positionals } = parsed()
if (values.help) {
  process.stdout.write(HELP)
  process.exit(0)
}
const part = Number(values.part)
if (!(part > 0 && part <= 1)) usage(`--part is a number above 0, 1 at most, not "${values.part}"`)
const unknown = positionals.find((name) => !(KINDS as readonly string[]).includes(name))
if (unknown !== undefined) usage(`no kind "${unknown}"; there are ${KINDS.join(', ')}`)
const kinds = KINDS.filter((kind) => positionals.length === 0 || positionals.includes(kind))
if (values.docs && kinds.length < KINDS.length) usage('--docs writes the page of all kinds: name none')

const folder = mkdtempSync(join(tmpdir(), 'rookery-scale-'))
let endKind: () => void = () => {}
let interrupted = false
const interrupt = () => {
  interrupted = true
  endKind()
}
process.on('SIGINT', interrupt)
process.on('SIGTERM', interrupt)

/** @throws what the kind's process failed with */
async function measured(kind: Kind): Promise<ScaleFigures> {
  const order: ScaleOrder = { kind, size: Math.max(10, Math.round(FULL[kind] * part)), part, folder: join(folder, kind) }
  mkdirSync(order.folder)
  const file = fileURLToPath(new URL(`./${kind}.ts`, import.meta.url))
  const child = spawn(process.execPath, ['--max-old-space-size=12288', file, JSON.stringify(order)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc']
  })
  endKind = () => child.kill('SIGKILL')
  const { promise, resolve, reject } = Promise.withResolvers<ScaleFigures>()
  child.on('message', (news: ScaleNews) => {
    if (news.kind === 'progress') process.stderr.write(`  ${kind}: ${news.text}\n`)
    else if (news.kind === 'done') resolve(news.figures)
    else reject(new Error(news.error))
  })
  child.once('error', reject)
  child.once('exit', (code, signal) => reject(new Error(`${kind} ended with ${code ?? signal}`)))
  try {
    return await promise
  } finally {
    endKind = () => {}
    rmSync(order.folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

const all: ScaleFigures[] = []
let failed = false
try {
  for (const [index, kind] of kinds.entries()) {
    if (interrupted) break
    process.stderr.write(`[${index + 1}/${kinds.length}] ${Math.round(FULL[kind] * part).toLocaleString('en')} ${kind}\n`)
    try {
      all.push(await measured(kind))
    } catch (error) {
      if (interrupted) break
      failed = true
      process.stderr.write(`${kind} failed: ${error instanceof Error ? error.message : String(error)}\n`)
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}
if (interrupted) process.exit(130)
writeFigures('scale', { question: 'how far one node grows, and what gives first', part, kinds: all })
process.stdout.write(values.json ? `${JSON.stringify({ part, kinds: all })}\n` : table(all))
if (values.docs && !failed) {
  const machine = `${cpus()[0]?.model}, ${cpus().length} cores, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}`
  writeFileSync(fileURLToPath(new URL('../../docs/scale.md', import.meta.url)), page(all, { machine, part }))
}
process.exit(failed ? 1 : 0)

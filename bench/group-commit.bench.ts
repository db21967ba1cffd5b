/**
 * How long does group commit keep a write waiting before its own synced batch begins? It has no timer: a write that finds the disk idle goes at once,
 * one that comes during a sync goes with the next. The bound that was asked for is 5 ms.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Level } from 'level'
import { bytesCodec, Store } from '../src/store/store.ts'
import { quantile, writeFigures } from './harness.ts'
import { pin } from './pair.ts'

const BOUND_MS = 5
const VALUE = new Uint8Array(1_024).fill(7)
const WRITES = 2_000

interface Delays {
  name: string
  /** from the call until LevelDB has the batch with the write in it, ms */
  waits: number[]
  /** from then until it is synced, ms */
  syncs: number[]
}

const dir = mkdtempSync(join(tmpdir(), 'rookery-bench-'))
const level = new Level<string, Uint8Array>(dir, { keyEncoding: 'utf8', valueEncoding: 'view' })
await level.open()
const store = new Store(level)
const table = store.table('bench', bytesCodec)
const placement = pin() ? 'one process, pinned to a core' : 'one process, not pinned'

/** by key, when the write was asked for, then when its batch began */
const asked = new Map<string, number>()
const begun = new Map<string, number>()
const batch = level.batch.bind(level) as unknown as (ops: readonly { key: string }[], options: unknown) => Promise<void>
Object.assign(level, {
  batch(ops: readonly { key: string }[], options: unknown) {
    const nowMs = performance.now()
    for (const { key } of ops) begun.set(key, nowMs)
    return batch(ops, options)
  }
})

let next = 0
async function write(into: Delays): Promise<void> {
  const key = String(next++).padStart(12, '0')
  asked.set(key, performance.now())
  await store.commit([table.put(key, VALUE)])
  const doneMs = performance.now()
  const begunMs = begun.get(key) ?? Number.NaN
  into.waits.push(begunMs - (asked.get(key) ?? Number.NaN))
  into.syncs.push(doneMs - begunMs)
  asked.delete(key)
  begun.delete(key)
}

/** @param pauseMs - what a writer is busy with otherwise between two writes, at most; 0: it writes at once again */
async function measure(name: string, writers: number, pauseMs = 0): Promise<Delays> {
  const delays: Delays = { name, waits: [], syncs: [] }
  let left = WRITES
  const writer = async () => {
    while (left-- > 0) {
      await write(delays)
      if (pauseMs > 0) await sleep(Math.random() * pauseMs)
    }
  }
  await Promise.all(Array.from({ length: writers }, writer))
  return delays
}

await measure('warm-up', 8)
const all = [
  await measure('alone', 1),
  await measure('among 8', 8),
  await measure('among 32', 32),
  await measure('among 32 that pause', 32, 4),
  await measure('among 256', 256)
]

console.log(`\nWhat group commit adds to a write of 1 KiB  [ms; ${placement}; ${WRITES} writes each]`)
const spread = (values: readonly number[]) => {
  const at = (fraction: number) => quantile(values, fraction).toFixed(3)
  return `${at(0.5).padStart(8)}   ${at(0.25)} … ${at(0.75)}   p99 ${at(0.99)}, most ${Math.max(...values).toFixed(3)}`
}
for (const { name, waits, syncs } of all) {
  const within = waits.filter((ms) => ms <= BOUND_MS).length / waits.length
  console.log(`  ${name.padEnd(20)}  waits  ${spread(waits)}; ${(100 * within).toFixed(1)} % within ${BOUND_MS} ms`)
  console.log(`  ${''.padEnd(20)}  syncs  ${spread(syncs)}`)
  console.log(`  ${''.padEnd(20)}  that is ${(quantile(waits, 0.5) / quantile(syncs, 0.5)).toFixed(2)}× a sync (medians)`)
}
writeFigures('group-commit', { question: 'What group commit adds to a write', unit: 'ms', placement, rows: all })

await store.close()
rmSync(dir, { recursive: true, force: true })

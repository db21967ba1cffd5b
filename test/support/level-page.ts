/** Bundled for a page: the level over IndexedDB beside one in memory, through the store that both carry. */
import { MemoryLevel } from 'memory-level'
import { IndexedDbLevel } from '../../src/browser/indexed-db-level.ts'
import { type Random, seededRandom } from '../../src/platform/random.ts'
import { bytesCodec, type RangeOptions, Store, type Table } from '../../src/store/store.ts'

/** More rows than one scan reads at a time. */
const ROWS_MAX = 700

const below = (random: Random, limit: number) => {
  const [a = 0, b = 0] = random.bytes(2)
  return ((a << 8) | b) % limit
}
const keyOf = (n: number) => `k${String(n).padStart(4, '0')}`

function anyRange(random: Random): RangeOptions {
  const key = () => keyOf(below(random, ROWS_MAX + 20))
  const range: RangeOptions = {}
  if (below(random, 2) === 0) range[below(random, 2) === 0 ? 'gt' : 'gte'] = key()
  if (below(random, 2) === 0) range[below(random, 2) === 0 ? 'lt' : 'lte'] = key()
  if (below(random, 2) === 0) range.reverse = true
  if (below(random, 2) === 0) range.limit = below(random, 600)
  return range
}

async function rows(table: Table<Uint8Array>, range: RangeOptions): Promise<string> {
  const read: string[] = []
  for await (const [key, value] of table.entries(range)) read.push(`${key}=${value.join('.')}`)
  const keys: string[] = []
  for await (const key of table.keys(range)) keys.push(key)
  return `${read.join(' ')} | ${keys.join(' ')}`
}

/** Does the same to both, closes and opens the one on disk again, and asks both the same. @returns what they answered differently, and how much was compared */
export async function differences(seed: number): Promise<{ compared: number; rows: number; differing: RangeOptions[] }> {
  const random = seededRandom(seed)
  const name = `rookery:level-${seed}`
  const memory = new Store(new MemoryLevel<string, Uint8Array>())
  let disk = new Store(new IndexedDbLevel(name))
  for (let batch = 0; batch < 40; batch++) {
    const ops = Array.from({ length: 1 + below(random, 60) }, () => {
      const [table, key] = [below(random, 4) === 0 ? 'other' : 'rows', keyOf(below(random, ROWS_MAX))]
      return { table, key, value: below(random, 6) === 0 ? undefined : random.bytes(below(random, 5)) }
    })
    await memory.commit(ops)
    await disk.commit(ops)
  }
  const filled = Array.from({ length: ROWS_MAX }, (_, n) => ({ table: 'rows', key: keyOf(n), value: Uint8Array.of(n & 255) })).filter(
    (_, n) => n % 7 !== 0
  )
  await memory.commit(filled)
  await disk.commit(filled)
  await disk.close()
  disk = new Store(new IndexedDbLevel(name))
  const differing: RangeOptions[] = []
  let compared = 0
  let count = 0
  for (const table of ['rows', 'other']) {
    const [ours, theirs] = [disk.table(table, bytesCodec), memory.table(table, bytesCodec)]
    for await (const _ of theirs.keys()) count++
    for (let i = 0; i < 60; i++) {
      const range = i === 0 ? {} : anyRange(random)
      compared++
      if ((await rows(ours, range)) !== (await rows(theirs, range))) differing.push(range)
      const key = keyOf(below(random, ROWS_MAX + 20))
      if ((await ours.get(key))?.join() !== (await theirs.get(key))?.join() || (await ours.has(key)) !== (await theirs.has(key)))
        differing.push({ gte: key, lte: key })
    }
  }
  await disk.close()
  await memory.close()
  return { compared, rows: count, differing }
}

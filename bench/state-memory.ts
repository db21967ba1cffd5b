/** What a replica of so many keys takes, told as bytes: run by state-memory.bench.ts in a process of its own, with --expose-gc. */
import * as Y from 'yjs'
import { eseBatch } from '../protocol/state/batch.ts'
import { EseMap } from '../protocol/state/map.ts'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'

const [kind, count] = [process.argv[2], Number(process.argv[3])]
const entryOf = (i: number) => ({ id: i, text: 'x'.repeat(64) })

/** As it travels to a replica. */
function made(): Uint8Array[] {
  if (kind === 'yjs') {
    const doc = new Y.Doc()
    for (let i = 0; i < count; i++) doc.getMap('state').set(`key-${i}`, entryOf(i))
    return [Y.encodeStateAsUpdate(doc)]
  }
  const map = new EseMap(nodeCrypto)
  for (let i = 0; i < count; i++) map.apply(eseBatch([{ op: 'set', key: `key-${i}`, value: entryOf(i) }]))
  return [...map.snapshot()]
}

function used(): number {
  for (let i = 0; i < 3; i++) globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

let parts = made()
const before = used()
let replica: unknown
if (kind === 'yjs') {
  const doc = new Y.Doc()
  for (const part of parts) Y.applyUpdate(doc, part)
  replica = doc
} else replica = EseMap.fromSnapshot(nodeCrypto, { keysMax: 1_000_000, bytesMax: 2 ** 30 }, parts)
const size = parts.reduce((sum, part) => sum + part.length, 0)
parts = []
const bytes = used() - before + size
process.stdout.write(`${JSON.stringify({ bytes, held: replica !== undefined })}\n`)

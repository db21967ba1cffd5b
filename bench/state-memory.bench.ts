/** What memory does the replica of a state of 10,000 keys take, beside a Yjs document of the same content? */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { compare } from './harness.ts'

const KEYS = 10_000
const file = fileURLToPath(new URL('./state-memory.ts', import.meta.url))

async function bytesOf(kind: 'yjs' | 'rookery'): Promise<number> {
  const out = execFileSync(process.execPath, ['--expose-gc', file, kind, String(KEYS)], { encoding: 'utf8' })
  return (JSON.parse(out) as { bytes: number }).bytes / 1_048_576
}

await compare(
  {
    id: 'state-memory',
    question: `Replica of ${KEYS.toLocaleString('en')} keys, an object of about 80 bytes each`,
    unit: 'MiB',
    better: 'lower',
    placement: 'a process each',
    baseline: 'Yjs document',
    rounds: 5
  },
  [
    { name: 'Yjs document', sample: () => bytesOf('yjs') },
    { name: 'rookery replica', sample: () => bytesOf('rookery') }
  ]
)

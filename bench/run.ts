/** Runs every benchmark, each in a process of its own: `npm run bench`, or `npm run bench -- handshake` for one. */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('.', import.meta.url))
const wanted = process.argv.slice(2)
const files = readdirSync(folder)
  .filter((file) => file.endsWith('.bench.ts') && (wanted.length === 0 || wanted.some((name) => file.startsWith(name))))
  .sort()
if (files.length === 0) {
  console.error(
    `no benchmark named ${wanted.join(', ')}; there are: ${readdirSync(folder)
      .filter((file) => file.endsWith('.bench.ts'))
      .join(', ')}`
  )
  process.exit(2)
}
for (const file of files) {
  const { status } = spawnSync(process.execPath, [folder + file], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
console.log('\nwritten to bench/out/*.json')

/** Packs the committed tree twice, from clones in folders of other names, at other times and in other time zones, under the umask 022 that modes in a package come from, and compares: `npm run pack:reproducible`. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'rookery-twice-'))

function packed(name: string, zone: string): string {
  const clone = join(folder, name)
  const out = join(folder, `${name}-out`)
  const before = process.umask(0o022)
  try {
    mkdirSync(out)
    execFileSync('git', ['clone', '--quiet', '--shared', ROOT, clone])
    symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
    execFileSync('npm', ['pack', '--pack-destination', out], {
      cwd: clone,
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, TZ: zone }
    })
  } finally {
    process.umask(before)
  }
  const [file = ''] = readdirSync(out)
  return createHash('sha512')
    .update(readFileSync(join(out, file)))
    .digest('hex')
}

try {
  const [one, two] = [packed('first', 'UTC'), packed('a-second-one', 'Asia/Tokyo')]
  process.stdout.write(`sha512 ${one}\nsha512 ${two}\n${one === two ? 'the same' : 'they differ'}\n`)
  if (one !== two) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}

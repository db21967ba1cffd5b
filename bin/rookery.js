#!/usr/bin/env node
// Starts the CLI on a Node that is new enough: this one, or the one that the npm package `node` brought along.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, statSync } from 'node:fs'
import module, { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (major > 22 || (major === 22 && minor >= 12)) {
  // A checkout runs its sources (Node strips the types), a package what was compiled from them.
  keepCompiled()
  const source = join(here, '..', 'src', 'cli', 'main.ts')
  const inCheckout = existsSync(source) && process.features.typescript
  const { main } = await import(inCheckout ? '../src/cli/main.ts' : '../dist/src/cli/main.js')
  process.exitCode = await main(process.argv.slice(2))
} else {
  const bundled = bundledNode()
  if (bundled === undefined) {
    process.stderr.write(
      `rookery needs Node 22.12 or newer; this is ${process.versions.node}, and the npm package "node" is not installed beside it\n`
    )
    process.exit(3)
  }
  const child = spawn(bundled, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' })
  // A terminal sends Ctrl-C to both; only the child may answer it, and its exit code is ours.
  process.on('SIGINT', () => {})
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)))
}

/** Half of the time to the first line is compiling: what was compiled is kept, in a folder that is this user's alone, for a cache is code. */
function keepCompiled() {
  const home = process.env.XDG_CACHE_HOME ?? (process.env.HOME === undefined ? undefined : join(process.env.HOME, '.cache'))
  if (home === undefined || process.platform === 'win32') return
  const folder = join(home, 'rookery', 'compiled')
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = statSync(folder)
    if (uid === process.getuid() && (mode & 0o022) === 0) module.enableCompileCache(folder)
  } catch {
    // Without it the start is slower, and nothing else.
  }
}

function bundledNode() {
  try {
    const file = createRequire(import.meta.url).resolve('node/bin/node')
    return existsSync(file) ? file : undefined
  } catch {
    return undefined
  }
}

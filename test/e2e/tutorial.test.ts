import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { docSteps, unlikeShown } from '../support/doc-blocks.ts'
import { LAUNCHER } from './cli-fixture.ts'

const TUTORIAL = join(import.meta.dirname, '../../docs/tutorial.md')
const TIMEOUT_MS = 170_000
const MARK = '<<<block'

/** What the tutorial's first block installs, with this checkout in place of the package. */
function installed(folder: string): void {
  const bin = join(folder, 'node_modules/.bin')
  mkdirSync(bin, { recursive: true })
  writeFileSync(join(bin, 'rookery'), `#!/bin/sh\nexec "${process.execPath}" "${LAUNCHER}" "$@"\n`)
  chmodSync(join(bin, 'rookery'), 0o755)
}

it(
  '[tutorial] every command of docs/tutorial.md runs in an empty folder and prints what the text shows',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'rookery-tutorial-'))
    installed(folder)
    const steps = docSteps(readFileSync(TUTORIAL, 'utf8'))
    expect(steps.length).toBeGreaterThan(10)
    const script = steps.map(({ commands }, i) => `echo '${MARK} ${i}>>>'\n${commands}`).join('\n')
    writeFileSync(join(folder, 'steps.sh'), `set -eu -o pipefail\n${script}\n`)
    const child = spawn('bash', ['steps.sh'], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // a group of its own, so that nodes of a step that failed can be ended
      env: {
        PATH: `${join(process.execPath, '..')}:${process.env.PATH}`,
        HOME: folder,
        ROOKERY_LISTEN: '/ip4/127.0.0.1/udp/0/quic-v1',
        ROOKERY_HTTP_PORT: '0',
        ROOKERY_OPS_PORT: '0'
      }
    })
    let stdout = ''
    let stderr = ''
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const tooLong = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS - 10_000)
    const [code] = (await once(child, 'exit')) as [number | null]
    clearTimeout(tooLong)
    try {
      process.kill(-(child.pid as number), 'SIGKILL')
    } catch {
      // nothing of it runs any more
    }
    const printed = stdout.split(new RegExp(`${MARK} \\d+>>>\n`)).slice(1)
    const reached = steps[printed.length - 1]
    expect(code, `line ${reached?.line} of the tutorial:\n${reached?.commands}\n${printed.at(-1)}\n${stderr}`).toBe(0)
    const unlike = steps.flatMap(({ line, prints }, i) => {
      const missing = prints === undefined ? undefined : unlikeShown(prints, printed[i] ?? '')
      return missing === undefined ? [] : [{ line, missing, printed: printed[i] }]
    })
    expect(unlike, stderr).toEqual([])
    rmSync(folder, { recursive: true, force: true })
  },
  TIMEOUT_MS
)

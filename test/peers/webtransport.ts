import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { build } from 'esbuild'
import { withoutNode } from '../../packaging/browser/build.ts'
import { findChromium, launchChromium } from '../support/chromium.ts'
import { servePages } from '../support/page-server.ts'
import { scriptOptions } from '../support/script-options.ts'
import type * as Dial from './dial-page.ts'

const USAGE = `npm run test:webtransport

WebTransport, and WebRTC-direct, between a page in Chromium and go-libp2p: what no node of this project listens on, or not everywhere. Needs Go, its
modules (go.sum names them) and a browser. Where Go is missing it says so and ends with 0; with ROOKERY_GO=required with 1.
`
scriptOptions(USAGE, {})
const LENGTH = 200_000
const say = (line: string) => process.stdout.write(`${line}\n`)

function missing(): string | undefined {
  try {
    execFileSync('go', ['version'], { stdio: 'ignore' })
  } catch {
    return 'Go (https://go.dev/dl)'
  }
  return findChromium() === undefined ? 'Chromium (Debian: apt-get install -y --no-install-recommends chromium)' : undefined
}

async function run(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'rookery-go-'))
  const peer = join(folder, 'go-webtransport')
  say('building the Go peer; the first time this fetches its modules')
  execFileSync('go', ['build', '-o', peer, '.'], { cwd: join(import.meta.dirname, 'go-webtransport'), stdio: 'inherit' })
  await build({
    entryPoints: { dial: join(import.meta.dirname, 'dial-page.ts') },
    outdir: folder,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    plugins: [withoutNode],
    logLevel: 'warning'
  })
  const child = spawn(peer, { stdio: ['pipe', 'pipe', 'inherit'] })
  const server = await servePages([folder])
  const browser = await launchChromium({ args: ['--allow-loopback-in-peer-connection'] })
  try {
    const line = await new Promise<string>((resolve) => createInterface({ input: child.stdout }).once('line', resolve))
    const go = JSON.parse(line) as { peer: string; addrs: string[]; echo: string }
    const page = await browser.context.newPage()
    await page.goto(server.url)
    let failed = 0
    for (const transport of ['webtransport', 'webrtc'] as const) {
      const addr = go.addrs.find((one) => one.includes(`/${transport}`) && one.includes('/certhash/'))
      if (addr === undefined) throw new Error(`the Go peer has no ${transport} address: ${go.addrs.join(', ')}`)
      const result = await page.evaluate(
        async (target) => {
          const file = '/dial.js'
          const { echoed } = (await import(file)) as typeof Dial
          return await echoed(target).catch((error: Error) => ({ error: error.message }))
        },
        { peer: go.peer, addr, protocol: go.echo, length: LENGTH }
      )
      const isGood = 'same' in result && result.same && result.transport === transport
      if (!isGood) failed++
      say(`${isGood ? 'ok' : 'FAILED'} ${transport}, Chromium ${browser.version} to go-libp2p: ${JSON.stringify(result)}`)
    }
    return failed === 0 ? 0 : 1
  } finally {
    child.stdin.end()
    await browser.close()
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const wanted = missing()
if (wanted === undefined) process.exitCode = await run()
else {
  say(`not run: install ${wanted}`)
  process.exitCode = process.env.ROOKERY_GO === 'required' ? 1 : 0
}

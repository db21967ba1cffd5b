import { execFile } from 'node:child_process'
import { accessSync, constants, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { VitalsResult } from '../../src/api/operator-methods.ts'
import { cleanUp, LAUNCHER, launcher, rookery, type StartedNode, startNode, tempDir } from './cli-fixture.ts'

let node: StartedNode
const data = () => ['--data', node.dataDir]
const TMUX = ['/usr/bin/tmux', '/opt/homebrew/bin/tmux', '/usr/local/bin/tmux'].find((path) => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
})

beforeAll(async () => {
  const dir = tempDir()
  await rookery('init', '--data', dir, '--agent', 'bob')
  node = await startNode(dir)
})
afterAll(async () => {
  await node.stop()
  await cleanUp()
})

describe('`rookery dashboard`', () => {
  it('prints an address that signs one page in, and says how long it is good for', async () => {
    const run = await rookery('dashboard', '--no-open', ...data())
    expect(run.code).toBe(0)
    const url = /http:\/\/127\.0\.0\.1:\d+\/dashboard#[\w-]{43}/.exec(run.stdout)?.[0] ?? ''
    expect(run.stdout).toContain('Open this address in a browser of this machine:')
    expect(run.stdout).toContain('once, within two minutes')
    const { url: other, expiresAtMs } = (await rookery('dashboard', '--json', ...data())).json<{ url: string; expiresAtMs: number }>()
    expect(other).not.toBe(url)
    expect(expiresAtMs).toBeGreaterThan(0)
    const page = await fetch(url)
    expect(page.status).toBe(200)
    const { origin } = new URL(url)
    const post = (path: string, body: object, headers: object = {}) =>
      fetch(`${origin}/dashboard/api/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', origin, ...headers },
        body: JSON.stringify(body)
      })
    const { token } = (await (await post('sign-in', { code: new URL(url).hash.slice(1) })).json()) as { token: string }
    const stream = await post('stream', {}, { authorization: `Bearer ${token}` })
    expect(stream.status).toBe(200)
    const reader = (stream.body as ReadableStream<Uint8Array>).getReader()
    const decoder = new TextDecoder()
    let text = ''
    while (!text.includes('"section":"trust"')) text += decoder.decode((await reader.read()).value, { stream: true })
    expect(text).toContain('"hello"')
    expect(text).toContain('"name":"bob"')
    await reader.cancel()
  })

  it('opens a browser from a terminal by a file that only its owner can read, not by the address', async ({ skip }) => {
    if (TMUX === undefined || process.platform !== 'linux') return skip('there is no terminal to try it on: install tmux')
    await using terminal = await openTerminal(TMUX)
    const folder = tempDir()
    const opened = join(folder, 'opened')
    writeFileSync(join(folder, 'xdg-open'), `#!/bin/sh\nprintf %s "$*" > ${opened}.part && mv ${opened}.part ${opened}\n`, { mode: 0o755 })
    await terminal.tmux(
      'send-keys',
      `DISPLAY=:9 PATH=${folder}:$PATH ${process.execPath} ${LAUNCHER} dashboard --data ${node.dataDir}`,
      'Enter'
    )
    await terminal.shows('The dashboard opens in your browser')
    await expect.poll(() => existsSync(opened), { timeout: 60_000 }).toBe(true)
    const page = readFileSync(opened, 'utf8')
    expect(page).toBe(pathToFileURL(join(node.dataDir, 'dashboard.html')).href)
    expect(statSync(fileURLToPath(page)).mode & 0o777).toBe(0o600)
    const [, url] = /url=(http[^"]+)"/.exec(readFileSync(fileURLToPath(page), 'utf8')) ?? []
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/dashboard#[\w-]{43}$/)
    expect((await terminal.screen()).replaceAll('\n', '')).toContain(url)
  })

  it('says that no node runs, or that the node serves no dashboard, and what to do', async () => {
    const nowhere = await rookery('dashboard', '--json', '--data', tempDir())
    expect(nowhere.code).not.toBe(0)
    expect(nowhere.error()).toMatchObject({ code: 'NODE_NOT_RUNNING', remedy: expect.stringContaining('rookery start') })
    const dir = tempDir()
    await rookery('init', '--data', dir)
    process.env.ROOKERY_OPS_DASHBOARD = 'false'
    const without = await startNode(dir)
    delete process.env.ROOKERY_OPS_DASHBOARD
    const off = await rookery('dashboard', '--json', '--data', dir)
    expect(off.error()).toMatchObject({ code: 'DASHBOARD_OFF', field: 'ops.dashboard', value: false })
    const { ops } = (await rookery('status', '--json', '--data', dir)).json<{ ops: { url: string } }>()
    expect((await fetch(`${ops.url}/dashboard`)).status).toBe(404)
    expect((await fetch(`${ops.url}/healthz`)).status).toBe(200)
    await without.stop()
  })
})

describe('`rookery top`', () => {
  it('prints once where nobody sits at a terminal, and one object for programs', async () => {
    const { stdout, code } = await launcher(['top', ...data()], { timeoutMs: 120_000 })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^rookery top {2}12D3Koo/)
    expect(stdout).toMatch(/^tasks +0 waiting, 0 working/m)
    expect(stdout).toMatch(/^ +\d+\.\d new\/s/m)
    expect(stdout).toMatch(/^bob +takes work +always_on +manual/m)
    expect(stdout).not.toContain('\u001b')
    expect((await rookery('top', '--once', ...data())).stdout).toContain('rookery top')
    const vitals = (await rookery('top', '--json', ...data())).json<VitalsResult & { perSecond: { ended: number } }>()
    expect(vitals).toMatchObject({ peers: 0, tasks: { created: 0 }, agents: [{ name: 'bob', now: 'accepts' }], sessionList: [] })
    expect(vitals.perSecond.ended).toBe(0)
    expect(vitals.memory.rssBytes).toBeGreaterThan(1_000_000)
    expect(vitals.eventLoop.utilization).toBeGreaterThanOrEqual(0)
  })

  it('says that no node runs', async () => {
    expect((await rookery('top', '--once', '--json', '--data', tempDir())).error().code).toBe('NODE_NOT_RUNNING')
  })

  it('redraws on a terminal, follows its size and its keys, and gives it back as it was', async ({ skip }) => {
    if (TMUX === undefined) return skip('there is no terminal to try it on: install tmux')
    await using terminal = await openTerminal(TMUX)
    const { tmux, screen, shows } = terminal
    await tmux('send-keys', `echo before; ${process.execPath} ${LAUNCHER} top --data ${node.dataDir}; echo "ended $?"`, 'Enter')
    await shows(/q quit +s sort \(active\)/)
    expect(await screen()).toMatch(/bob +takes work/)
    expect(await screen()).not.toContain('before')
    await tmux('send-keys', 's')
    await shows('s sort (sent)')
    await tmux('resize-window', '-x', '50', '-y', '12')
    const lastLine = async () => (await screen()).split('\n').findLast((line) => line !== '') ?? ''
    await expect.poll(lastLine, { timeout: 60_000 }).toMatch(/^q quit/)
    expect(Math.max(...(await screen()).split('\n').map((line) => line.length))).toBeLessThanOrEqual(50)
    await tmux('send-keys', 'C-c')
    await shows(/ended 0/)
    expect(await screen()).not.toContain('q quit')
    await tmux('send-keys', 'stty -a | tr " " "\\n" | grep -x -e echo -e icanon', 'Enter')
    await shows(/^icanon$/m)
    expect(await tmux('display-message', '-p', '#{cursor_flag} #{alternate_on}')).toBe('1 0\n')
  })
})

/** A terminal that nobody looks at. */
async function openTerminal(path: string) {
  const socket = join(tempDir(), 'tmux')
  const tmux = async (...words: string[]) => (await promisify(execFile)(path, ['-S', socket, '-f', '/dev/null', ...words])).stdout
  await tmux('new-session', '-d', '-x', '100', '-y', '30', 'sh')
  const screen = () => tmux('capture-pane', '-p')
  return {
    tmux,
    screen,
    shows: (text: string | RegExp) => expect.poll(screen, { timeout: 60_000, interval: 200 }).toMatch(text),
    async [Symbol.asyncDispose]() {
      await tmux('kill-server').catch(() => {})
    }
  }
}

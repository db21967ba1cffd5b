import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { main } from '../../src/cli/main.ts'
import { cleanUp, LAUNCHER, rookery, type StartedNode, startNode, tempDir } from './cli-fixture.ts'

let alice: StartedNode
let bob: StartedNode
let bobDid: string
const on = (...argv: string[]) => rookery(...argv, '--data', alice.dataDir, '--json')
const shown = (...argv: string[]) => rookery(...argv, '--data', alice.dataDir)

interface Details {
  id: string
  state: string
  rttMs: number
  epoch: { ageMs: number }
  vectors: { tx: { seq: string; hash: string } }
  channels: { channel: number; sent: string }[]
  contract?: { block: { payloadBytesMax: number; scopes: string[] }; usage: { secondsLeft: number; sent: { messages: number } } }
}

/** Runs a command that goes on until its signal fires, and lets a test wait for what it writes. */
function follow(argv: string[], terminal?: { columns: number; rows: number }) {
  const abort = new AbortController()
  const waiting = new Set<() => void>()
  let text = ''
  const stdout = Object.assign(
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        text += chunk.toString()
        for (const look of [...waiting]) look()
        done()
      }
    }),
    terminal === undefined ? {} : { isTTY: true, ...terminal }
  )
  let stderr = ''
  const errors = new Writable({
    write(chunk: Buffer, _encoding, done) {
      stderr += chunk.toString()
      done()
    }
  })
  const code = main(argv, { streams: { stdout, stderr: errors }, env: {}, signal: abort.signal })
  return {
    code,
    stop: () => abort.abort(),
    text: () => text,
    stderr: () => stderr,
    lines: <T>() =>
      text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as T),
    until: (condition: (text: string) => boolean) =>
      new Promise<void>((resolve) => {
        const look = () => {
          if (!condition(text)) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      })
  }
}

beforeAll(async () => {
  const [dataA, dataB] = [tempDir(), tempDir()]
  await rookery('init', '--data', dataA, '--agent', 'alice', '--json')
  await rookery('init', '--data', dataB, '--agent', 'bob', '--handler', 'echo', '--json')
  appendFileSync(join(dataB, 'config.yaml'), '\nsessions:\n  contract: { payloadBytesMax: 65536, messagesPerMinuteMax: 600 }\n')
  bob = await startNode(dataB)
  const { addresses, node } = bob.status
  alice = await startNode(dataA, '--bootstrap', `${addresses[0]}/p2p/${node.peer}`)
  const agents = await rookery('agent', 'list', '--data', dataB, '--json')
  bobDid = agents.json<{ did: string }[]>()[0]?.did ?? ''
})
afterAll(cleanUp)

describe('rookery session', () => {
  it.each(['session show', 'session watch', 'session open', 'session list', 'session close'])(
    '`%s --help` has an example',
    async (command) => {
      const help = await rookery(...command.split(' '), '--help')
      expect(help.code).toBe(0)
      expect(help.stdout).toContain('Example:\n  rookery session')
    }
  )

  it.each([
    ['a field that a contract does not have', ['--contract', 'sped=1'], 2, 'PARAMS_INVALID', 'contract.sped'],
    ['a scope that is none', ['--contract', 'scopes=fly'], 2, 'PARAMS_INVALID', 'contract.scopes[0]'],
    ['no name=value', ['--contract', 'payloadBytesMax'], 2, 'USAGE', undefined],
    ['a name that is there twice', ['--contract', 'region=1,region=2'], 2, 'USAGE', undefined],
    ['more than is offered [SFC-07]', ['--contract', 'payloadBytesMax=65537'], 6, 'CONTRACT_REFUSED', 'sfc.payloadBytesMax']
  ])('open refuses %s', async (_what, argv, exit, code, field) => {
    const refused = await on('session', 'open', bobDid, ...argv)
    expect([refused.error().code, refused.code, refused.error().field]).toEqual([code, exit, field])
    expect(refused.stdout).toBe('')
  })

  it.each([
    ['show', ['session', 'show', '0'.repeat(32)], 5, 'SESSION_UNKNOWN'],
    ['show', ['session', 'show', 'xyz'], 2, 'PARAMS_INVALID'],
    ['watch', ['session', 'watch', '0'.repeat(32)], 5, 'SESSION_UNKNOWN'],
    ['close', ['session', 'close', '0'.repeat(32)], 5, 'SESSION_UNKNOWN']
  ])('%s refuses an id that names no session', async (_what, argv, exit, code) => {
    const refused = await on(...argv)
    expect([refused.error().code, refused.code]).toEqual([code, exit])
  })

  it('[SFC-01] [SFC-08] opens under a contract, shows it with its use, follows it, closes it', async () => {
    const opened = await on('session', 'open', bobDid, '--contract', 'payloadBytesMax=65536,scopes=send-messages+create-tasks')
    expect(opened.code, opened.stderr).toBe(0)
    const { id } = opened.json<Details>()
    const watch = follow(['session', 'watch', id, '--data', alice.dataDir, '--json'])
    const all = follow(['session', 'watch', '--data', alice.dataDir])
    const screen = follow(['session', 'watch', id, '--data', alice.dataDir, '--no-color'], { columns: 60, rows: 16 })
    await watch.until((text) => text.includes('\n'))
    await all.until((text) => text.includes(id))
    await screen.until((text) => text.includes('vector tx'))

    const sent = await on('send', bobDid, '--text', 'hello', '--wait', '10s')
    expect(sent.json()).toMatchObject({ outcome: 'task', task: { status: { state: 'TASK_STATE_COMPLETED' } } })
    const details = (await on('session', 'show', id)).json<Details>()
    expect(details).toMatchObject({ id, state: 'established', contract: { block: { payloadBytesMax: 65_536 } } })
    expect(details.rttMs).toBeGreaterThan(0)
    expect(details.epoch.ageMs).toBeGreaterThan(0)
    expect(details.vectors.tx.hash).toMatch(/^[0-9a-f]{64}$/)
    expect(details.channels.find(({ channel }) => channel === 1)?.sent).toBe(details.vectors.tx.seq)
    expect(details.contract?.usage.sent.messages).toBeGreaterThan(0)
    const text = (await shown('session', 'show', id)).stdout
    for (const part of ['rtt', 'vector tx', 'channel    1', 'contract   site any', 'payload  largest sent', 'left'])
      expect(text).toContain(part)
    expect((await shown('session', 'list')).stdout).toMatch(new RegExp(`${id} +established`))

    await watch.until((out) => out.trim().split('\n').length > 1)
    all.stop()
    screen.stop()
    expect([await all.code, all.stderr()]).toEqual([0, ''])
    expect([await screen.code, screen.stderr()]).toEqual([0, ''])
    expect(screen.text().startsWith('\u001b[?25l\u001b[0J')).toBe(true)
    expect(screen.text().endsWith('\u001b[?25h')).toBe(true)
    expect(screen.text()).not.toContain('contract   site') // below the last line of the terminal

    expect((await on('session', 'close', id)).json()).toEqual({ id })
    expect(await watch.code).toBe(0)
    const lines = watch.lines<{ atMs: number; sessions: Details[]; ended?: string }>()
    expect(lines[0]?.sessions[0]).toMatchObject({ id, state: 'established' })
    expect(lines.at(-1)).toMatchObject({ ended: id })
    expect((await on('session', 'list')).json<unknown[]>()).toEqual([])
  })

  it('watch waits in a process of its own, and Ctrl-C is its ordinary end', async () => {
    const child = spawn(process.execPath, [LAUNCHER, 'session', 'watch', '--data', alice.dataDir, '--json'], {
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    expect(JSON.parse((await lines.next()).value as string)).toMatchObject({ sessions: [] })
    const opened = await on('session', 'open', bobDid)
    expect(JSON.parse((await lines.next()).value as string)).toMatchObject({ sessions: [{ id: opened.json<Details>().id }] })
    child.kill('SIGINT')
    expect([(await once(child, 'close'))[0], stderr]).toEqual([0, ''])
  })
})

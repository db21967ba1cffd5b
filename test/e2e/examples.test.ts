import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const FOLDER = fileURLToPath(new URL('../../examples/', import.meta.url))
const TIMEOUT_MS = 60_000

/** Runs an example as its header says. */
async function run(name: string): Promise<{ code: number | null; lines: string[]; stderr: string }> {
  const child = spawn(process.execPath, [`${FOLDER}${name}`], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL'
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, lines: stdout.trimEnd().split('\n'), stderr }
}

/** What each prints; an example without a row here fails the last test. */
const EXPECTED: Record<string, (RegExp | string)[]> = {
  'byte-stream.ts': [/^read live: 64 MiB in \d+ chunks, whole$/, /^read durable: 64 MiB in \d+ chunks, whole$/],
  'session-echo.ts': [/^open over quic in 2 round trips \(\d+\.\d ms\)$/, 'echo: one', 'echo: two', 'echo: three', 'event: ended'],
  'task-board.ts': ['members: 3', 'eve sees: claimed', 'ann sees: done', 'all hold the same: true', 'eve sees of task 2: unknown'],
  'shared-state.ts': [
    'alice sees load = 0.25',
    'alice sees task = {"title":"sort the mail","done":true}',
    /^alice refuses load: .*number/,
    'both hold the same: true',
    'alice: the state of bob is gone',
    'after the end: ESE_GONE'
  ],
  'survives-a-kill.ts': [
    'the first message is acknowledged',
    'the other node was killed',
    'the other node is back',
    'event: resumed',
    /^the second message is acknowledged: session [0-9a-f]{8}, resumed, 0 unacknowledged$/
  ],
  'contract.ts': [
    '4 KiB a message: CONTRACT_REFUSED (sfc.payloadBytesMax)',
    '1 KiB: went through',
    '2 KiB: CONTRACT_LIMIT (sfc.payloadBytesMax)',
    'a mailbox item: CONTRACT_LIMIT (sfc.scopes)',
    /^used: 1 message, 1024 bytes, \d+ s left$/
  ]
}

describe('the examples', () => {
  it.each(Object.entries(EXPECTED))(
    '%s runs as it is and prints what it promises',
    async (name, expected) => {
      const { code, lines, stderr } = await run(name)
      expect(code, stderr).toBe(0)
      for (const line of expected) {
        expect(
          lines.some((one) => (typeof line === 'string' ? one === line : line.test(one))),
          `${line} in\n${lines.join('\n')}`
        ).toBe(true)
      }
    },
    TIMEOUT_MS + 5_000
  )

  it(
    'survives-a-kill.ts delivers each message once',
    async () => {
      const { lines } = await run('survives-a-kill.ts')
      expect(lines.filter((line) => line.startsWith('  the other node got')).map((line) => line.trim())).toEqual([
        'the other node got: first',
        'the other node got: second'
      ])
    },
    TIMEOUT_MS + 5_000
  )

  it('are all run here', () => {
    expect(
      readdirSync(FOLDER)
        .filter((name) => /\.(ts|mjs)$/.test(name))
        .sort()
    ).toEqual(Object.keys(EXPECTED).sort())
  })
})

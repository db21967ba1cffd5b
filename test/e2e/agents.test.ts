import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { openControl } from '../../src/daemon.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'
import { LAUNCHER } from './cli-fixture.ts'

const FOLDER = fileURLToPath(new URL('../../examples/agents/', import.meta.url))
const TIMEOUT_MS = 120_000
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function nodeWithAgents(): Promise<{ node: RookeryNode; dir: string; alice: HostedAgent; bob: HostedAgent }> {
  const dir = nodeDir()
  cleanups.push(() => dir.remove())
  const node = await createNode({ ...LOOPBACK, dataDir: dir.path })
  cleanups.push(() => node.stop())
  await openControl(node, dir.path)
  return { node, dir: dir.path, alice: await node.addAgent({ name: 'alice' }), bob: await node.addAgent({ name: 'bob' }) }
}

async function run(command: string, argv: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(command, argv, { stdio: ['ignore', 'pipe', 'pipe'], timeout: TIMEOUT_MS, killSignal: 'SIGKILL' })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

const say = (text: string) => ({ messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }] })

describe('an example agent for each door', () => {
  it(
    'the library: a function of the same process asks, tells progress and answers',
    async () => {
      const { code, stdout, stderr } = await run(process.execPath, [`${FOLDER}library.ts`])
      expect(code, stderr).toBe(0)
      expect(stdout).toContain('the clerk asks: For which city?')
      expect(stdout).toContain('the clerk answers: Sunny in Oslo (TASK_STATE_COMPLETED)')
    },
    TIMEOUT_MS
  )

  it(
    'the claim API over HTTP, from Python with its standard library alone',
    async () => {
      const { node, alice, bob } = await nodeWithAgents()
      const agent = run('python3', [`${FOLDER}claim.py`, node.httpUrl as string, node.agents.tokenFile(bob) as string, '1'])
      const answer = await node.send({ from: alice, to: bob.eid, message: say('quiet words') }, { waitMs: TIMEOUT_MS })
      expect(answer).toMatchObject({
        task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts: [{ text: 'QUIET WORDS' }] }] }
      })
      const { code, stdout, stderr } = await agent
      expect([code, stdout], stderr).toEqual([0, 'answered: QUIET WORDS\n'])
    },
    TIMEOUT_MS
  )

  it(
    '[TD-18] MCP over stdio, through `rookery mcp`, by the SDK’s own client',
    async () => {
      const { node, dir, alice, bob } = await nodeWithAgents()
      const agent = run(process.execPath, [`${FOLDER}mcp.mjs`, process.execPath, LAUNCHER, '--data', dir, 'mcp', '--agent', 'bob'])
      const answer = await node.send({ from: alice, to: bob.eid, message: say('three small words') }, { waitMs: TIMEOUT_MS })
      expect(answer).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts: [{ text: '3 words' }] }] } })
      const { code, stdout, stderr } = await agent
      expect([code, stdout], stderr).toEqual([0, 'counted 3 words: done\n'])
    },
    TIMEOUT_MS
  )

  it('are all run here', () => {
    expect(readdirSync(FOLDER).sort()).toEqual(['claim.py', 'library.ts', 'mcp.mjs'])
  })
})

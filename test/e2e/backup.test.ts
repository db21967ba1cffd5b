import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { cleanUp, rookery, startNode, tempDir } from './cli-fixture.ts'

const SPACE = 'org.agentnet/backups@1'

afterAll(cleanUp)

interface Locator {
  gen: number
}

describe('a node whose disk is lost', () => {
  it('[PSS-07] comes back from a backup that was made while it ran, and signs nothing that it signed before', async () => {
    const [dataA, dataB, restored] = [tempDir(), tempDir(), join(tempDir(), 'again')]
    for (const [dir, agent] of [
      [dataA, 'alice'],
      [dataB, 'bob']
    ] as const) {
      expect((await rookery('init', '--data', dir, '--agent', agent, '--handler', 'echo', '--json')).code).toBe(0)
    }
    const b = await startNode(dataB)
    const bootstrap = ['--bootstrap', `${b.status.addresses[0]}/p2p/${b.status.node.peer}`]
    const a = await startNode(dataA, ...bootstrap)
    const on = (dir: string, ...argv: string[]) => rookery(...argv, '--data', dir, '--json')
    const did = (await on(dataA, 'agent', 'list')).json<{ did: string }[]>()[0]?.did as string
    expect((await on(dataA, 'space', 'announce', SPACE)).code).toBe(0)

    const secret = join(tempDir(), 'passphrase')
    writeFileSync(secret, 'many words that nobody guesses\n', { mode: 0o600 })
    const file = join(tempDir(), 'a.backup')
    expect((await on(dataA, 'backup', file)).error()).toMatchObject({ code: 'PASSPHRASE_MISSING' })
    let made = false
    const writing = (async () => {
      let sent = 0
      for (; !made || sent === 0; sent++) {
        expect((await on(dataA, 'send', did, '--text', `written meanwhile ${sent}`, '--wait', '0s')).code).toBe(0)
      }
      return sent
    })()
    expect((await on(dataA, 'backup', file, '--passphrase-file', secret)).json()).toMatchObject({ file, sealed: 'passphrase' })
    made = true
    expect(await writing).toBeGreaterThan(0)

    expect((await on(dataA, 'space', 'update', SPACE, '--description', 'after the backup')).code).toBe(0)
    const locator = async () => (await on(dataB, 'resolve', did, '--fresh')).json<Locator>()
    const before = await locator()
    expect(await a.stop('SIGKILL')).toBe(null)

    expect((await on(restored, 'restore', file, '--passphrase-file', secret)).code).toBe(0)
    expect((await on(restored, 'restore', file, '--passphrase-file', secret)).error()).toMatchObject({ code: 'DATA_DIR_NOT_EMPTY' })
    const again = await startNode(restored, ...bootstrap)
    expect(again.status.node.peer).toBe(a.status.node.peer)
    expect((await on(restored, 'space', 'update', SPACE, '--description', 'after the restore')).code).toBe(0)
    expect((await on(dataB, 'send', did, '--text', 'still there?')).code).toBe(0)
    // what was in it when the backup was made is whole: each task with its text
    const inbox = (await on(restored, 'inbox', '--limit', '1000')).json<{ id: string; preview: string }[]>()
    for (const { id } of inbox) expect((await on(restored, 'inbox', 'show', id)).code).toBe(0)
    while ((await locator()).gen <= before.gen) await new Promise((resolve) => setTimeout(resolve, 50))
    expect(JSON.stringify((await on(dataB, 'space', 'show', SPACE)).json())).toContain('after the restore')
    const standing = (await on(dataB, 'standing', did)).json<{ refused: boolean; evidence?: object }[]>()
    expect(standing.filter(({ refused, evidence }) => refused || evidence !== undefined)).toEqual([])
    expect(await again.stop()).toBe(0)
    // what does not run is read from its folder
    const second = join(tempDir(), 'second.backup')
    expect((await on(restored, 'backup', second, '--no-passphrase')).json()).toMatchObject({ sealed: 'open' })
    expect(existsSync(second)).toBe(true)
    expect(await b.stop()).toBe(0)
  }, 240_000)
})

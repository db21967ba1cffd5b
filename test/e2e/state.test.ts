import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { main } from '../../src/cli/main.ts'
import { cleanUp, rookery, type StartedNode, startNode, tempDir } from './cli-fixture.ts'

let alice: StartedNode
let bob: StartedNode
let aliceDid: string
let bobDid: string
let id: string
const at = (node: StartedNode, ...argv: string[]) => rookery('state', ...argv, '--data', node.dataDir, '--json')
const shown = (node: StartedNode, ...argv: string[]) => rookery('state', ...argv, '--data', node.dataDir)

/** Follows a state until it is told to stop, and waits for lines. */
function follow(node: StartedNode, ...argv: string[]) {
  const abort = new AbortController()
  const waiting = new Set<() => void>()
  let text = ''
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString()
      for (const look of [...waiting]) look()
      done()
    }
  })
  const stderr = new Writable({ write: (_chunk, _encoding, done) => done() })
  const code = main(['state', 'watch', ...argv, '--data', node.dataDir, '--json'], {
    streams: { stdout, stderr },
    env: {},
    signal: abort.signal
  })
  const lines = () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { kind: string; key?: string; value?: unknown; base64?: string })
  return {
    code,
    lines,
    stop: () => abort.abort(),
    until: (condition: (seen: ReturnType<typeof lines>) => boolean) =>
      new Promise<void>((resolve) => {
        const look = () => {
          if (!condition(lines())) return
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
  await rookery('init', '--data', dataB, '--agent', 'bob', '--json')
  bob = await startNode(dataB)
  const { addresses, node } = bob.status
  alice = await startNode(dataA, '--bootstrap', `${addresses[0]}/p2p/${node.peer}`)
  aliceDid = (await rookery('agent', 'list', '--data', dataA, '--json')).json<{ did: string }[]>()[0]?.did as string
  bobDid = (await rookery('agent', 'list', '--data', dataB, '--json')).json<{ did: string }[]>()[0]?.did as string
  id = (await rookery('session', 'open', bobDid, '--data', dataA, '--json')).json<{ id: string }>().id
}, 60_000)

afterAll(cleanUp)

describe('rookery state', () => {
  it('[PSS-03] [ESE-02] what one side sets the other gets and sees at once, by DID or session', async () => {
    const watch = follow(bob, aliceDid)
    await watch.until((seen) => seen.some(({ kind }) => kind === 'watching'))
    const set = await at(alice, 'set', bobDid, 'task', '{"title":"one","done":null}')
    expect(set.json()).toMatchObject({ id, remote: bobDid, outcome: 'acknowledged', info: { status: 'current', keys: 1 } })
    expect((await at(bob, 'get', aliceDid, 'task')).json()).toMatchObject({
      side: 'peer',
      entries: [{ key: 'task', value: { title: 'one', done: null } }]
    })
    expect((await at(alice, 'set', id, 'task', '--merge', '{"done":true}')).code).toBe(0)
    expect((await at(alice, 'set', id, 'task', '--patch', '[{"op":"replace","path":"/title","value":"two"}]')).code).toBe(0)
    const file = join(tempDir(), 'picture')
    writeFileSync(file, Uint8Array.of(0, 255))
    expect((await at(alice, 'set', id, 'picture', '--file', file)).code).toBe(0)
    expect((await at(alice, 'set', id, 'note', '--text', 'by \u001b[31m hand')).code).toBe(0)
    const { entries, info } = (await at(bob, 'get', id)).json<{ entries: unknown; info: { hash: string } }>()
    expect(entries).toEqual([
      { key: 'note', value: 'by \u001b[31m hand' },
      { key: 'picture', base64: 'AP8=' },
      { key: 'task', value: { title: 'two', done: true } }
    ])
    expect((await at(alice, 'get', id, '--own')).json<{ info: { hash: string } }>().info.hash).toBe(info.hash)
    await at(alice, 'set', id, 'note', '--delete')
    await watch.until((seen) => seen.some(({ kind, key }) => kind === 'delete' && key === 'note'))
    expect(watch.lines()).toContainEqual({ kind: 'set', key: 'picture', base64: 'AP8=' })
    watch.stop()
    expect(await watch.code).toBe(0)
  })

  it('reads for people, without what would steer their terminal', async () => {
    await at(alice, 'set', id, 'evil', '--text', '\u009b31mred')
    const { stdout } = await shown(bob, 'get', id)
    expect(stdout).toContain('task  {"done":true,"title":"two"}')
    expect(stdout).not.toContain('\u009b')
    expect((await shown(bob, 'peers')).stdout).toMatch(new RegExp(`${id}  established  0 keys, 0 B  3 keys, .* ${aliceDid}`))
    expect((await shown(alice, 'set', id, 'evil', '--delete')).stdout).toMatch(/^the peer has it: 2 keys, /)
  })

  it('lists the sessions and what each side of them holds', async () => {
    const [peer] = (await at(bob, 'peers')).json<
      { id: string; remote: string; exclusive: boolean; own: { keys: number }; peer: { keys: number } }[]
    >()
    expect(peer).toMatchObject({ id, remote: aliceDid, exclusive: false, own: { keys: 0 }, peer: { keys: 2 } })
  })

  it.each<[string, string[], { code: string; field: string }, number]>([
    ['no JSON', ['set', 'ID', 'x', 'nope'], { code: 'STATE_VALUE_INVALID', field: 'json' }, 2],
    ['no value', ['set', 'ID', 'x'], { code: 'STATE_VALUE_MISSING', field: 'json' }, 2],
    ['two values', ['set', 'ID', 'x', '1', '--delete'], { code: 'STATE_VALUE_MISSING', field: 'json' }, 2],
    ['no file', ['set', 'ID', 'x', '--file', '/nowhere'], { code: 'STATE_FILE_UNREADABLE', field: '--file' }, 2],
    [
      'a patch that does not fit',
      ['set', 'ID', 'task', '--patch', '[{"op":"remove","path":"/x"}]'],
      { code: 'ESE_REFUSED', field: 'patch[0]' },
      2
    ],
    ['a key of nothing', ['get', 'ID', 'nothing'], { code: 'STATE_KEY_UNKNOWN', field: 'key' }, 5],
    [
      'a peer without a session',
      ['get', 'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp'],
      { code: 'SESSION_UNKNOWN', field: 'peer' },
      5
    ]
  ])('refuses %s, and says what to do', async (_title, argv, error, code) => {
    const run = await at(alice, ...argv.map((word) => (word === 'ID' ? id : word)))
    expect(run.error()).toMatchObject(error)
    expect(run.error().remedy).toBeTypeOf('string')
    expect(run.code).toBe(code)
  })

  it('[ESE-05] a watcher is told the end, and after it there is no session to ask', async () => {
    const watch = follow(bob, id)
    await watch.until((seen) => seen.some(({ kind }) => kind === 'watching'))
    await rookery('session', 'close', id, '--data', alice.dataDir, '--json')
    expect(await watch.code).toBe(0)
    expect(watch.lines().slice(-2)).toEqual([
      { kind: 'status', status: 'gone' },
      { kind: 'ended', reason: 'done' }
    ])
    expect((await at(bob, 'get', id)).error().code).toBe('SESSION_UNKNOWN')
  })
})

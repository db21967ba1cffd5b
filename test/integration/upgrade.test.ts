import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openControl } from '../../src/daemon.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { openStore } from '../../src/store/open-store.ts'
import { SCHEMA_VERSION } from '../../src/store/schema-version.ts'
import { jsonCodec } from '../../src/store/store.ts'
import { rookery } from '../e2e/cli-fixture.ts'
import { LOOPBACK } from '../support/node-dir.ts'
import { clockOfThen, firstSchemaDir } from '../support/old-data-dir.ts'

const dir = firstSchemaDir()
let node: RookeryNode
const ask = async <T>(...argv: string[]) => {
  const run = await rookery(...argv, '--data', dir.path, '--json')
  expect(run.code, run.stderr).toBe(0)
  return run.json<T>()
}

beforeAll(async () => {
  node = await createNode({ ...LOOPBACK, dataDir: dir.path }, { clock: clockOfThen(60_000) })
  await openControl(node, dir.path)
}, 60_000)
afterAll(async () => {
  await node.stop()
  dir.remove()
})

describe('a data directory of the first schema that was ever stored', () => {
  it('[F100] is opened by this software: node and agents are who they were', async () => {
    expect(node.peer).toBe('12D3KooWS7LvxmZpiyh1Da6A497gctFHWwDnmQKY3phiNUtrBfVQ')
    expect(await ask('agent', 'list')).toMatchObject([
      { name: 'alice', did: 'did:key:z6MkgGpdwy944DoLGCxq6cu5oBs8JALKi6SfaoT9HcPyD7iK', handler: 'echo', isDefault: true },
      { name: 'bob', did: 'did:key:z6MkrnWAvCP7yZinEXF1u9QTbguUBkozAtPhM56REoYkDh9q', mode: 'always_on' },
      { name: 'carol', did: 'did:key:z6Mkg3K7tzbrzKxjMJaCvreaXYUp2rMca7sbJQPpgGDRWDDL', mode: 'sleep', queue: { messages: 2 } }
    ])
  })

  it('keeps what came in: done, waiting for a person, and announced', async () => {
    expect(await ask('inbox', '--agent', 'bob')).toMatchObject([{ preview: 'what does power cost?', state: 'pending' }])
    expect(await ask('inbox', '--agent', 'alice')).toMatchObject([{ preview: 'echoed', state: 'done' }])
    const [{ id = '' } = {}] = await ask<{ id?: string }[]>('inbox', '--agent', 'bob')
    expect(await ask('inbox', 'complete', id, '--text', '31 cents')).toMatchObject({ todo: { state: 'done' } })
    expect(await ask('space', 'list')).toMatchObject([{ name: 'org.example/old@1', role: 'curator' }])
  })

  it('[OD-30] hands over what it kept for a sleeper, in order, once, and knows the messages when they are sent again', async () => {
    const names = (await ask<{ objectId: string }[]>('queue', 'list', '--agent', 'carol')).map(({ objectId }) => objectId)
    expect(names).toHaveLength(2)
    expect(await ask('wake', '--agent', 'carol')).toMatchObject({ drain: { accepted: 2, discarded: 0 } })
    const inbox = async () => (await ask<{ preview: string }[]>('inbox', '--agent', 'carol')).map(({ preview }) => preview)
    expect(await inbox()).toEqual(['kept two', 'kept one'])
    await ask('send', 'carol', '--text', 'kept one', '--message-id', 'm-old-3', '--agent', 'alice', '--wait', '0s')
    expect(await inbox()).toEqual(['kept two', 'kept one'])
  })

  it('has the schema of this software afterwards', async () => {
    await node.stop()
    const store = await openStore(dir.path, { software: 'test' })
    expect(await store.table('meta', jsonCodec<{ version: number }>()).get('schema')).toMatchObject({ version: SCHEMA_VERSION })
    await store.close()
  })
})

/**
 * Two agents that show each other state: each writes its own, the other sees every change at once, checked by a schema. The names of the fields are the
 * contract of the two; whatever else the peer writes is refused when it is read.
 *
 *   node examples/shared-state.ts
 *
 * In a program of your own: `import { … } from 'rookery'`, and any Standard Schema: zod, valibot, arktype …
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { createNode, initDataDir, nodeCrypto, RookeryError, type RookeryNode, systemClock, systemRandom } from '../src/index.ts'

const say = (line: string) => process.stdout.write(`${line}\n`)
const folder = mkdtempSync(join(tmpdir(), 'rookery-example-'))

/** What a worker shows whoever gives it work. */
const worker = {
  load: z.number().min(0).max(1),
  task: z.object({ title: z.string(), done: z.boolean() })
}

async function start(name: string, bootstrap: string[]): Promise<RookeryNode> {
  const dataDir = join(folder, name)
  initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
  return await createNode({ dataDir, listen: ['/ip4/127.0.0.1/udp/0/quic-v1'], http: { enabled: false }, bootstrap })
}

try {
  await using there = await start('there', [])
  await using here = await start(
    'here',
    there.host.addresses().map((address) => `${address}/p2p/${there.peer}`)
  )
  while ([here, there].some(({ host }) => host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
  const bob = await there.addAgent({ name: 'bob' })
  const alice = await here.addAgent({ name: 'alice' })

  // alice: follows what bob shows; a slow loop sees the newest value of a key, and never holds bob up
  const session = await here.openSession(alice, bob.eid)
  const shown = session.states.peer.as(worker)
  const following = (async () => {
    for await (const event of shown.watch()) {
      if (event.kind === 'set') say(`alice sees ${event.key} = ${JSON.stringify(event.value)}`)
      if (event.kind === 'invalid') say(`alice refuses ${event.key}: ${event.issues.join('; ')}`)
      if (event.kind === 'status') say(`alice: the state of bob is ${event.status}`)
    }
  })()

  // bob: each call resolves when alice has it
  const theirs = await there.session(session.info().id)
  const own = theirs.states.own
  await own.as(worker).set('load', 0.25)
  await own.as(worker).set('task', { title: 'sort the mail', done: false })
  await own.patch('task', [{ op: 'replace', path: '/done', value: true }])
  await own.set('load', 'a lot') // without the schema anything goes out; it is alice who checks
  say(`both hold the same: ${theirs.states.own.hash() === session.states.peer.hash()}`)

  await session.close()
  await following
  try {
    session.states.peer.get('task')
  } catch (error) {
    say(`after the end: ${error instanceof RookeryError ? error.code : error}`)
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}

import { join } from 'node:path'
import { writeHeapSnapshot } from 'node:v8'
import { initDataDir } from '../../src/identity/init.ts'
import { createNode, nodeCrypto, type RookeryNode, type Session, systemRandom } from '../../src/index.ts'
import { systemClock } from '../../src/platform/clock.ts'

/**
 * Two nodes that show each other state, in a process of their own so that its heap can be searched: `node erasure-process.ts <folder> <how>`. The value
 * is made from parts at run time: it stands in no source. Every step is told to the parent, which then looks.
 */
const [folder, how] = [process.argv[2] as string, process.argv[3] as 'rotate' | 'close']
const marker = (side: string) => ['MARK', side, 'ER', 'x'.repeat(3)].join('-')
const tell = (step: string) => process.send?.({ step })
const told = () => new Promise<void>((resolve) => process.once('message', () => resolve()))

async function start(name: string, bootstrap: string[]): Promise<RookeryNode> {
  const dataDir = join(folder, name)
  initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
  return await createNode({ dataDir, listen: ['/ip4/127.0.0.1/udp/0/quic-v1'], http: { enabled: false }, bootstrap })
}

const there = await start('there', [])
const here = await start(
  'here',
  there.host.addresses().map((address) => `${address}/p2p/${there.peer}`)
)
while ([here, there].some(({ host }) => host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
const bob = await there.addAgent({ name: 'bob' })
const alice = await here.addAgent({ name: 'alice' })

async function write(session: Session): Promise<void> {
  const key = marker('key')
  await session.states.own.set(key, { deep: [marker('value')] })
  await session.states.own.merge(key, { more: marker('merged') })
  await session.states.own.set('blob', new TextEncoder().encode(marker('blob')))
}

const session = await here.openSession(alice, bob.eid)
await write(session)
const theirs = (await there.session(session.info().id)) as Session
if (JSON.stringify(theirs.states.peer.get(marker('key'))) === undefined) throw new Error('the mirror is empty')
writeHeapSnapshot(join(folder, 'before.heapsnapshot'))
tell('written')
await told()
if (how === 'rotate') {
  await here.rotate(alice)
  while (theirs.info().remote !== alice.did || theirs.states.peer.size > 0) await systemClock.sleep(10)
} else {
  await session.close()
  await theirs.closed
}
tell('erased')
await told()
await systemClock.sleep(50) // the turn that ended the calls, and what they held
globalThis.gc?.()
writeHeapSnapshot(join(folder, 'after.heapsnapshot'))
tell('searched')
await told()
await here.stop()
await there.stop()
process.disconnect()

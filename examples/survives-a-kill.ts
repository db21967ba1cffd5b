/**
 * A durable message outlives the process it is for: the other node is killed with SIGKILL, a message is sent meanwhile, the node starts again, and
 * the same session delivers it, once and in order.
 *
 *   node examples/survives-a-kill.ts
 *
 * In a program of your own: `import { … } from 'rookery'`.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createNode, eidFromDid, ITEM_KINDS, initDataDir, nodeCrypto, systemClock, systemRandom } from '../src/index.ts'

const CHANNEL = 10
const say = (line: string) => process.stdout.write(`${line}\n`)
const bytes = (text: string) => new TextEncoder().encode(text)

if (process.argv[2] === 'worker') await worker(process.argv[3] ?? '', Number(process.argv[4]))
else await main()

/** The other node, in a process of its own: tells its parent what came. */
async function worker(dataDir: string, port: number): Promise<void> {
  process.on('disconnect', () => process.exit(0))
  const node = await createNode({ dataDir, listen: [`/ip4/127.0.0.1/udp/${port}/quic-v1`], http: { enabled: false } })
  // also called for sessions that an earlier process left on disk
  node.sessions.onSession((session) => {
    session.onChannel(CHANNEL, async ({ payload }) => {
      process.send?.({ came: new TextDecoder().decode(payload) })
    })
  })
  const [agent = await node.addAgent({ name: 'bob' })] = node.agents.list()
  process.send?.({ did: agent.did, address: `${node.host.addresses()[0]}/p2p/${node.peer}` })
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rookery-example-'))
  const [mine, theirs] = [join(folder, 'here'), join(folder, 'there')]
  for (const dataDir of [mine, theirs]) initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
  const port = await freePort()
  let child: ChildProcess | undefined
  const startWorker = async () => {
    child = fork(fileURLToPath(import.meta.url), ['worker', theirs, String(port)])
    const [ready] = (await once(child, 'message')) as [{ did: string; address: string }]
    child.on('message', ({ came }: { came?: string }) => {
      if (came !== undefined) say(`  the other node got: ${came}`)
    })
    return ready
  }
  try {
    const { did, address } = await startWorker()
    await using here = await createNode({
      dataDir: mine,
      listen: ['/ip4/127.0.0.1/udp/0/quic-v1'],
      http: { enabled: false },
      bootstrap: [address]
    })
    while (here.host.dht.routingTableSize() === 0) await systemClock.sleep(20)
    const alice = await here.addAgent({ name: 'alice' })
    const session = await here.openSession(alice, eidFromDid(did))
    session.onEvent((event) => say(`event: ${event.kind}`))

    // resolves when the other node has synced its effect
    await session.send(CHANNEL, ITEM_KINDS.a2a, bytes('first'))
    say('the first message is acknowledged')
    const killed = once(child as ChildProcess, 'exit')
    child?.kill('SIGKILL')
    await killed
    say('the other node was killed')

    // journaled and synced here before it is sent, so this process could be killed now as well
    const second = session.send(CHANNEL, ITEM_KINDS.a2a, bytes('second'))
    await startWorker()
    say('the other node is back')
    await second
    const { id, resumes, unacked } = session.info()
    say(
      `the second message is acknowledged: session ${id.slice(0, 8)}, ${resumes > 0 ? 'resumed' : 'never lost'}, ${unacked} unacknowledged`
    )
    await session.close()
  } finally {
    child?.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

async function freePort(): Promise<number> {
  const socket = createSocket('udp4')
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address()
  await new Promise<void>((resolve) => socket.close(() => resolve()))
  return port
}

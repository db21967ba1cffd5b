/**
 * Two nodes in one process: a session between two agents, and an echo over a channel of it.
 *
 *   node examples/session-echo.ts
 *
 * In a program of your own: `import { … } from 'rookery'`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createNode, ITEM_KINDS, initDataDir, nodeCrypto, type RookeryNode, systemClock, systemRandom } from '../src/index.ts'

/** Channels 0 to 2 are the protocol's, A2A's and the mailbox's; the others are yours. */
const CHANNEL = 10
const say = (line: string) => process.stdout.write(`${line}\n`)
const bytes = (text: string) => new TextEncoder().encode(text)
const text = (payload: Uint8Array) => new TextDecoder().decode(payload)

const folder = mkdtempSync(join(tmpdir(), 'rookery-example-'))

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

  // bob: an item counts as handled when the loop asks for the next, so a slow loop holds back who sends
  there.sessions.onSession(async (session) => {
    for await (const { payload } of session.items(CHANNEL)) await session.send(CHANNEL, ITEM_KINDS.live, bytes(`echo: ${text(payload)}`))
  })

  // alice: the session is closed, by a TEARDOWN that both sides sign, where this block ends
  await using session = await here.openSession(alice, bob.eid)
  session.onEvent(({ kind }) => say(`event: ${kind}`))
  const { transport, handshakeMs, roundTrips } = session.info()
  say(`open over ${transport} in ${roundTrips} round trips (${handshakeMs.toFixed(1)} ms)`)
  const answers = session.items(CHANNEL)
  for (const word of ['one', 'two', 'three']) {
    await session.send(CHANNEL, ITEM_KINDS.live, bytes(word))
    const { value } = await answers.next()
    say(text(value?.payload ?? new Uint8Array(0)))
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}

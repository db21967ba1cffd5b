/**
 * A session under a contract: what it may carry is agreed on in its handshake, and both sides hold each other to it.
 *
 *   node examples/contract.ts
 *
 * In a program of your own: `import { … } from 'rookery'`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type ConfigInput,
  createNode,
  ITEM_KINDS,
  initDataDir,
  nodeCrypto,
  RookeryError,
  type RookeryNode,
  systemClock,
  systemRandom
} from '../src/index.ts'

const CHANNEL = 10
const say = (line: string) => process.stdout.write(`${line}\n`)
const folder = mkdtempSync(join(tmpdir(), 'rookery-example-'))

async function start(name: string, config: ConfigInput): Promise<RookeryNode> {
  const dataDir = join(folder, name)
  initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
  return await createNode({ dataDir, listen: ['/ip4/127.0.0.1/udp/0/quic-v1'], http: { enabled: false }, ...config })
}

/** Says why something was refused. */
async function refused(what: string, work: Promise<unknown>): Promise<void> {
  try {
    await work
    say(`${what}: went through`)
  } catch (error) {
    if (!(error instanceof RookeryError)) throw error
    say(`${what}: ${error.code} (${error.field})`)
  }
}

try {
  // the offer to whoever asks; without it a node offers plain sessions only
  await using there = await start('there', {
    sessions: {
      contract: { scopes: ['send-messages', 'stream'], payloadBytesMax: 1_024, messagesPerMinuteMax: 60, sessionSecondsMax: 600 }
    }
  })
  await using here = await start('here', { bootstrap: there.host.addresses().map((address) => `${address}/p2p/${there.peer}`) })
  while ([here, there].some(({ host }) => host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
  const bob = await there.addAgent({ name: 'bob' })
  const alice = await here.addAgent({ name: 'alice' })
  there.sessions.onSession((session) => session.onChannel(CHANNEL, async () => {}))

  // no session comes of an offer that falls short of what is needed
  await refused('4 KiB a message', here.openSession(alice, bob.eid, { contract: { payloadBytesMax: 4_096 } }))

  await using session = await here.openSession(alice, bob.eid, { contract: { payloadBytesMax: 1_024 } })
  await refused('1 KiB', session.send(CHANNEL, ITEM_KINDS.a2a, new Uint8Array(1_024)))
  await refused('2 KiB', session.send(CHANNEL, ITEM_KINDS.a2a, new Uint8Array(2_048)))
  await refused('a mailbox item', session.send(CHANNEL, ITEM_KINDS.mailbox, new Uint8Array(1)))
  const { contract } = session.info()
  say(`used: ${contract?.usage.sent.messages} message, ${contract?.usage.sent.payloadBytes} bytes, ${contract?.usage.secondsLeft} s left`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}

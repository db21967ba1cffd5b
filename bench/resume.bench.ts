/** How long does a session take to catch up on 10,000 transactions made while it was cut off, beside sending them live? */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eidFromDid } from '../protocol/identity/eid.ts'
import { openStore } from '../src/store/open-store.ts'
import { cuttableHost } from './changed-host.ts'
import { CHANNEL, DURABLE, newAgent, ours } from './endpoints.ts'
import { compare } from './harness.ts'
import { startPeer } from './pair.ts'

const TRANSACTIONS = 10_000
const MESSAGE_BYTES = 256
const BASELINE = 'sent live: journaled, carried, stored there, acknowledged'

const peer = await startPeer()
const dir = mkdtempSync(join(tmpdir(), 'rookery-bench-'))
const store = await openStore(dir, { software: 'bench' })
const agent = newAgent()
let network: ReturnType<typeof cuttableHost> | undefined
const { host, sessions } = await ours([agent], {
  store,
  change: (plain) => {
    network = cuttableHost(plain)
    return network.host
  }
})
const remote = eidFromDid(peer.info.did)
const address = { peer: peer.info.peer, addrs: peer.info.addrs }
const session = await sessions.open(agent, remote, address)

const sendAll = () => Array.from({ length: TRANSACTIONS }, () => session.send(CHANNEL, DURABLE, new Uint8Array(MESSAGE_BYTES)))
const state = async (wanted: string) => {
  while (session.info().state !== wanted) await new Promise((resolve) => setTimeout(resolve, 5))
}
/** All are in the journal once their number is given. */
const journaled = async (last: bigint) => {
  while (BigInt(session.info().txSeq) < last) await new Promise((resolve) => setTimeout(resolve, 5))
}

await compare(
  {
    id: 'resume',
    question: `${TRANSACTIONS.toLocaleString('en')} transactions of ${MESSAGE_BYTES} bytes, until the last is acknowledged`,
    unit: 'ms',
    better: 'lower',
    placement: peer.placement,
    baseline: BASELINE,
    rounds: 8
  },
  [
    {
      name: BASELINE,
      async sample() {
        const startedMs = performance.now()
        await Promise.all(sendAll())
        return performance.now() - startedMs
      }
    },
    {
      name: 'made while cut off: dial, resume, replay, acknowledged',
      async sample() {
        network?.cut()
        await state('disconnected')
        const last = BigInt(session.info().txSeq) + BigInt(TRANSACTIONS)
        const all = sendAll()
        await journaled(last)
        const startedMs = performance.now()
        network?.mend()
        sessions.locatorSeen(remote, address)
        await Promise.all(all)
        return performance.now() - startedMs
      }
    }
  ]
)
await sessions.stop()
await host.stop()
await store.close()
rmSync(dir, { recursive: true, force: true })
await peer.stop()

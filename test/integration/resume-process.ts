import { toHex } from '../../protocol/bytes.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Session } from '../../src/sessions/session.ts'
import { openStore } from '../../src/store/open-store.ts'
import { jsonCodec } from '../../src/store/store.ts'
import { agentOf, nodeOn } from '../unit/sessions/memory-net.ts'
import { addressOf, startHost } from './host-fixture.ts'

/**
 * A node of its own on a data directory of its own, for tests that kill it: `node resume-process.ts <dir> <agent byte> <peer's agent byte>`.
 * What it is sent it writes in one batch with where the session then stands; what it sends it tells once acknowledged.
 */
export type Order =
  | { do: 'open'; address: PeerAddress }
  | { do: 'locator'; address: PeerAddress }
  | { do: 'send'; words: string[] }
  | { do: 'report' }
export type Report =
  | { kind: 'listening'; address: PeerAddress }
  | { kind: 'acked'; word: string }
  | { kind: 'event'; event: string }
  | { kind: 'report'; applied: string[]; sessions: { id: string; state: string; unacked: number }[] }

const [dir, own, other] = [process.argv[2] as string, Number(process.argv[3]), Number(process.argv[4])]
const tell = (report: Report) => process.send?.(report)
const [local, remote] = [agentOf(own), agentOf(other)]
const store = await openStore(dir, { software: 'test' })
const effects = store.table('effects', jsonCodec<{ word: string; channel: number }>())
let applied = 0
for await (const _ of effects.keys()) applied += 1

const host = await startHost({ init: { privateKey: new Uint8Array(32).fill(own) } })
const node = await nodeOn(
  host,
  systemClock,
  [local],
  {
    store,
    reconnectMsMax: 500,
    handler: async (item) => {
      const word = new TextDecoder().decode(item.payload)
      const key = `${String(applied++).padStart(9, '0')}`
      await store.commit([effects.put(key, { word, channel: item.channel }), ...item.position()])
    }
  },
  process.pid
)
node.manager.onEvent(({ kind }) => tell({ kind: 'event', event: kind }))
let session: Session | undefined
node.manager.onSession((one) => {
  if (toHex(one.remote) === remote.eidHex) session = one
})

process.on('message', async (order: Order) => {
  switch (order.do) {
    case 'open':
      session = await node.manager.open(local, remote.eid, order.address)
      break
    case 'locator':
      node.manager.locatorSeen(remote.eid, order.address)
      break
    case 'send':
      order.words.forEach((word, i) => {
        session?.send(1 + (i % 2), 0x02, new TextEncoder().encode(word)).then(
          () => tell({ kind: 'acked', word }),
          () => {}
        )
      })
      break
    case 'report': {
      const words: string[] = []
      for await (const [, { word }] of effects.entries()) words.push(word)
      const sessions = await node.manager.listAll()
      tell({ kind: 'report', applied: words, sessions: sessions.map(({ id, state, unacked }) => ({ id, state, unacked })) })
    }
  }
})
process.on('disconnect', () => process.exit(0))
tell({ kind: 'listening', address: addressOf(host) })

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eidFromDid } from '../protocol/identity/eid.ts'
import { openStore } from '../src/store/open-store.ts'
import { levelLog } from './asleep-queue.ts'
import { CHANNEL, DURABLE, newAgent, ours } from './endpoints.ts'
import { compare } from './harness.ts'
import type { PeerInfo } from './pair.ts'
import { startPeer } from './pair.ts'
import { type Log, natsLog, redisLog } from './servers.ts'

const MESSAGE_BYTES = 1_024

/** Compares what each makes of messages that are on disk before they are acknowledged, `inFlight` at once. */
export async function compareDurable({
  id,
  inFlight,
  count,
  rounds
}: {
  id: string
  inFlight: number
  count: number
  rounds: number
}): Promise<void> {
  const peer = await startPeer()
  const floor = { ...(await levelLog()), name: 'floor: one bare LevelDB put, synced; a durable message needs one on each side' }
  const logs = [await natsLog(), await redisLog(), floor, await sessionLog(peer.info)].filter((log) => log !== undefined)
  const baseline = logs[0]?.name ?? ''
  await compare(
    {
      id,
      question: `Durable messages of 1 KiB, ${inFlight === 1 ? 'one at a time' : `${inFlight} in flight`}`,
      unit: 'messages/s',
      better: 'higher',
      placement: peer.placement,
      baseline,
      rounds
    },
    logs.map((log) => ({ name: log.name, sample: () => rate(log, { count, inFlight }) }))
  )
  for (const log of logs) await log.stop()
  await peer.stop()
}

async function rate(log: Log, { count, inFlight }: { count: number; inFlight: number }): Promise<number> {
  const message = new Uint8Array(MESSAGE_BYTES).fill(7)
  let left = count
  const lane = async () => {
    while (left-- > 0) await log.append(message)
  }
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: inFlight }, lane))
  return (count / (performance.now() - startedMs)) * 1_000
}

/** A durable send: journaled and synced here, then handled, stored and synced there, then acknowledged. */
async function sessionLog(peer: PeerInfo): Promise<Log> {
  const dir = mkdtempSync(join(tmpdir(), 'rookery-bench-'))
  const store = await openStore(dir, { software: 'bench' })
  const agent = newAgent()
  const { host, sessions } = await ours([agent], { store })
  const session = await sessions.open(agent, eidFromDid(peer.did), { peer: peer.peer, addrs: peer.addrs })
  return {
    name: 'PSS, durable (journal and effect synced)',
    append: (message) => session.send(CHANNEL, DURABLE, message),
    async stop() {
      await sessions.stop()
      await host.stop()
      await store.close()
      rmSync(dir, { recursive: true, force: true })
    }
  }
}

import { rmSync } from 'node:fs'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'
import { homeOf } from '../src/identity/agent.ts'
import { levelLog, openQueue, sealed, tempDir } from './asleep-queue.ts'
import { newAgent } from './endpoints.ts'
import { compare } from './harness.ts'
import { pin } from './pair.ts'
import { natsLog, redisLog } from './servers.ts'

const MESSAGE_BYTES = 1_024

/** Compares what each makes of messages of 1 KiB that are synced before they are acknowledged, `inFlight` at once, nobody reading. */
export async function compareEnqueue({ id, inFlight, count, rounds }: { id: string; inFlight: number; count: number; rounds: number }) {
  const apart = pin()
  const [from, to] = [newAgent(), newAgent()]
  const objects = await Promise.all(Array.from({ length: count }, (_, i) => sealed(from, to, `m-${i}`, MESSAGE_BYTES)))
  const bytes = objects[0]?.length ?? 0
  const dir = tempDir()
  const { store, queue } = await openQueue(dir)
  const bare = await levelLog()
  const logs = [await natsLog(), await redisLog(), bare].filter((log) => log !== undefined)
  const signed = { message: objects[0] as Uint8Array, signature: from.signer.sign(objects[0] as Uint8Array) }
  const checkedPut = async (object: Uint8Array) => {
    if (!nodeCrypto.ed25519.verify(from.eid, signed.message, signed.signature)) throw new Error('a signature of ours does not hold')
    await bare.append(object)
  }
  const lanes = async (work: (object: Uint8Array) => Promise<unknown>) => {
    let next = 0
    const lane = async () => {
      for (let at = next++; at < count; at = next++) await work(objects[at] as Uint8Array)
    }
    const startedMs = performance.now()
    await Promise.all(Array.from({ length: inFlight }, lane))
    return (count / (performance.now() - startedMs)) * 1_000
  }
  const ours = async () => {
    const rate = await lanes(async (object) => {
      const answer = await queue.enqueue({ audience: homeOf(to), principal: 'eid:bench', object })
      if (answer.status !== 'queued' || answer.again) throw new Error(`not queued: ${answer.status}`)
    })
    for await (const { key } of queue.records(homeOf(to))) await queue.drop(homeOf(to), key)
    return rate
  }
  await compare(
    {
      id,
      question: `Messages for a sleeping agent, objects of ${bytes} bytes, ${inFlight === 1 ? 'one at a time' : `${inFlight} at once`}`,
      unit: 'messages/s',
      better: 'higher',
      placement: apart ? 'servers on a core of their own' : 'not pinned',
      baseline: logs[0]?.name ?? '',
      rounds
    },
    [
      ...logs.map((log) => ({ name: log.name, sample: () => lanes((object) => log.append(object)) })),
      { name: 'floor: a signature checked, then a bare LevelDB put, synced', sample: () => lanes(checkedPut) },
      { name: 'asleep queue (decoded, signature checked, bounded, synced)', sample: ours }
    ]
  )
  for (const log of logs) await log.stop()
  await store.close()
  rmSync(dir, { recursive: true, force: true })
}

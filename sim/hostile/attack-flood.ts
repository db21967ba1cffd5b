import { concat } from '../../protocol/bytes.ts'
import { buildRequest, DISCOVERY_PROTOCOL, withNonce } from '../../protocol/discovery/request.ts'
import { nonceBytes, requestSeed, WORK_BITS_MIN } from '../../protocol/discovery/work.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { createSearch } from '../../src/work/search.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { drawDistinct } from '../engine/draw.ts'
import { eachOf } from '../engine/each-of.ts'
import { derivedBytes } from '../engine/seeds.ts'
import type { World } from './world.ts'

const MEMBERS = 4
const SLICE = 2 ** 16
/** Streams that flooders have open at once */
const AT_ONCE = 48
/** Requests under way that a node takes; protocol/README.md §5 */
const QUEUE_MAX = 256

/** Anonymous requests without the work and with it, all to one node, from every hostile one, as fast as this process gets. */
export async function discoveryFlood(world: World, { lacking, enough }: { lacking: number; enough: number }): Promise<void> {
  const attack = 'discovery flood'
  const space = await world.open('flood', MEMBERS)
  const seekers = world.honest.filter((node) => node !== space.curator && !space.members.includes(node))
  const [target] = drawDistinct(world.random, seekers, 1) as [SimNode]
  const request = (i: number) => {
    const ephemeral = nodeCrypto.x25519.publicKey(derivedBytes(world.seed, 'flood', i))
    const wanted = { records: true, contact: true, difficulty: WORK_BITS_MIN, fanOut: 16, target: space.dsid, ephemeral }
    return buildRequest(nodeCrypto, { ...wanted, timestampMs: systemClock.nowMs() }, {})
  }
  const search = createSearch()
  const solved = (header: Uint8Array): Uint8Array => {
    search.begin(requestSeed(header), 0, WORK_BITS_MIN)
    for (let lo = 0; ; lo += SLICE) {
      const nonce = search.slice(lo, SLICE)
      if (nonce !== undefined) return withNonce(header, nonceBytes(BigInt(nonce)))
    }
  }
  const before = target.node.discovery.stats()
  const startedMs = systemClock.monotonicMs()
  const worst = { queued: 0, remembered: 0 }
  const send = async (i: number, bytes: Uint8Array) => {
    const { node } = world.hostile[i % world.hostile.length] as SimNode
    try {
      const stream = await node.host.openStream({ peer: target.node.peer, addrs: target.node.host.addresses() }, DISCOVERY_PROTOCOL)
      await stream.write(bytes)
      await stream.closeWrite()
      stream.closed.then(
        () => {},
        () => {}
      )
      await stream.read(1).catch(() => {})
      await stream.close()
    } catch {
      // a stream that the host refuses has cost it less than one that it takes
    }
    const { queued, remembered } = target.node.discovery.stats()
    worst.queued = Math.max(worst.queued, queued)
    worst.remembered = Math.max(worst.remembered, remembered)
  }
  await eachOf(
    Array.from({ length: lacking }, (_, i) => i),
    AT_ONCE,
    async (i) => {
      const { header, criteria } = request(i)
      await send(i, concat([header, criteria]))
    }
  )
  const tookMs = systemClock.monotonicMs() - startedMs
  const rested = target.node.discovery.stats()
  await eachOf(
    Array.from({ length: enough }, (_, i) => i + lacking),
    8,
    async (i) => {
      const { header, criteria } = request(i)
      await send(i, concat([solved(header), criteria]))
    }
  )
  const after = target.node.discovery.stats()
  world.check(attack, `requests without the work, sent at ${Math.round((lacking / tookMs) * 1_000)} a second`, lacking, 'at least', lacking)
  world.check(attack, 'of them that had any effect', rested.served - before.served, 'exactly', 0)
  world.check(attack, 'of them remembered', rested.remembered - before.remembered, 'exactly', 0)
  world.check(attack, 'requests with the work that were taken', after.remembered - before.remembered, 'at least', Math.min(1, enough))
  world.check(attack, 'requests queued at once at the most', worst.queued, 'at most', QUEUE_MAX)
  world.checkSearches(attack, await world.search(space), 0.99)

  const found = new Set<string>()
  for await (const { did } of target.node.discover({ name: space.name }, { signal: world.signal })) found.add(did)
  const honest = space.members.filter(({ agent }) => found.has(agent.did)).length
  world.check(attack, 'honest members that the flooded node finds anonymously', honest, 'at least', 1)
}

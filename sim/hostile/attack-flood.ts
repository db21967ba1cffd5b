import { concat } from '../../protocol/bytes.ts'
import { buildRequest, DISCOVERY_PROTOCOL, withNonce } from '../../protocol/discovery/request.ts'
import { nonceBytes, requestSeed, WORK_BITS_MIN, workBits } from '../../protocol/discovery/work.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { peerIdText } from '../../src/identity/peer-id.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { createSearch } from '../../src/work/search.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { drawDistinct } from '../engine/draw.ts'
import { derivedBytes } from '../engine/seeds.ts'
import { openRawChannel, type RawChannel } from './raw-channel.ts'
import type { World } from './world.ts'

const MEMBERS = 4
const SLICE = 2 ** 16
/** Strangers that flood, each over a connection of its own */
const FLOODERS = 25
/** Requests that one of them has under way: a few less than the 64 streams that the protocol lets a connection have */
const BATCH = 40
/** What is sent a second at the most; a machine that cannot judge so many gets as many as it can. */
const RATE = 10_000
/** A round that is not judged within this is over: what the node dropped unread never will be. */
const ROUND_MS_MAX = 2_000
/** Those with the work come in as many bursts, over one second. */
const BURSTS = 10
const SETTLE_MS_MAX = 20_000
const LOOK_MS = 5
/** Requests under way that a node takes; protocol/README.md §5 */
const QUEUE_MAX = 256

/**
 * Anonymous requests without the work and with it, all to one node, half of the former while honest nodes search. The flooders are no nodes: they write whole streams, made
 * before, past all that would hold them back.
 */
export async function discoveryFlood(world: World, { lacking, enough }: { lacking: number; enough: number }): Promise<void> {
  const attack = 'discovery flood'
  const space = await world.open('flood', MEMBERS)
  const seekers = world.honest.filter((node) => node !== space.curator && !space.members.includes(node))
  const [target] = drawDistinct(world.random, seekers, 1) as [SimNode]
  const stats = () => target.node.discovery.stats()
  const judged = () => Object.values(stats().refused).reduce((sum, count) => sum + count, stats().served)
  const request = (i: number) => {
    const ephemeral = derivedBytes(world.seed, 'flood', i)
    const wanted = { records: true, contact: true, difficulty: WORK_BITS_MIN, fanOut: 16, target: space.dsid, ephemeral }
    return buildRequest(nodeCrypto, { ...wanted, timestampMs: systemClock.nowMs() }, {})
  }
  const made = (count: number, from: number, finish: (header: Uint8Array) => Uint8Array) =>
    Array.from({ length: count }, (_, i) => {
      const { header, criteria } = request(from + i)
      return concat([finish(header), criteria])
    })
  const without = made(lacking, 0, unsolved)
  const withWork = made(enough, lacking, solved)
  const { network } = world.engine
  if (network === undefined) throw new TypeError('a flood comes over the memory transport')
  const stranger = (i: number) => peerIdText(nodeCrypto.ed25519.publicKey(derivedBytes(world.seed, 'flooder', i)))
  const channels = Array.from({ length: FLOODERS }, (_, i) => openRawChannel(network, stranger(i), target.node.peer))
  try {
    const before = stats()
    // half of them while nobody searches, so that their rate is that of the node and not of the searches beside
    const half = Math.ceil(without.length / 2)
    const alone = await floodWith(without.slice(0, half), channels, judged)
    const [beside, tally] = await Promise.all([floodWith(without.slice(half), channels, judged), world.search(space)])
    const rested = stats()
    let queued = 0
    const sentMs = systemClock.monotonicMs()
    for (let burst = 0; burst < BURSTS; burst++) {
      const due = withWork.filter((_, i) => i % BURSTS === burst)
      for (const [i, bytes] of due.entries()) channels[i % FLOODERS]?.send(DISCOVERY_PROTOCOL, [bytes])
      const untilMs = sentMs + ((burst + 1) * 1_000) / BURSTS
      while (systemClock.monotonicMs() < untilMs) {
        queued = Math.max(queued, stats().queued)
        await systemClock.sleep(LOOK_MS, { signal: world.signal })
      }
    }
    while (stats().queued > 0 && systemClock.monotonicMs() - sentMs < SETTLE_MS_MAX) {
      queued = Math.max(queued, stats().queued)
      await systemClock.sleep(LOOK_MS, { signal: world.signal })
    }
    const after = stats()
    world.check(attack, `requests without the work, of ${lacking} sent: judged`, alone.judged + beside.judged, 'at least', lacking * 0.9)
    world.check(attack, 'of them a second, while nobody searches', Math.round((alone.judged / alone.tookMs) * 1_000), 'at least', 1)
    world.check(attack, 'of them that had any effect', rested.served - before.served, 'exactly', 0)
    world.check(attack, 'of them remembered', rested.remembered - before.remembered, 'exactly', 0)
    world.check(attack, `requests with the work, of ${enough} in a second: taken`, after.remembered - rested.remembered, 'at least', 1)
    world.check(attack, 'requests queued at once at the most', queued, 'at most', QUEUE_MAX)
    world.checkSearches(attack, tally, 0.99)
  } finally {
    await Promise.all(channels.map((channel) => channel.close()))
  }

  const found = new Set<string>()
  for await (const { did } of target.node.discover({ name: space.name }, { signal: world.signal })) found.add(did)
  const honest = space.members.filter(({ agent }) => found.has(agent.did)).length
  world.check(attack, 'honest members that the flooded node finds anonymously', honest, 'at least', 1)
}

/** In rounds, each begun once the one before has been judged and not before its time has come. */
async function floodWith(
  requests: readonly Uint8Array[],
  channels: readonly RawChannel[],
  judged: () => number
): Promise<{ judged: number; tookMs: number }> {
  const startedMs = systemClock.monotonicMs()
  const first = judged()
  let endedMs = startedMs
  for (let at = 0; at < requests.length; ) {
    const before = judged()
    const from = at
    for (const channel of channels) {
      const batch = requests.slice(at, at + BATCH)
      if (batch.length > 0) channel.send(DISCOVERY_PROTOCOL, batch)
      at += batch.length
    }
    const sentMs = systemClock.monotonicMs()
    while (judged() - before < at - from && systemClock.monotonicMs() - sentMs < ROUND_MS_MAX) await systemClock.sleep(1)
    endedMs = systemClock.monotonicMs()
    const dueMs = startedMs + (at * 1_000) / RATE
    if (dueMs > endedMs) await systemClock.sleep(dueMs - endedMs)
  }
  return { judged: judged() - first, tookMs: Math.max(1, endedMs - startedMs) }
}

/** One nonce in 65,536 is good by chance: among ten thousand requests that would happen in one run of seven. */
function unsolved(header: Uint8Array): Uint8Array {
  const seed = requestSeed(header)
  let nonce = 0n
  while (workBits(seed, nonceBytes(nonce)) >= WORK_BITS_MIN) nonce++
  return withNonce(header, nonceBytes(nonce))
}

function solved(header: Uint8Array): Uint8Array {
  const search = createSearch()
  search.begin(requestSeed(header), 0, WORK_BITS_MIN)
  for (let lo = 0; ; lo += SLICE) {
    const nonce = search.slice(lo, SLICE)
    if (nonce !== undefined) return withNonce(header, nonceBytes(BigInt(nonce)))
  }
}

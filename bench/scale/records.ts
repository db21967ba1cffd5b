/** How many records one registrar keeps: joins put into its sets, verified and synced, in the store of a data directory; then a node starts with them. */
import { sha256 } from '@noble/hashes/sha2.js'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { REGISTRY_BYTES_MAX } from '../../src/spaces/registry-bounds.ts'
import { serveRegistry } from '../../src/spaces/registry-service.ts'
import { openRegistryStore, type Publisher, type RegistryStore, type RegistryStoreInit } from '../../src/spaces/registry-store.ts'
import { openStore } from '../../src/store/open-store.ts'
import { memoryStore, ours } from '../endpoints.ts'
import { Child } from './child.ts'
import type { ScaleFigures, ScaleOrder } from './figures.ts'
import { inLanes, Measurement, serveKind } from './measurement.ts'
import { NodeUnderTest } from './node-under-test.ts'
import { Operator } from './operator.ts'
import type { SignedBatch } from './records-source.ts'

const BATCH = 2_000
const LANES = 256
const METRICS = /^rookery_(registry|bound)/
const STATUS = ['registry.bytesMax', 'registry.putsPerMinuteMax']
const MIB = 1_048_576
const HOURS_2_MS = 7_200_000
const RAISED: RegistryStoreInit = { bytesMax: 2 ** 40, putsPerMinuteMax: 1e9 }
const publisher: Publisher = { kind: 'peer', peer: 'a peer', remoteAddr: '/ip4/127.0.0.1/udp/1/quic-v1' }

const keys = new Map<number, Uint8Array>()
function spaceKey(space: number): Uint8Array {
  const key = keys.get(space) ?? sha256(new TextEncoder().encode(`space ${space}`))
  keys.set(space, key)
  return key
}

async function openRegistrar(dataDir: string, operator: Operator, init: RegistryStoreInit, clock: Clock = systemClock) {
  const store = await openStore(dataDir, { software: 'bench' })
  const registry = await openRegistryStore({ store, clock, crypto: nodeCrypto, logger: operator.logger }, init)
  const close = async () => {
    await registry.stop()
    await store.close()
  }
  return { registry, close }
}

/** Puts what the source signs until `to` records are there or one is not taken. */
class Growth {
  readonly #source: Child
  readonly #run: Measurement
  readonly #spaces: number
  #next: { from: number; batch: Promise<SignedBatch> } | undefined
  put = 0
  /** the first answer that was not "ok", and at how many */
  refused: { at: number; status: string } | undefined

  constructor(run: Measurement, source: Child, spaces: number) {
    this.#run = run
    this.#source = source
    this.#spaces = spaces
  }

  async to(registry: RegistryStore, count: number): Promise<void> {
    while (this.put < count && this.refused === undefined) {
      const from = this.put
      const { bytes, ends } = await this.#batch(from)
      this.#batch(from + ends.length)
      const total = Math.min(ends.length, count - from)
      await inLanes(
        total,
        LANES,
        async (i) => {
          const record = bytes.subarray(ends[i - 1] ?? 0, ends[i])
          const key = spaceKey((from + i) % this.#spaces)
          const { status } = await registry.put({ verb: 'put', set: 'members', key, record }, publisher)
          if (status !== 'ok') this.refused ??= { at: registry.stats().entries, status }
        },
        () => this.refused !== undefined
      )
      if (this.refused === undefined) this.put = from + total
      this.#run.progress(`${registry.stats().entries.toLocaleString('en')} records`)
    }
  }

  /** Signed ahead of their time, on the other core; what is not wanted then is signed once more. */
  #batch(from: number): Promise<SignedBatch> {
    if (this.#next?.from !== from) {
      this.#next = { from, batch: this.#source.ask<SignedBatch>('sign', { from, count: BATCH, spaces: this.#spaces }) }
    }
    return this.#next.batch
  }
}

/** One peer's puts in a minute, with the default budget. */
async function budget(run: Measurement, source: Child): Promise<void> {
  const { bytes, ends } = await source.ask<SignedBatch>('sign', { from: 0, count: 100, spaces: 100 })
  const registry = await openRegistryStore({ store: memoryStore(), clock: systemClock, crypto: nodeCrypto, logger: new Operator().logger })
  let taken = 0
  let answer = 'ok'
  for (let i = 0; i < ends.length && answer === 'ok'; i++) {
    const record = bytes.subarray(ends[i - 1] ?? 0, ends[i])
    answer = (await registry.put({ verb: 'put', set: 'members', key: spaceKey(i), record }, publisher)).status
    if (answer === 'ok') taken++
  }
  await registry.stop()
  run.said({ where: 'caller', words: `after ${taken} new entries of one node within a minute: status "${answer}"` })
}

async function measure(order: ScaleOrder): Promise<ScaleFigures> {
  const under = new NodeUnderTest(order.folder, 'node')
  const run = new Measurement(order, under.dataDir)
  const source = new Child('./records-source.ts')
  const spaces = Math.max(10, Math.round(Math.sqrt(order.size)))
  const growth = new Growth(run, source, spaces)
  const operator = new Operator()
  await budget(run, source)

  const bytesMax = Math.round(REGISTRY_BYTES_MAX * order.part)
  run.step('to the default bound')
  let now = await openRegistrar(under.dataDir, operator, { ...RAISED, bytesMax })
  const host = (await ours([])).host
  const current: RegistryStore = {
    put: (request, from) => now.registry.put(request, from),
    list: (request) => now.registry.list(request),
    keys: (request) => now.registry.keys(request),
    sweep: () => now.registry.sweep(),
    stats: () => now.registry.stats(),
    stop: async () => {}
  }
  const service = await serveRegistry({ host, clock: systemClock, registry: current })
  const address = { peer: host.peer, addrs: host.addresses() }
  const sample = () => source.ask<Record<string, number[]>>('sample', { address })
  run.begin()
  await run.stage(0, sample)
  await growth.to(now.registry, order.size)
  const { refused } = growth
  if (refused !== undefined) {
    run.gave(
      refused.at,
      `a new entry is answered "${refused.status}": ${(now.registry.stats().bytes / MIB).toFixed(1)} of ${(bytesMax / MIB).toFixed(1)} MiB (registry.bytesMax)`
    )
    run.said({ where: 'caller', words: `at the default bound of ${(bytesMax / MIB).toFixed(1)} MiB: status "${refused.status}"` })
    growth.refused = undefined
  }
  await now.close()
  now = await openRegistrar(under.dataDir, operator, RAISED)
  for (const at of [order.size / 2, order.size].map(Math.round)) {
    await growth.to(now.registry, at)
    await run.stage(at, sample)
  }
  const { entries, bytes } = now.registry.stats()
  run.fact('entries, those of the samples included', entries, 'records')
  run.fact('counted against registry.bytesMax', bytes / MIB, 'MiB')
  await service.stop()
  await host.stop()
  await now.close()

  run.step('opening with them')
  now = await run.timed('open with them', () => openRegistrar(under.dataDir, operator, RAISED))
  await now.close()
  run.step('a node starts with them')
  const { node, operator: ofNode } = await run.timed('start of a node with them', () => under.start())
  run.said(...(await ofNode.look(node, run, { at: 'with all of them and the default bound', metrics: METRICS, status: STATUS })))
  await run.timed('stop of the node', () => node.stop())

  run.step('sweeping')
  const later: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + HOURS_2_MS }
  now = await openRegistrar(under.dataDir, operator, RAISED, later)
  const removed = await run.timed('sweep, when all have expired', () => now.registry.sweep())
  run.fact('swept', removed, 'records')
  await now.close()
  await source.stop()
  run.note(
    `${spaces} spaces with as many members each, put by ${LANES} lanes into the registrar's store with real verification of every signature and a synced write; the samples come over QUIC from another process. The signing is not in the figures. Few keys sign much here, so most are imported already when a signature is verified.`
  )
  if (order.part < 1) run.note(`The default bound of 64 MiB was lowered by the part of this run, to ${(bytesMax / MIB).toFixed(2)} MiB.`)
  return run.done()
}

await serveKind(measure)

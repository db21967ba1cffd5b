import { MemoryLevel } from 'memory-level'
import { describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { ESCROW_MS } from '../../protocol/evidence/escrow.ts'
import { verifyEvidence } from '../../protocol/evidence/proof.ts'
import { signRotation } from '../../protocol/identity/rotation.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createEvidence, type RunningEvidence } from '../../src/evidence/create-evidence.ts'
import { LocalStakeLedger } from '../../src/evidence/stake-ledger.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { createLocators } from '../../src/spaces/create-locators.ts'
import { createRegistry } from '../../src/spaces/registry.ts'
import { Store } from '../../src/store/store.ts'
import { checkpointPair, signedBy, ticketOf } from './fakes/contradictions.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { type FakeHost, FakeNetwork } from './fakes/fake-network.ts'
import { plainSolver } from './fakes/fake-node.ts'

type Level = MemoryLevel<string, Uint8Array>

const newLevel = (): Level => new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' })

/** As `dd` would: every row, under the same keys. */
async function backup(level: Level): Promise<Level> {
  const copy = newLevel()
  for await (const [key, value] of level.iterator()) await copy.put(key, value)
  return copy
}

interface DyingLevel {
  level: Level
  /** the process dies with its write number `n`, which is not done, and does none after it */
  dieAt(n: number): void
  /** tables that were written to, one entry for each batch that was done */
  readonly batches: string[][]
}

function dying(level: Level): DyingLevel {
  const batches: string[][] = []
  let left = Number.POSITIVE_INFINITY
  const write = level.batch.bind(level) as unknown as (...args: unknown[]) => Promise<void>
  level.batch = (async (ops: { sublevel: { prefix: string } }[], options: unknown) => {
    left -= 1
    if (left <= 0) throw new Error('the process died')
    await write(ops, options)
    batches.push(ops.map((op) => op.sublevel.prefix))
  }) as never
  return { level, batches, dieAt: (n) => (left = n) }
}

const alice = fakeAgent('alice')
const mallory = signedBy(fakeAgent('mallory').signer)
const settle = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

describe('evidence of a node that dies at any of its writes', () => {
  async function run(
    disk: DyingLevel,
    clock: ManualClock,
    network: FakeNetwork
  ): Promise<{ evidence: RunningEvidence; end(): Promise<void> }> {
    const store = new Store(disk.level)
    const host = network.hosts.values().next().value as FakeHost
    const parts = { host, store, clock, random: seededRandom(1), crypto: nodeCrypto, logger: silentLogger }
    const evidence = await createEvidence({ ...parts, ledger: new LocalStakeLedger(store), agents: () => [alice] })
    const registry = await createRegistry({ ...parts, solver: plainSolver }, { evidence })
    evidence.begin(registry)
    return {
      evidence,
      async end() {
        await evidence.stop()
        await registry.stop()
      }
    }
  }

  it('[TRM-09] [G-53] takes the stake exactly once, whichever of its writes the process dies in', async () => {
    let deaths = 0
    for (let n = 1; n <= 12; n++) {
      const clock = new ManualClock()
      const network = new FakeNetwork(clock)
      network.add('alone')
      const disk = dying(newLevel())
      const found = async (evidence: RunningEvidence) => {
        await evidence.found(checkpointPair(mallory)).catch(() => {})
        await settle()
        clock.advance(ESCROW_MS)
        await settle()
      }
      disk.dieAt(n)
      const first = await run(disk, clock, network)
      await found(first.evidence)
      if (first.evidence.view(mallory.eid).ledger !== 'told') deaths++
      await first.end()
      disk.dieAt(Number.POSITIVE_INFINITY)
      for (let again = 0; again < 2; again++) {
        const next = await run(disk, clock, network)
        await found(next.evidence)
        expect(next.evidence.view(mallory.eid)).toMatchObject({ standing: 'slashed', ledger: 'told' })
        await next.end()
      }
      expect(disk.batches.filter((tables) => tables.some((table) => table.includes('evidence-ledger')))).toHaveLength(1)
    }
    expect(deaths).toBeGreaterThanOrEqual(3)
  })

  it('[D-25] keeps a verdict or has none: what was answered challenged is challenged after the restart, with its deadline', async () => {
    for (let n = 1; n <= 6; n++) {
      const clock = new ManualClock()
      const network = new FakeNetwork(clock)
      network.add('alone')
      const disk = dying(newLevel())
      disk.dieAt(n)
      const first = await run(disk, clock, network)
      await first.evidence.onRotation(signRotation(alice.signer, mallory.signer, 0)).catch(() => {})
      const verdict = await first.evidence
        .accept(ticketOf(checkpointPair(mallory), signedBy(alice.signer), clock.nowMs()).bytes)
        .catch(() => 'died')
      const deadlineMs = first.evidence.view(mallory.eid).evidence?.deadlineMs
      await first.end()
      disk.dieAt(Number.POSITIVE_INFINITY)
      clock.advance(60_000)
      const next = await run(disk, clock, network)
      expect(next.evidence.standing(mallory.eid)).toBe(verdict === 'challenged' ? 'challenged' : 'nominal')
      expect(next.evidence.view(mallory.eid).evidence?.deadlineMs).toBe(verdict === 'challenged' ? deadlineMs : undefined)
      await next.end()
    }
  })
})

describe('an honest node', () => {
  it('[TRM-08] makes no evidence against itself by dying at any write, nor by a backup put back: no two of its locators conflict', async () => {
    const clock = new ManualClock()
    const network = new FakeNetwork(clock)
    const host = network.add('alice')
    network.meet(host, network.add('bob'))
    const published = new Map<string, Uint8Array>()
    const put = host.dht.put
    host.dht.put = async (key, value, options) => {
      published.set(toHex(value), value)
      return await put(key, value, options)
    }
    let disk = dying(newLevel())
    let old: Level | undefined
    for (let life = 0; life < 24; life++) {
      disk.dieAt(life % 4 === 0 ? Number.POSITIVE_INFINITY : (life % 4) + Math.floor(life / 8))
      const store = new Store(disk.level)
      const parts = { host, store, clock, random: seededRandom(life), crypto: nodeCrypto, logger: silentLogger }
      const locators = await createLocators({ ...parts, agents: (hex) => (hex === alice.eidHex ? alice : undefined) })
      for (let i = 0; i < 3; i++) {
        host.addrs = [`/ip4/127.0.0.1/udp/${4_000 + 10 * life + i}/quic-v1`]
        await locators.publish(alice).catch(() => {})
        await settle()
      }
      await locators.stop()
      disk.dieAt(Number.POSITIVE_INFINITY)
      if (life === 4) old = await backup(disk.level)
      // a backup comes back: once within the same millisecond, with the network at hand; once a second later, while the network hides everything
      if (old !== undefined && (life === 12 || life === 18)) disk = dying(await backup(old))
      for (const one of network.hosts.values()) one.hides = life === 18
      if (life >= 17) clock.advance(1_000)
    }
    const all = [...published.values()]
    expect(all.length).toBeGreaterThan(30)
    const conflicts = all.flatMap((a, i) => all.slice(i + 1).filter((b) => proves({ target: alice.eid, kind: 'locator', a, b })))
    expect(conflicts).toEqual([])
  })
})

function proves(evidence: Parameters<typeof verifyEvidence>[1]): boolean {
  try {
    verifyEvidence(nodeCrypto, evidence)
    return true
  } catch {
    return false
  }
}

import { describe, expect, it } from 'vitest'
import type { Eid } from '../../protocol/identity/eid.ts'
import { eidHex } from '../../protocol/identity/eid.ts'
import { signRotation } from '../../protocol/identity/rotation.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createEvidence } from '../../src/evidence/create-evidence.ts'
import { RETIRED_PER_AGENT_MAX, Retirements } from '../../src/evidence/retirements.ts'
import { LocalStakeLedger } from '../../src/evidence/stake-ledger.ts'
import { SUCCESSIONS_PER_AGENT_MAX, Successions } from '../../src/identity/successions.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { agentOf, memoryStore } from './sessions/memory-net.ts'

const name = (byte: number): Eid => agentOf(byte).eid

async function opened(store = memoryStore(), clock = new ManualClock()) {
  return { store, clock, successions: await Successions.open({ store, clock }) }
}

describe('rotations of others that were shown', () => {
  it('[G-73] carry the old name over: root, predecessors and newest, over a restart', async () => {
    const { store, clock, successions } = await opened()
    await successions.note({ old: name(1), new: name(2) })
    clock.advance(1)
    await successions.note({ old: name(2), new: name(3) })
    await successions.note({ old: name(2), new: name(3) })
    for (const one of [successions, (await opened(store, clock)).successions]) {
      expect(one.size).toBe(2)
      expect(one.rootOf(eidHex(name(3)))).toBe(eidHex(name(1)))
      expect(one.predecessors(name(3)).map(eidHex)).toEqual([2, 1].map((byte) => eidHex(name(byte))))
      expect(one.newest(name(1))).toEqual(name(3))
      expect(one.newest(name(9))).toEqual(name(9))
    }
  })

  it('[G-73] keep the root of one that rotates often, and hold no more of it than the bound', async () => {
    const { successions } = await opened()
    for (let i = 1; i <= 20; i++) await successions.note({ old: name(i), new: name(i + 1) })
    expect(successions.size).toBe(SUCCESSIONS_PER_AGENT_MAX)
    expect(successions.rootOf(eidHex(name(21)))).toBe(eidHex(name(1)))
    expect(successions.predecessors(name(21)).map(eidHex)).toContain(eidHex(name(1)))
  })

  it('[G-73] [OD-31] a name that is refused stays refused under the next one: sessions from it and to it', async () => {
    const { store, clock, successions } = await opened()
    const evidence = await createEvidence({
      store,
      clock,
      random: seededRandom(1),
      crypto: nodeCrypto,
      logger: silentLogger,
      ledger: new LocalStakeLedger(store),
      agents: () => [agentOf(0x70)],
      predecessors: (eid) => successions.predecessors(eid)
    })
    const caller = (remote: Eid) => evidence.policy({ local: agentOf(0x70), remote })
    expect(caller(name(2))).toEqual({ admit: true })
    await evidence.distrust(name(1), 'it broke its contract')
    expect(caller(name(2))).toEqual({ admit: true })
    await successions.note({ old: name(1), new: name(2) })
    expect(caller(name(2))).toEqual({ admit: false, reason: 'policy' })
    expect(() => evidence.admit(name(2))).toThrow(expect.objectContaining({ code: 'AGENT_REFUSED' }))
    expect(evidence.view(name(2)).refused).toBe(true)
    await evidence.stop()
  })

  it('[G-73] [OD-31] push nobody out of what is remembered as retired: 6 of one agent, then its own oldest goes', async () => {
    const { store, clock, successions } = await opened()
    const components = { store, clock, crypto: nodeCrypto }
    const evidence = await createEvidence({
      ...components,
      random: seededRandom(1),
      logger: silentLogger,
      ledger: new LocalStakeLedger(store),
      agents: () => [agentOf(0x70)],
      predecessors: (eid) => successions.predecessors(eid)
    })
    const rotate = async (from: number, to: number) => {
      clock.advance(1)
      await successions.note({ old: name(from), new: name(to) })
      await evidence.onRotation(signRotation(agentOf(from).signer, agentOf(to).signer, 1))
    }
    await rotate(200, 201)
    for (let i = 1; i <= 30; i++) await rotate(i, i + 1)
    const retired = async (byte: number) => (await Retirements.open(components)).get(name(byte)) !== undefined
    expect(await retired(200)).toBe(true)
    const kept = await Promise.all(Array.from({ length: 30 }, (_, i) => retired(i + 1)))
    expect(kept.filter(Boolean)).toHaveLength(RETIRED_PER_AGENT_MAX)
    expect(kept.slice(-RETIRED_PER_AGENT_MAX).every(Boolean)).toBe(true)
  })
})

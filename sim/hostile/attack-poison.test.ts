import { describe, expect, it } from 'vitest'
import type { SimNode } from '../engine/boot-node.ts'
import { MachineWatch } from '../engine/machine-watch.ts'
import { RealEngine } from '../engine/real-engine.ts'
import { RunLog } from '../engine/run-log.ts'
import { Recorder } from '../run/recorder.ts'
import { poisonedRecords } from './attack-poison.ts'
import { type OpenSpace, World, type WorldInit } from './world.ts'

/** Whoever will leave again never reaches one registrar of the space: neither its join nor its tombstone comes there. */
class WithDeafRegistrar extends World {
  deaf: SimNode | undefined

  override async join(space: OpenSpace, nodes: readonly SimNode[]): Promise<void> {
    const registrars = (await space.curator.node.registry.registrars(space.dsid)).map(({ peer }) => peer)
    this.deaf = this.honest.find((one) => one !== space.curator && !nodes.includes(one) && registrars.includes(one.node.peer))
    this.engine.network?.link.partition([[nodes[0]?.index ?? -1], [this.deaf?.index ?? -1]])
    await super.join(space, nodes)
  }

  override async leave(space: OpenSpace, node: SimNode): Promise<void> {
    await super.leave(space, node)
    this.engine.network?.link.heal()
  }
}

describe('records of someone who left', { timeout: 300_000 }, () => {
  it('[DS-12] that a registrar keeps which was never told are no fault of it, and no search shows them', async () => {
    const signal = new AbortController().signal
    const watch = new MachineWatch()
    const engine = new RealEngine({ nodes: 14, seed: 2, signal })
    try {
      await engine.boot(() => {})
      await engine.settle(() => {})
      const init: WorldInit = {
        engine,
        seed: 2,
        log: new RunLog(watch, () => {}),
        measured: new Recorder().measured,
        share: [11, 12, 13],
        searches: 4,
        signal
      }
      const world = new WithDeafRegistrar(init)
      await poisonedRecords(world)
      expect(world.deaf).toBeDefined()
      expect(world.checks.filter(({ holds }) => !holds)).toEqual([])
    } finally {
      watch.stop()
      await engine.stop()
    }
  })
})

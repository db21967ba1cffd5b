import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EseValue } from '../../../protocol/state/batch.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import type { Session } from '../../../src/sessions/session.ts'
import { memoryKeySlots } from '../../../src/state/key-slots.ts'
import { CrashingNode } from '../sessions/crashing-node.ts'
import { agentOf, MemoryNet, settle } from '../sessions/memory-net.ts'

type Side = 'a' | 'b'
type Step =
  | { do: 'set'; side: Side; key: string; value: number }
  | { do: 'delete'; side: Side; key: string }
  | { do: 'replace'; side: Side; value: number }
  | { do: 'restart'; side: Side; wait: boolean }
  | { do: 'cut' }

interface Written {
  side: Side
  key: string
  value: EseValue | undefined
  acked: boolean
}

const side = fc.constantFrom<Side>('a', 'b')
const key = fc.constantFrom('x', 'y', 'z')
const changes: fc.Arbitrary<Step>[] = [
  fc.record({ do: fc.constant('set' as const), side, key, value: fc.nat(99) }),
  fc.record({ do: fc.constant('set' as const), side, key, value: fc.nat(99) }),
  fc.record({ do: fc.constant('delete' as const), side, key }),
  fc.record({ do: fc.constant('cut' as const) })
]
const restart = (of: fc.Arbitrary<Side>): fc.Arbitrary<Step> =>
  fc.record({ do: fc.constant('restart' as const), side: of, wait: fc.boolean() })

async function world() {
  const clock = new ManualClock()
  const net = new MemoryNet()
  const make = (agent: number, seed: number) =>
    new CrashingNode(net, clock, agentOf(agent), seed, { eseKeys: memoryKeySlots(seededRandom(seed)) }).start()
  const nodes = { a: await make(0xa1, 1), b: await make(0xb2, 2) }
  const { id } = (await nodes.a.open(nodes.b)).info()
  const session = async (of: Side) => (await nodes[of].manager.get(id)) as Session
  const until = async (condition: () => Promise<boolean>) => {
    for (let i = 0; i < 240; i++) {
      await settle()
      if (await condition()) return
      clock.advance(500)
    }
    throw new Error('it did not come about')
  }
  const whole = async () => {
    const both = await Promise.all([session('a'), session('b')])
    return both.every(
      (one) =>
        one.info().state === 'established' &&
        one.info().unacked === 0 &&
        [one.states.own, one.states.peer].every(({ status }) => status === 'current')
    )
  }
  /** Writes as far as the side may now. @returns what it wrote: later it says whether the peer acknowledged */
  const change = async (step: Extract<Step, { side: Side }>): Promise<Written | undefined> => {
    const { own } = (await session(step.side)).states
    if (step.do === 'replace') own.replace({ x: step.value }).catch(() => {})
    if (step.do !== 'set' && step.do !== 'delete') return undefined
    const written: Written = { side: step.side, key: step.key, value: step.do === 'set' ? step.value : undefined, acked: false }
    const done = step.do === 'set' ? own.set(step.key, step.value) : own.delete(step.key)
    done.then(
      () => {
        written.acked = true
      },
      () => {}
    )
    return written
  }
  return { clock, net, nodes, session, until, whole, change }
}

async function perform(w: Awaited<ReturnType<typeof world>>, step: Step): Promise<Written | undefined> {
  let written: Written | undefined
  if (step.do === 'cut') w.net.cut(w.nodes.a.peer, w.nodes.b.peer)
  else if (step.do === 'restart') {
    await w.nodes[step.side].kill()
    await w.nodes[step.side].start()
    if (step.wait) await w.until(w.whole)
  } else written = await w.change(step)
  await settle()
  return written
}

async function equal(w: Awaited<ReturnType<typeof world>>): Promise<void> {
  await w.until(w.whole)
  const [a, b] = await Promise.all([w.session('a'), w.session('b')])
  expect(b.states.peer.entries()).toEqual(a.states.own.entries())
  expect(a.states.peer.entries()).toEqual(b.states.own.entries())
  expect(b.states.peer.hash()).toBe(a.states.own.hash())
  expect(a.states.peer.hash()).toBe(b.states.own.hash())
}

describe('the ESE pair over restarts', () => {
  it('[PSS-06] [PSS-07] [G-47] mirror and writer are equal after any changes, lost connections and restarts of either side or both', async () => {
    const step = fc.oneof(...changes, fc.record({ do: fc.constant('replace' as const), side, value: fc.nat(99) }), restart(side))
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 12 }), async (steps) => {
        const w = await world()
        for (const one of steps) await perform(w, one)
        await equal(w)
      }),
      { numRuns: 25 }
    )
  }, 60_000)

  it('[PSS-07] [G-47] nothing that was acknowledged is lost while only one side restarts', async () => {
    const step = fc.oneof(...changes, restart(fc.constant<Side>('a')))
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 12 }), async (steps) => {
        const w = await world()
        const all: Written[] = []
        for (const one of steps) {
          const written = await perform(w, one)
          if (written !== undefined) all.push(written)
        }
        await equal(w)
        for (const of of ['a', 'b'] as const) {
          const { own } = (await w.session(of)).states
          for (const name of ['x', 'y', 'z']) {
            const history = all.filter((one) => one.side === of && one.key === name)
            const last = history.findLastIndex(({ acked }) => acked)
            // what was written after it may have taken effect, though nobody was told
            if (last >= 0) expect(history.slice(last).map(({ value }) => value)).toContainEqual(own.get(name))
          }
        }
      }),
      { numRuns: 25 }
    )
  }, 60_000)
})

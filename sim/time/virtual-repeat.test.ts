import { describe, expect, it } from 'vitest'
import type { SimReport } from '../report/report.ts'
import { runScenario } from '../run-scenario.ts'
import { parseScenario } from '../scenario/parse.ts'

/** Links that draw, nodes that fall and come back, searches, sessions and messages. */
const EVENTFUL = parseScenario(
  `name: eventful
description: A little of everything, on few real nodes.
nodes:
  - { group: stable, count: 5, region: everywhere }
  - { group: restless, count: 3, region: everywhere, churn: { shape: 0.6, scale: 6s, down: 2s } }
network: { latency: internet, jitter: 0.2, loss: 0.01 }
timeline:
  - stage: announce
  - { do: announce, who: { group: stable, node: 0 }, space: org.agentnet/a.b@1 }
  - stage: join
  - { do: join, who: everyone, space: org.agentnet/a.b@1, atOnce: 4 }
  - { stage: come and go, lasts: 10s, measured: true }
  - stage: talk
  - { do: openSession, who: stable, to: stable, pairs: 2 }
  - { do: discover, who: stable, space: org.agentnet/a.b@1, by: turns }
load:
  - { stage: come and go, do: discover, who: stable, space: org.agentnet/a.b@1, perSecond: 1 }
  - { stage: come and go, do: send, who: stable, to: stable, perSecond: 1 }
`,
  'eventful.yaml'
)

/** What a run comes to, without what its machine adds: when it began, how long it took, the processor and the memory. */
function figures({ startedAt, wallMs, memory, eventLoop, machineLimits, phases, ...rest }: SimReport) {
  return { ...rest, phases: phases.map(({ name }) => name) }
}

async function played(seed: number) {
  const lines: string[] = []
  const report = await runScenario(EVENTFUL, { seed, time: 'virtual', onLog: (line) => lines.push(line) })
  return { lines, figures: figures(report) }
}

describe('real nodes in virtual time, run again with one seed', { timeout: 600_000 }, () => {
  it('do the same at the same instants: one event log, and one report but for what the machine adds', async () => {
    const [one, two, other] = [await played(5), await played(5), await played(6)]
    expect(one.lines.length).toBeGreaterThan(30)
    expect(two.lines).toEqual(one.lines)
    expect(two.figures).toEqual(one.figures)
    expect(one.figures.virtual?.timers).toBeGreaterThan(1_000)
    expect(one.figures.messages).not.toEqual(other.figures.messages)
  })
})

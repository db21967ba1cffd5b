/** How long until one change of a state is seen on the other side, beside Yjs over the same transport? Half of there and back, as two changes. */
import { compare, quantile } from './harness.ts'
import { stateContenders, YJS_NAME } from './state-contenders.ts'

const CHANGES = 300

const { all, placement, stop } = await stateContenders()
let value = 0
for (const [fraction, name] of [
  [0.5, 'p50'],
  [0.99, 'p99']
] as const) {
  await compare(
    {
      id: `state-latency-${name}`,
      question: `One change seen on the other side, ${name} of ${CHANGES}`,
      unit: 'ms',
      better: 'lower',
      placement,
      baseline: YJS_NAME,
      rounds: 8
    },
    all.map((one) => ({
      name: one.name,
      async sample() {
        const taken: number[] = []
        for (let i = 0; i < CHANGES; i++) {
          const startedMs = performance.now()
          await one.ping(++value)
          taken.push((performance.now() - startedMs) / 2)
        }
        return quantile(taken, fraction)
      }
    }))
  )
}
await stop()
process.exit(0)

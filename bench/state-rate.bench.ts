/** How many changes a second does one session carry, until the other side has the last, beside Yjs over the same transport? */
import { compare } from './harness.ts'
import { stateContenders, YJS_NAME } from './state-contenders.ts'

const CHANGES = 5_000
const KEYS = 100

const { all, placement, stop } = await stateContenders()
let value = 0
await compare(
  {
    id: 'state-rate',
    question: `${CHANGES} changes of ${KEYS} keys, each set by itself, about 64 bytes`,
    unit: 'changes/s',
    better: 'higher',
    placement,
    baseline: YJS_NAME,
    rounds: 8
  },
  all.map((one) => ({
    name: one.name,
    async sample() {
      const startedMs = performance.now()
      for (let i = 0; i < CHANGES; i++) one.set(`key-${i % KEYS}`, { at: ++value, text: 'x'.repeat(32) })
      await one.ping(++value)
      return (CHANGES / (performance.now() - startedMs)) * 1_000
    }
  }))
)
await stop()
process.exit(0)

/** A host whose sockets are looked at often, in a process of its own: one JSON line with its addresses, then one for each change of what is wrong. */
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { createHost } from '../../src/net/node-host.ts'
import { ASK_AGAIN_MS, ASK_MS } from '../../src/net/quic-watch.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { numberRules } from './host-fixture.ts'

const SOONER = new Map([
  [ASK_MS, 200],
  [ASK_AGAIN_MS, 1_000]
])
let heard: () => void = () => {}
const answeredOnce = new Promise<void>((resolve) => {
  heard = resolve
})
const clock = {
  ...systemClock,
  after(ms: number, run: () => void) {
    if (ms === ASK_MS) heard() // it is asked again at leisure only after an answer
    return systemClock.after(SOONER.get(ms) ?? ms, run)
  }
}
const say = (value: object) => process.stdout.write(`${JSON.stringify(value)}\n`)
const host = await createHost(
  { clock, random: systemRandom, logger: silentLogger, crypto: nodeCrypto, validator: numberRules },
  { privateKey: systemRandom.bytes(32), listen: ['/ip4/127.0.0.1/udp/0/quic-v1'] }
)
await answeredOnce
say({ addresses: host.addresses() })
let before: string | undefined
setInterval(() => {
  const fault = host.fault?.()
  if (fault?.detail === before) return
  before = fault?.detail
  say({ fault: fault ?? 'none' })
}, 50)
process.on('disconnect', () => process.exit(0))

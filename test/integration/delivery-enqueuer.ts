import { Level } from 'level'
import { utf8 } from '../../protocol/bytes.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ClockGuard } from '../../src/delivery/clock-guard.ts'
import { LevelAsleepQueue } from '../../src/delivery/level-asleep-queue.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { Store } from '../../src/store/store.ts'

/** Enqueues without end, in four lanes, and writes the name of each message to stdout once it was promised. Killed by the test. */
const [directory = '', round = '0'] = process.argv.slice(2)
const level = new Level<string, Uint8Array>(directory, { valueEncoding: 'view' })
await level.open()
const store = new Store(level)
const clockGuard = await ClockGuard.open({ store, clock: systemClock })
const bounds = { messagesMax: 1e6, bytesMax: 1e9, messagesPerPeerMax: 1e6, ttlMaxMs: 86_400_000 }
const queue = await LevelAsleepQueue.open({ store, crypto: nodeCrypto, clockGuard, logger: silentLogger }, { bounds: () => bounds })
const audience = 'ab'.repeat(32) as EidHex

const lane = async (name: number) => {
  for (let i = 0; ; i++) {
    const message = `${round}-${name}-${i}`
    const answer = await queue.enqueue({ audience, principal: 'eid:aa', object: utf8(message.padEnd(200, '.')), kind: 'opaque' })
    if (answer.status !== 'queued') process.exit(3)
    process.stdout.write(`${message}\n`)
  }
}
await Promise.all([0, 1, 2, 3].map(lane))

import { systemClock } from '../../src/platform/clock.ts'
import { agentOf, nodeOn } from '../unit/sessions/memory-net.ts'
import { addressOf, startHost } from './host-fixture.ts'

/** A node of its own for tests that stop, freeze or kill one: tells its address, then every message it handled. */
const host = await startHost()
const node = await nodeOn(host, systemClock, [agentOf(0xb2)], {
  handler: async ({ channel, payload }) => {
    process.send?.({ kind: 'handled', channel, text: new TextDecoder().decode(payload.subarray(0, 64)) })
  }
})
node.manager.onSession((session) => {
  process.send?.({ kind: 'session', id: session.info().id })
  void session.closed.then(({ reason }) => process.send?.({ kind: 'closed', reason }))
})
process.send?.({ kind: 'listening', address: addressOf(host) })
process.on('disconnect', () => process.exit(0))

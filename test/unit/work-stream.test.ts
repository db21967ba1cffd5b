import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import type { EdgeHost } from '../../src/a2a/edge-host.ts'
import { Exchange } from '../../src/a2a/http-exchange.ts'
import type { AgentWork } from '../../src/doors/agent-work.ts'
import { WORK_STREAM_BYTES_MAX, workRoutes } from '../../src/doors/work-door.ts'
import { ownerPrincipal } from '../../src/grants/principal.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { testAgent } from '../support/a2a-fixture.ts'

const AGENT = testAgent(1)

/** A stream of the claim API whose reader reads nothing: what is written stays in the response. */
function stalled() {
  const clock = new ManualClock()
  const hooks = new Set<() => void>()
  const ready = Promise.withResolvers<void>()
  const work = {
    clock,
    present: () => {},
    todos: {
      onClaimable: (_agent: string, hook: () => void) => {
        hooks.add(hook)
        return () => hooks.delete(hook)
      },
      onCommit: () => () => {},
      count: async () => {
        queueMicrotask(ready.resolve)
        return 0
      }
    }
  }
  const host = { settings: { bodyBytesMax: 1_024 }, authenticated: () => ownerPrincipal(AGENT), components: {} }
  const route = workRoutes(host as unknown as EdgeHost, work as unknown as AgentWork).find(({ path }) => path === '/v1/work/events')
  const req = new IncomingMessage(new Socket())
  const res = new ServerResponse(req)
  const over = route?.handle(new Exchange(req, res, { did: undefined, params: {} }, '')) as Promise<void>
  return { clock, hooks, res, over, ready: ready.promise }
}

describe('the event stream of the claim API', () => {
  it('[TD-31] is closed, with a reason, for a reader that leaves more than its bound unread, and holds no more than that', async () => {
    const { clock, hooks, res, over, ready } = stalled()
    await ready
    expect(hooks.size).toBe(1)
    const [ring] = hooks as unknown as [() => void]
    let rings = 0
    for (; !res.writableEnded && rings < 100_000; rings++) ring()
    expect(rings).toBeGreaterThan(1_000)
    expect(res.writableLength).toBeLessThan(WORK_STREAM_BYTES_MAX + 1_024)
    const held = res.writableLength
    for (let i = 0; i < 100; i++) ring()
    expect(res.writableLength).toBe(held)
    await over
    expect(hooks.size).toBe(0)
    expect(res.destroyed).toBe(false)
    clock.advance(1_000)
    expect(res.destroyed).toBe(true)
  })
})

import { describe, expect, it } from 'vitest'
import { launcher } from './cli-fixture.ts'

describe('the main job in one command', () => {
  it('[PSS-05] [OD-41] [OD-36] [OD-42] [DS-05] [DS-22] three processes meet by topic, hold a session over QUIC, and deliver once to an agent that slept through SIGKILL', async () => {
    const demo = await launcher(['demo', '--json'], { timeoutMs: 150_000 })
    expect(demo.stderr).toBe('')
    expect(demo.code).toBe(0)
    const report = demo.json<{ steps: { name: string; ms: number; detail: string }[]; handshakeMs: number }>()
    expect(report).toMatchObject({
      transport: 'quic',
      found: 2,
      session: 'established',
      asleep: { status: 503, queued: true },
      deliveredAfterKill: true,
      replayRefused: true
    })
    expect(report.handshakeMs).toBeGreaterThan(0)
    expect(report.steps).toHaveLength(13)
    for (const step of report.steps) expect(step.ms).toBeGreaterThan(0)
  })
})

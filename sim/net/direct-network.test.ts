import { describe, expect, it } from 'vitest'
import { RealEngine } from '../engine/real-engine.ts'

describe('nodes that call each other at the same moment', { timeout: 300_000 }, () => {
  it('keep a connection: neither takes its own call for a second one to the same address', async () => {
    const stop = new AbortController()
    const engine = new RealEngine({ nodes: 5, seed: 1, signal: stop.signal })
    try {
      await engine.boot(() => {})
      let lost = 0
      for (const { node } of engine.nodes) node.host.onPeer(({ kind }) => kind === 'disconnect' && lost++)
      await engine.settle(() => {})
      expect(engine.nodes.map(({ node }) => node.host.peers().length)).toEqual([4, 4, 4, 4, 4])
      expect(lost).toBe(0)
    } finally {
      await engine.stop()
    }
  })
})

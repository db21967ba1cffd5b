import type { Stream } from '@libp2p/interface'
import { describe, expect, it } from 'vitest'
import { Traffic, trafficMetrics } from '../../src/net/traffic.ts'

/** A stream that keeps what it was given and has room for all but the last. */
function fakeStream(protocol: string): { stream: Stream; sent: number[] } {
  const sent: number[] = []
  const stream = {
    protocol,
    send(data: Uint8Array) {
      sent.push(data.byteLength)
      return data.byteLength < 100
    }
  } as unknown as Stream
  return { stream, sent }
}

describe('traffic', () => {
  it('counts messages and bytes by protocol and passes them on, with the stream’s answer', () => {
    const traffic = new Traffic()
    const metrics = trafficMetrics(traffic)
    const [one, two, other] = [fakeStream('/a/1'), fakeStream('/a/1'), fakeStream('/b/1')]
    for (const { stream } of [one, two, other]) metrics.trackProtocolStream(stream)
    expect(one.stream.send(new Uint8Array(10))).toBe(true)
    expect(one.stream.send(new Uint8Array(100))).toBe(false)
    two.stream.send(new Uint8Array(1))
    expect(one.sent).toEqual([10, 100])
    expect(traffic.sent()).toEqual([
      { protocol: '/a/1', messages: 3, bytes: 111 },
      { protocol: '/b/1', messages: 0, bytes: 0 }
    ])
  })

  it('gives out copies, so that a reader changes nothing', () => {
    const traffic = new Traffic()
    traffic.track(fakeStream('/a/1').stream)
    for (const one of traffic.sent()) one.messages = 9
    expect(traffic.sent()).toEqual([{ protocol: '/a/1', messages: 0, bytes: 0 }])
  })

  it('answers every other call of libp2p’s metrics with something that does nothing', () => {
    const metrics = trafficMetrics(new Traffic())
    const call = () => 5
    expect(metrics.traceFunction('x', call)).toBe(call)
    const counter = metrics.registerCounter('x')
    counter.increment()
    const histogram = metrics.registerHistogram('x')
    histogram.observe(1)
    histogram.timer()()
    expect(metrics.createTrace()).toBeUndefined()
  })
})

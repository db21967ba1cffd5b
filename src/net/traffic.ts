import type { Metrics, Stream } from '@libp2p/interface'

export interface ProtocolTraffic {
  protocol: string
  /** writes to streams of the protocol; negotiation and what carries the streams are not in it */
  messages: number
  bytes: number
}

/** What a host sent, by protocol; one entry for each protocol that this node or a peer named and both speak. */
export class Traffic {
  readonly #sent = new Map<string, ProtocolTraffic>()

  sent(): ProtocolTraffic[] {
    return [...this.#sent.values()].map((one) => ({ ...one }))
  }

  /** Counts what goes out on a negotiated stream from now on. */
  track(stream: Stream): void {
    const { protocol } = stream
    let count = this.#sent.get(protocol)
    if (count === undefined) {
      count = { protocol, messages: 0, bytes: 0 }
      this.#sent.set(protocol, count)
    }
    const tally = count
    const send = stream.send.bind(stream)
    stream.send = (data) => {
      tally.messages++
      tally.bytes += data.byteLength
      return send(data)
    }
  }
}

/** libp2p's metrics hook, of which only the streams are of use here. */
export function trafficMetrics(traffic: Traffic): Metrics {
  const stopTimer = () => {}
  const nothing = { update() {}, increment() {}, decrement() {}, reset() {}, observe() {}, timer: () => stopTimer }
  const register = () => nothing
  return {
    trackMultiaddrConnection() {},
    trackProtocolStream: (stream) => traffic.track(stream),
    registerMetric: register,
    registerMetricGroup: register,
    registerCounter: register,
    registerCounterGroup: register,
    registerHistogram: register,
    registerHistogramGroup: register,
    registerSummary: register,
    registerSummaryGroup: register,
    traceFunction: <F>(_name: string, call: F) => call,
    createTrace: () => undefined
  } as Metrics
}

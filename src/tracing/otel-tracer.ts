import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Attributes,
  SpanKind as OtelKind,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  SpanStatusCode,
  TraceFlags,
  trace
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider
} from '@opentelemetry/sdk-trace'
import { readTraceparent, traceparentOf } from '../../protocol/delivery/traceparent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Span, SpanInit, SpanKind, Tracer } from '../platform/tracer.ts'

/** Spans that wait for the collector; above it the newest are dropped. */
export const SPANS_WAITING_MAX = 2_048
const SPANS_AT_ONCE = 512
const SEND_EVERY_MS = 1_000
const SEND_TIMEOUT_MS = 5_000
/** A collector that is away is named in the log at most this often. */
const COMPLAIN_EVERY_MS = 60_000
const ATTRIBUTE_CHARS_MAX = 256

const KINDS: Readonly<Record<SpanKind, OtelKind>> = {
  server: OtelKind.SERVER,
  client: OtelKind.CLIENT,
  producer: OtelKind.PRODUCER,
  consumer: OtelKind.CONSUMER,
  internal: OtelKind.INTERNAL
}

/** Since the start: spans that ended and were to be recorded, and what became of them. */
export interface SpanCounts {
  ended: number
  exported: number
  failed: number
}

export interface OtelTracerInit {
  /** the collector's OTLP/HTTP address for traces */
  endpoint: string
  /** share of the traces that is recorded, 0 to 1, by trace id: nodes with the same share record the same traces */
  ratio: number
  /** `share`: other nodes are told the trace that a request belongs to, and theirs are followed */
  peers: 'share' | 'keep'
  version: string
  peer: string
}

export interface RunningTracer extends Tracer {
  counts(): SpanCounts
  /** Sends what waits, within a bound. */
  stop(): Promise<void>
}

/**
 * Traces by OpenTelemetry, sent to a collector as OTLP over HTTP. No global of OpenTelemetry is set, so several nodes in one process, and a program with
 * traces of its own, do not meet. What is recorded is decided here: a parent's word counts only where it is a span of this node.
 */
export function createOtelTracer(components: { clock: Clock; logger: Logger }, init: OtelTracerInit): RunningTracer {
  return new OtelTracer(components, init)
}

class OtelTracer implements RunningTracer {
  readonly isOn = true
  readonly #init: OtelTracerInit
  readonly #provider: TracerProvider
  readonly #tracer: ReturnType<TracerProvider['getTracer']>
  readonly #running = new AsyncLocalStorage<string | undefined>()
  readonly #exporter: CountingExporter

  constructor(components: { clock: Clock; logger: Logger }, init: OtelTracerInit) {
    this.#init = init
    this.#exporter = new CountingExporter(components, init.endpoint)
    const ratio = new TraceIdRatioBasedSampler(init.ratio)
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({
        'service.name': 'rookery',
        'service.version': init.version,
        'service.instance.id': init.peer
      }),
      sampler: new ParentBasedSampler({ root: ratio, remoteParentSampled: ratio, remoteParentNotSampled: ratio }),
      spanLimits: { attributeValueLengthLimit: ATTRIBUTE_CHARS_MAX, attributeCountLimit: 32, eventCountLimit: 16, linkCountLimit: 1 },
      spanProcessors: [
        new BatchSpanProcessor({
          exporter: this.#exporter,
          maxQueueSize: SPANS_WAITING_MAX,
          maxExportBatchSize: SPANS_AT_ONCE,
          scheduledDelayMillis: SEND_EVERY_MS,
          exportTimeoutMillis: SEND_TIMEOUT_MS
        })
      ]
    })
    this.#tracer = this.#provider.getTracer('rookery', init.version)
  }

  start(name: string, { kind, parent, parentFrom = 'here', attributes, startMs }: SpanInit): Span {
    const above = readTraceparent(parent)
    const context =
      above === undefined
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, {
            traceId: above.traceId,
            spanId: above.spanId,
            traceFlags: above.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
            isRemote: parentFrom === 'elsewhere'
          })
    const span = this.#tracer.startSpan(
      name,
      {
        kind: KINDS[kind],
        ...(attributes === undefined ? {} : { attributes: { ...attributes } as Attributes }),
        ...(startMs === undefined ? {} : { startTime: new Date(startMs) })
      },
      context
    )
    return spanOf(span, () => this.#exporter.ended(span))
  }

  async run<T>(name: string, init: SpanInit, work: (span: Span) => Promise<T>): Promise<T> {
    const span = this.start(name, init)
    try {
      const result = await this.within(span.traceparent, () => work(span))
      span.end()
      return result
    } catch (error) {
      span.end({ error: codeOf(error) })
      throw error
    }
  }

  within<T>(traceparent: string | undefined, work: () => T): T {
    return this.#running.run(traceparent, work)
  }

  current(): string | undefined {
    return this.#running.getStore()
  }

  forPeers(): string | undefined {
    return this.#init.peers === 'share' ? this.current() : undefined
  }

  fromPeers(text: unknown): string | undefined {
    return this.#init.peers === 'share' && readTraceparent(text) !== undefined ? (text as string) : undefined
  }

  counts(): SpanCounts {
    return this.#exporter.counts()
  }

  async stop(): Promise<void> {
    await this.#provider.shutdown()
  }
}

function spanOf(span: OtelSpan, ended: () => void): Span {
  const { traceId, spanId, traceFlags } = span.spanContext()
  let isOver = false
  return {
    traceparent: traceparentOf({ traceId, spanId, isSampled: (traceFlags & TraceFlags.SAMPLED) !== 0 }),
    set: (attributes) => void span.setAttributes({ ...attributes } as Attributes),
    end({ error, endMs } = {}) {
      if (isOver) return
      isOver = true
      if (error !== undefined) {
        span.setAttributes({ 'error.type': error })
        span.setStatus({ code: SpanStatusCode.ERROR })
      }
      ended()
      span.end(endMs === undefined ? undefined : new Date(endMs))
    }
  }
}

/** What a span is marked with where its work threw: the code, never the text. */
function codeOf(error: unknown): string {
  const { code, reason, name } = (typeof error === 'object' && error !== null ? error : {}) as Record<string, unknown>
  for (const one of [reason, code, name]) if (typeof one === 'string' && /^[\w.-]{1,64}$/.test(one)) return one
  return 'unknown'
}

/** Counts what goes to the collector, and says so where it takes nothing. */
class CountingExporter implements SpanExporter {
  readonly #inner: OTLPTraceExporter
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #endpoint: string
  readonly #counts: SpanCounts = { ended: 0, exported: 0, failed: 0 }
  #complainedAtMs = Number.NEGATIVE_INFINITY

  constructor({ clock, logger }: { clock: Clock; logger: Logger }, endpoint: string) {
    this.#clock = clock
    this.#logger = logger
    this.#endpoint = endpoint
    this.#inner = new OTLPTraceExporter({ url: endpoint, timeoutMillis: SEND_TIMEOUT_MS, concurrencyLimit: 2 })
  }

  counts(): SpanCounts {
    return { ...this.#counts }
  }

  ended(span: OtelSpan): void {
    if (span.isRecording()) this.#counts.ended++
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter['export']>[1]): void {
    this.#inner.export(spans, (result) => {
      // 0 is OpenTelemetry's SUCCESS
      if (result.code === 0) this.#counts.exported += spans.length
      else {
        this.#counts.failed += spans.length
        this.#complain(result.error)
      }
      done(result)
    })
  }

  #complain(err: Error | undefined): void {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#complainedAtMs < COMPLAIN_EVERY_MS) return
    this.#complainedAtMs = nowMs
    this.#logger.warn({ endpoint: this.#endpoint, err }, 'the collector of traces takes nothing; spans are dropped meanwhile')
  }

  async forceFlush(): Promise<void> {
    await this.#inner.forceFlush()
  }

  async shutdown(): Promise<void> {
    await this.#inner.shutdown()
  }
}

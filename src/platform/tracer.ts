/** What part a span plays: it answers a call, makes one, hands something over or takes it up later. */
export type SpanKind = 'server' | 'client' | 'producer' | 'consumer' | 'internal'

/** Of closed sets, ids of our own and numbers; payloads, tokens and texts of others stay out. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>

export interface SpanInit {
  kind: SpanKind
  /** the parent's `traceparent`; undefined begins a trace. One that cannot be read counts as none */
  parent: string | undefined
  /** `elsewhere`: somebody else's word, so whether this span is recorded is decided here anew */
  parentFrom?: 'here' | 'elsewhere'
  attributes?: SpanAttributes
  /** Unix ms; default: now */
  startMs?: number
}

export interface Span {
  /** what a child names as its parent; the empty text where nothing is traced */
  readonly traceparent: string
  set(attributes: SpanAttributes): void
  /** Once; `error`: a code */
  end(how?: { error?: string | undefined; endMs?: number }): void
}

/** Spans narrow enough that nothing but src/tracing knows OpenTelemetry. Where tracing is off every method costs next to nothing. */
export interface Tracer {
  readonly isOn: boolean
  start(name: string, init: SpanInit): Span
  /** Runs `work` inside a span that ends with it, as failed where it throws. */
  run<T>(name: string, init: SpanInit, work: (span: Span) => Promise<T>): Promise<T>
  /** Runs `work` as if inside the span of that `traceparent`; undefined: inside none. */
  within<T>(traceparent: string | undefined, work: () => T): T
  /** The `traceparent` of the span that runs now. */
  current(): string | undefined
  /** As {@link current}, for another node; undefined where nothing of traces leaves this one. */
  forPeers(): string | undefined
  /** What another node named as the parent; undefined where traces of others are not followed, or for what is none. */
  fromPeers(text: unknown): string | undefined
}

const NO_SPAN: Span = { traceparent: '', set() {}, end() {} }

export const noTracer: Tracer = {
  isOn: false,
  start: () => NO_SPAN,
  run: (_name, _init, work) => work(NO_SPAN),
  within: (_traceparent, work) => work(),
  current: () => undefined,
  forPeers: () => undefined,
  fromPeers: () => undefined
}

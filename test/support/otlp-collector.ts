import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface CollectedSpan {
  /** which node sent it: `service.instance.id` */
  peer: string
  name: string
  traceId: string
  spanId: string
  /** the empty text for the first of a trace */
  parentSpanId: string
  kind: number
  startMs: number
  endMs: number
  attributes: Record<string, string | number | boolean>
  isFailed: boolean
}

interface Attribute {
  key: string
  value: { stringValue?: string; intValue?: string | number; doubleValue?: number; boolValue?: boolean }
}
interface Export {
  resourceSpans: {
    resource: { attributes: Attribute[] }
    scopeSpans: {
      spans: {
        name: string
        traceId: string
        spanId: string
        parentSpanId?: string
        kind: number
        startTimeUnixNano: string
        endTimeUnixNano: string
        attributes?: Attribute[]
        status?: { code?: number }
      }[]
    }[]
  }[]
}

const valuesOf = (attributes: readonly Attribute[] = []) =>
  Object.fromEntries(
    attributes.map(({ key, value: { stringValue, intValue, doubleValue, boolValue } }) => [
      key,
      stringValue ?? (intValue === undefined ? undefined : Number(intValue)) ?? doubleValue ?? boolValue ?? ''
    ])
  )

/** A collector on loopback that takes OTLP over HTTP in its JSON form, as OpenTelemetry's specification has it. */
export class OtlpCollector {
  readonly spans: CollectedSpan[] = []
  /** status of its answers */
  answer = 200
  requests = 0
  readonly #server: Server
  #waiting: (() => void)[] = []

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        this.requests++
        if (this.answer === 200) this.#take(JSON.parse(Buffer.concat(chunks).toString()) as Export)
        response.writeHead(this.answer, { 'content-type': 'application/json' }).end('{}')
        for (const look of this.#waiting.splice(0)) look()
      })
    })
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    await closed
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1/traces`
  }

  /** Resolves once `is` holds; asked again whenever something came. */
  async until(is: () => boolean): Promise<void> {
    while (!is()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  #take({ resourceSpans }: Export): void {
    for (const { resource, scopeSpans } of resourceSpans) {
      const peer = String(valuesOf(resource.attributes)['service.instance.id'])
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        const { name, traceId, spanId, parentSpanId = '', kind, attributes, status } = span
        this.spans.push({
          peer,
          name,
          traceId,
          spanId,
          parentSpanId,
          kind,
          startMs: Number(BigInt(span.startTimeUnixNano) / 1_000_000n),
          endMs: Number(BigInt(span.endTimeUnixNano) / 1_000_000n),
          attributes: valuesOf(attributes),
          isFailed: status?.code === 2
        })
      }
    }
  }
}

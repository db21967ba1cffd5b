import type { Config } from '../config/schema.ts'
import { RookeryError } from '../errors.ts'
import type { Base } from '../node-parts.ts'
import { version } from '../version.ts'
import type { RunningTracer } from './otel-tracer.ts'

/**
 * The tracer of a node; undefined where the settings leave it off, and then nothing of OpenTelemetry's SDK is loaded.
 * @throws RookeryError `TRACING_UNAVAILABLE`
 */
export async function openTracer(
  { tracing }: Config,
  { clock, logger }: Pick<Base, 'clock' | 'logger'>,
  { peer }: { peer: string }
): Promise<RunningTracer | undefined> {
  if (!tracing.enabled) return undefined
  const { createOtelTracer } = await import('./otel-tracer.ts').catch((cause: unknown) => {
    throw new RookeryError(
      'TRACING_UNAVAILABLE',
      'the packages that traces need are not there: @opentelemetry/sdk-trace and its exporter',
      {
        kind: 'config',
        field: 'tracing.enabled',
        value: true,
        remedy:
          'install @opentelemetry/sdk-trace, @opentelemetry/resources and @opentelemetry/exporter-trace-otlp-http beside Rookery, on Node 22.15 or newer; or set tracing.enabled to false',
        cause
      }
    )
  })
  const { endpoint, ratio, peers } = tracing
  return createOtelTracer({ clock, logger: logger.child('tracing') }, { endpoint, ratio, peers, version, peer })
}

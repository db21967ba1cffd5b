import type { Around } from '../a2a/edge.ts'
import type { Clock } from '../platform/clock.ts'
import type { Span, Tracer } from '../platform/tracer.ts'
import type { Observed } from './observed.ts'

/** Which of the node's doors a request came to. */
export type HttpDoor = 'a2a-json-rpc' | 'a2a-rest' | 'card' | 'agent-http' | 'mcp' | 'none'

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])

/** By the template of a route, never by the path that came. */
export function doorOf(template: string | undefined): HttpDoor {
  if (template === undefined) return 'none'
  if (template === '/') return 'a2a-json-rpc'
  if (template.startsWith('/v1/work')) return 'agent-http'
  if (template === '/mcp' || template.startsWith('/mcp/')) return 'mcp'
  return template.startsWith('/.well-known/') ? 'card' : 'a2a-rest'
}

function templateOf(path: string, above: string): string {
  return path === '/' && above !== '' ? above : `${above}${path}`
}

/**
 * Times and traces what comes to the HTTP doors. Labels are templates of routes, known methods and classes of status: nothing that a caller wrote. A trace that a caller
 * names is followed; what is recorded is decided here.
 */
export function watchHttp({ clock, tracer }: { clock: Clock; tracer: Tracer }, observed: Observed | undefined): Around {
  if (observed === undefined && !tracer.isOn) return (_exchange, _route, work) => work()
  return async (exchange, route, work) => {
    const { req, res } = exchange
    const labels = {
      door: doorOf(route?.path),
      route: route === undefined ? 'none' : templateOf(route.path, exchange.did === undefined ? '' : '/agents/{did}'),
      method: METHODS.has(req.method ?? '') ? (req.method as string) : 'other'
    }
    const startMs = clock.monotonicMs()
    let span: Span | undefined
    res.once('close', () => {
      const status = res.headersSent ? res.statusCode : 499
      observed?.http.observe({ ...labels, status: `${Math.floor(status / 100)}xx` }, (clock.monotonicMs() - startMs) / 1_000)
      span?.set({ 'http.response.status_code': status })
      span?.end(status >= 500 ? { error: String(status) } : {})
    })
    if (!tracer.isOn) return await work()
    span = tracer.start(`${labels.method} ${labels.route}`, {
      kind: 'server',
      parent: exchange.header('traceparent'),
      parentFrom: 'elsewhere',
      attributes: { 'http.request.method': labels.method, 'http.route': labels.route, 'rookery.door': labels.door }
    })
    await tracer.within(span.traceparent, work)
  }
}

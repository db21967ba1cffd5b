import type { IncomingMessage } from 'node:http'
import { A2aError } from './a2a-error.ts'
import type { Address, Exchange } from './http-exchange.ts'

/** One operation of the edge. It is served for the default agent at `path`, and for any agent at `/agents/{did}` + `path`. */
export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** `{name}` takes the text up to the next slash or colon */
  path: string
  handle(exchange: Exchange): Promise<void>
}

interface Template {
  route: Route
  pattern: RegExp
  names: readonly string[]
}

const AGENT_PATH = /^\/agents\/([^/]+)(\/.*)?$/
const PLACEHOLDER = /\{(\w+)\}/g

/** Which route a request means. Of several templates that fit the first one listed wins; a path without placeholders wins over all. */
export class EdgeRoutes {
  readonly #exact = new Map<string, Route>()
  readonly #templates: Template[] = []

  constructor(routes: Iterable<Route>) {
    for (const route of routes) {
      const names = [...route.path.matchAll(PLACEHOLDER)].map(([, name]) => name as string)
      if (names.length === 0) this.#exact.set(`${route.method} ${route.path}`, route)
      else this.#templates.push({ route, names, pattern: patternOf(route.path) })
    }
  }

  /** @throws A2aError `INVALID_REQUEST` for a path that is not percent-encoded UTF-8 */
  find(req: IncomingMessage): { route: Route; address: Address; search: string } | undefined {
    const { path, search } = splitUrl(req.url ?? '/')
    const method = req.method === 'HEAD' ? 'GET' : req.method
    const [, agent, below] = AGENT_PATH.exec(path) ?? [undefined, undefined, path]
    const own = below === undefined || below === '' ? '/' : below.length > 1 && below.endsWith('/') ? below.slice(0, -1) : below
    const did = agent === undefined ? undefined : decoded(agent)
    const exact = this.#exact.get(`${method} ${own}`)
    if (exact !== undefined) return { route: exact, address: { did, params: {} }, search }
    for (const { route, pattern, names } of this.#templates) {
      const match = route.method === method ? pattern.exec(own) : null
      if (match === null) continue
      const params = Object.fromEntries(names.map((name, at) => [name, decoded(match[at + 1] as string)]))
      return { route, address: { did, params }, search }
    }
    return undefined
  }
}

function patternOf(path: string): RegExp {
  const parts = path.split(PLACEHOLDER).map((part, at) => (at % 2 === 1 ? '([^/:]+)' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')))
  return new RegExp(`^${parts.join('')}$`)
}

function splitUrl(url: string): { path: string; search: string } {
  if (!url.startsWith('/')) {
    // A proxy may send the whole URL.
    const { pathname, search } = URL.canParse(url) ? new URL(url) : { pathname: url, search: '' }
    return { path: pathname, search }
  }
  const at = url.indexOf('?')
  return at === -1 ? { path: url, search: '' } : { path: url.slice(0, at), search: url.slice(at) }
}

function decoded(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw new A2aError('INVALID_REQUEST', 'the path is not percent-encoded UTF-8', { cause })
  }
}

import { A2aError } from '../a2a/a2a-error.ts'
import type { EdgeHost } from '../a2a/edge-host.ts'
import type { Route } from '../a2a/edge-routes.ts'
import type { Exchange } from '../a2a/http-exchange.ts'
import { checkContentType, readBody } from '../a2a/http-guards.ts'
import { errorJson } from '../api/error-json.ts'
import { type ErrorKind, EXIT_CODES, RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { JsonObject } from '../tasks/todo.ts'
import type { AgentWork } from './agent-work.ts'
import { onRing } from './doorbell.ts'
import { HELD_ACTS, performAct } from './work-acts.ts'
import { parseWork } from './work-params.ts'
import { actView, claimedView, workView } from './work-views.ts'

/** Streams of one agent at a time, and of all; above it `WORK_STREAMS_MAX`. */
export const WORK_STREAMS_PER_AGENT_MAX = 16
export const WORK_STREAMS_MAX = 64
/** What a reader may leave unread before its stream is closed. */
export const WORK_STREAM_BYTES_MAX = 262_144
const KEEP_ALIVE_MS = 15_000
/** How long a reader that was too slow has to read the rest. */
const CLOSE_GRACE_MS = 1_000

/** HTTP statuses by kind of error; the body says the rest. */
const STATUS: Record<ErrorKind, number> = {
  internal: 500,
  usage: 400,
  config: 400,
  unavailable: 503,
  notFound: 404,
  refused: 429,
  asleep: 503,
  timeout: 504,
  storage: 507,
  conflict: 409,
  interrupted: 503
}

/** The claim API over HTTP (docs/agents.md): the agent's own token opens it, and every answer is JSON. */
export function workRoutes(host: EdgeHost, work: AgentWork): Route[] {
  const streams = new Map<string, number>()
  const bodyMax = host.settings.bodyBytesMax

  const guarded = (act: (exchange: Exchange, agent: LocalAgent) => Promise<void>): Route['handle'] =>
    doorRoute(host, (exchange) => act(exchange, ownAgent(host, exchange)))
  const posted = (act: (exchange: Exchange, agent: LocalAgent, body: unknown) => Promise<void>): Route['handle'] =>
    guarded(async (exchange, agent) => {
      checkContentType(exchange, ['application/json'])
      await act(exchange, agent, bodyOf(await readBody(exchange, bodyMax)))
    })

  return [
    {
      method: 'POST',
      path: '/v1/work/claim',
      handle: posted(async (exchange, agent, body) => {
        const claimed = await work.claim(agent, 'agent-http', parseWork('claim', body), exchange.gone)
        if (claimed === undefined) exchange.res.writeHead(204).end()
        else exchange.sendJson(200, claimedView(claimed))
      })
    },
    {
      method: 'GET',
      path: '/v1/work',
      handle: guarded(async (exchange, agent) => {
        const filter = parseWork('list', Object.fromEntries(exchange.query))
        const { todos, next } = await work.list(agent, filter as { limit?: number })
        exchange.sendJson(200, { todos: todos.map(workView), ...(next === undefined ? {} : { next }) })
      })
    },
    {
      method: 'GET',
      path: '/v1/work/events',
      handle: guarded(async (exchange, agent) => {
        const leave = enter(streams, homeOf(agent))
        try {
          await stream(work, exchange, agent)
        } finally {
          leave()
        }
      })
    },
    ...HELD_ACTS.map(
      (act): Route => ({
        method: 'POST',
        path: `/v1/work/{id}/${act}`,
        handle: posted(async (exchange, agent, body) => {
          const todo = await performAct(work, agent, 'agent-http', { id: exchange.params.id as string, act, body })
          exchange.sendJson(200, actView(todo))
        })
      })
    ),
    {
      method: 'GET',
      path: '/v1/work/{id}',
      handle: guarded(async (exchange, agent) => exchange.sendJson(200, workView(await work.get(agent, exchange.params.id as string))))
    }
  ]
}

/** Whatever goes wrong becomes JSON with code, field, value and remedy. */
export function doorRoute(host: EdgeHost, work: (exchange: Exchange) => Promise<void>): Route['handle'] {
  return async (exchange) => {
    try {
      await work(exchange)
    } catch (error) {
      answerError(host, exchange, error)
    }
  }
}

/** The agent whose token it is; a path that names another one is refused. @throws A2aError `UNAUTHENTICATED`, `PERMISSION_DENIED` */
export function ownAgent(host: EdgeHost, exchange: Exchange): LocalAgent {
  const agent = host.authenticated(exchange).owner
  if (agent === undefined) throw new A2aError('PERMISSION_DENIED', 'only the agent’s own token takes its work; a grant gives work to it')
  if (exchange.did === undefined || host.agentAt(host.targetOf(exchange)) === agent) return agent
  throw new A2aError('PERMISSION_DENIED', 'this token is another agent’s', { metadata: { field: 'did' } })
}

/** Rings until the client leaves; one that does not read is closed, with a reason. */
async function stream(work: AgentWork, exchange: Exchange, agent: LocalAgent): Promise<void> {
  const { res } = exchange
  const { promise, resolve } = Promise.withResolvers<void>()
  res.once('close', resolve)
  exchange.gone.addEventListener('abort', () => resolve(), { once: true })
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache', 'X-Accel-Buffering': 'no' })
  // Nothing that is written would follow such a head, nor end it.
  if (exchange.req.method === 'HEAD') return void res.end()
  let isOver = false
  const say = (name: string, data: object, id?: string) => {
    if (isOver) return
    res.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)
    if (res.writableLength <= WORK_STREAM_BYTES_MAX) return
    isOver = true
    res.end(`event: closed\ndata: ${JSON.stringify({ reason: 'the reader was too slow' })}\n\n`)
    work.clock.after(CLOSE_GRACE_MS, () => res.destroy())
    resolve()
  }
  const hooks = [
    work.todos.onClaimable(homeOf(agent), () => say('claimable', { agent: agent.did })),
    onRing(work.todos, { home: homeOf(agent), principal: `eid:${homeOf(agent)}` }, (ring) => say('todo', ring, ring.event))
  ]
  let cancel = () => {}
  const keepAlive = () => {
    cancel = work.clock.after(KEEP_ALIVE_MS, () => {
      work.present(agent)
      if (!isOver) res.write(': ka\n\n')
      keepAlive()
    })
  }
  work.present(agent)
  say('ready', { agent: agent.did, pending: await work.todos.count({ agent: homeOf(agent), state: 'pending' }) })
  keepAlive()
  await promise
  isOver = true
  cancel()
  for (const off of hooks) off()
  if (!res.writableEnded) res.end()
}

function enter(streams: Map<string, number>, home: string): () => void {
  const own = streams.get(home) ?? 0
  const all = [...streams.values()].reduce((sum, one) => sum + one, 0)
  if (own >= WORK_STREAMS_PER_AGENT_MAX || all >= WORK_STREAMS_MAX) {
    const max = own >= WORK_STREAMS_PER_AGENT_MAX ? WORK_STREAMS_PER_AGENT_MAX : WORK_STREAMS_MAX
    throw new RookeryError('WORK_STREAMS_MAX', `${max} streams are open already`, {
      kind: 'refused',
      data: { max },
      remedy: 'close one of them; one stream tells of all tasks of the agent'
    })
  }
  streams.set(home, own + 1)
  return () => {
    const left = (streams.get(home) ?? 1) - 1
    if (left > 0) streams.set(home, left)
    else streams.delete(home)
  }
}

/** @throws RookeryError `JSON_INVALID` */
export function bodyOf(bytes: Uint8Array): unknown {
  if (bytes.length === 0) return {}
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as JsonObject
  } catch (cause) {
    throw new RookeryError('JSON_INVALID', 'the body is not JSON in UTF-8', {
      kind: 'usage',
      field: 'body',
      remedy: 'send a JSON object, or nothing for {}',
      cause
    })
  }
}

function answerError(host: EdgeHost, exchange: Exchange, error: unknown): void {
  if (exchange.isAnswered) {
    exchange.res.destroy()
    return
  }
  if (exchange.gone.aborted) return void exchange.res.destroy()
  const status = error instanceof A2aError ? error.toRest().status : undefined
  const json = errorJson(error)
  if (json.kind === 'internal') host.components.logger.error({ err: error }, 'a call of the claim API failed')
  if (status === 401) exchange.setHeader('WWW-Authenticate', 'Bearer realm="rookery"')
  exchange.sendJson(status ?? (json.kind in EXIT_CODES ? STATUS[json.kind] : 500), { error: json })
}

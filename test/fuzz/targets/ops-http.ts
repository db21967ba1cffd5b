import type { Server } from 'node:http'
import { dashboardRoutes } from '../../../src/dashboard/dashboard-routes.ts'
import { SignIns } from '../../../src/dashboard/sign-ins.ts'
import { RookeryError } from '../../../src/errors.ts'
import { type OpsServer, openOpsServer, sendText } from '../../../src/ops/ops-server.ts'
import type { Vitals } from '../../../src/ops/vitals.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import { systemRandom } from '../../../src/platform/random.ts'
import type { RookeryNode } from '../../../src/rookery-node.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { json, text } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { exchanged, mustAnswer, REQUESTS_MAX, requestOf, settled, withServer } from './http-support.ts'
import { mustBe } from './support.ts'

interface Ops {
  readonly server: Server
  readonly ops: OpsServer
  readonly signIns: SignIns
  /** of a page that is signed in */
  token: string
  requests: number
}

/** pages that are told of tasks: one while any watches, else none */
let following = 0

/** Has every member, and each refuses when it is called. */
function refusing(): unknown {
  return new Proxy(() => {}, {
    get: (_target, name) => (name === 'then' || typeof name === 'symbol' ? undefined : refusing()),
    apply() {
      throw new RookeryError('REFUSED', 'this node does nothing', { kind: 'refused', remedy: 'none' })
    }
  })
}

function withRefusals(known: Record<string, unknown>): unknown {
  return new Proxy(known, { get: (_target, name) => (Object.hasOwn(known, name) ? known[name as string] : refusing()) })
}

/** A node of which nothing is there but what the operator's server itself needs. */
function nodeOf(): RookeryNode {
  const onCommit = () => {
    following++
    return () => following--
  }
  const known: Record<string, unknown> = {
    logger: silentLogger,
    clock: systemClock,
    startedAtMs: 1,
    config: { logs: { level: 'info', levels: {} } },
    closeFirst() {},
    signal: new AbortController().signal,
    agents: withRefusals({ list: () => [] }),
    todos: withRefusals({ onCommit, list: async () => ({ todos: [] }), count: async () => 0 })
  }
  return withRefusals(known) as RookeryNode
}

let ops: Ops | undefined

async function opened(): Promise<Ops> {
  if (ops !== undefined && ops.requests < REQUESTS_MAX) return ops
  await close()
  const signIns = new SignIns({ clock: systemClock, random: systemRandom })
  const vitals = { read: async () => ({}) } as unknown as Vitals
  const routes = [
    { method: 'GET' as const, path: '/healthz', handle: (_req: unknown, res: Parameters<typeof sendText>[0]) => sendText(res, 200, 'ok') },
    ...dashboardRoutes(nodeOf(), { signIns, vitals })
  ]
  const { server, opened: made } = await withServer(() => openOpsServer({ logger: silentLogger }, { host: '127.0.0.1', port: 0, routes }))
  ops = { server, ops: made, signIns, token: signIns.redeem(signIns.issue().code) as string, requests: 0 }
  return ops
}

async function close(): Promise<void> {
  const before = ops
  ops = undefined
  await before?.ops.close()
}

/** Requests to the operator's server, where `@token` and `@code` stand for a page that is signed in, or may sign in. */
const opsHttp: FuzzTarget = {
  name: 'ops-http',
  bytesMax: 4_096,
  mutators: [
    mutateJson(
      [
        'method',
        'params',
        'code',
        'epoch',
        'sections',
        'tasksRev',
        'logSeq',
        'find',
        'sleep',
        'wake',
        'inbox.show',
        'grant.revoke',
        '@code'
      ],
      'head'
    )
  ],
  seeds: () => {
    const post = (name: string, body: object, ...headers: string[]) =>
      Buffer.concat([
        text([`POST /dashboard/api/${name}`, 'origin: http://localhost', 'content-type: application/json', ...headers, '', ''].join('\n')),
        json(body)
      ])
    const signedIn = 'authorization: Bearer @token'
    return [
      text('GET /healthz\n\n'),
      text('HEAD /dashboard\n\n'),
      text('GET /dashboard/app.js?x=1#y\n\n'),
      text('POST /dashboard\norigin: http://a.example\n\n'),
      text('GET //localhost/..%2f\nhost: [::1]:4712\n\n'),
      post('sign-in', { code: '@code' }),
      post('sign-in', { code: 1 }),
      post('sign-out', {}, signedIn),
      post('stream', { epoch: 'x', sections: { status: 'v' }, tasksRev: 1, logSeq: 0 }, signedIn, 'sec-fetch-site: same-origin'),
      post('call', { method: 'find', params: { name: 'org.agentnet/marketplace@1', limit: 3 } }, signedIn),
      post('call', { method: 'inbox.show', params: { id: 'x' } }, signedIn),
      post('call', { method: 'stop' }, signedIn),
      post('call', { method: 'sleep', params: {} })
    ]
  },
  async run(bytes) {
    const open = await opened()
    open.requests++
    const input = Buffer.from(bytes).toString('latin1')
    if (!open.signIns.accepts(open.token)) open.token = open.signIns.redeem(open.signIns.issue().code) as string
    const code = input.includes('@code') ? open.signIns.issue().code : ''
    const stands = [['@token', open.token] as const, ['@code', code] as const]
    const answer = await exchanged(open.server, requestOf(bytes, { stands }), 'application/x-ndjson')
    mustAnswer(answer, /^\{"error":\{"code":"INTERNAL"/m)
    if (!input.includes('@token')) mustBe(!/"(result|hello)":/.test(answer), 'who is not signed in is told nothing')
    if (await settled(() => following === 0)) return
    following = 0
    await close()
    mustBe(false, 'a page that left is told nothing more')
  }
}

export const targets: readonly FuzzTarget[] = [opsHttp]

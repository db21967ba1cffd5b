import type { Server } from 'node:http'
import { ProtocolError } from '../../../protocol/errors.ts'
import { findEndpoint } from '../../../src/api/control-endpoint.ts'
import { type ControlContext, type ControlHandlers, type ControlServer, serveControl } from '../../../src/api/control-server.ts'
import { CONTROL_BOUNDS, CONTROL_PARAMS } from '../../../src/api/methods.ts'
import { RookeryError } from '../../../src/errors.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import { systemRandom } from '../../../src/platform/random.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { json, text } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { connected, exchanged, mustAnswer, REQUESTS_MAX, requestOf, settled, statusOf, withServer } from './http-support.ts'
import { mustBe } from './support.ts'
import { fuzzDir } from './temp-dirs.ts'

interface Form {
  readonly server: Server
  readonly api: ControlServer
  /** of the form over loopback */
  readonly token: string | undefined
}

interface Api {
  readonly forms: Record<'socket' | 'tcp', Form>
  requests: number
}

const METHODS = Object.keys(CONTROL_PARAMS)
/** An event that fills what a connection holds unread. */
const LARGE = { text: 'x'.repeat(40_000) }

let api: Api | undefined
/** while true, calls last until their caller leaves */
let isHolding = false
/** whether the caller under way will leave before it is answered */
let isLeaving = false
let calls = 0

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve(), { once: true })))
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** What the fuzzer's own handlers do, in place of a node's: one kind for each method in turn. */
const ACTS: readonly ((params: unknown, context: ControlContext) => Promise<unknown>)[] = [
  async (params) => params,
  async (params, { progress }) => {
    for (let i = 0; i < 3; i++) progress(JSON.stringify(params).slice(0, 100))
    return null
  },
  async (params, { event, afterAnswer }) => {
    afterAnswer(() => {})
    event({ params })
    return { params }
  },
  async (_params, { emit }) => {
    for (let i = 0; i < 3; i++) await emit(LARGE)
    return undefined
  },
  async (params) => {
    throw new RookeryError('REFUSED', 'no', { kind: 'refused', field: 'params', value: JSON.stringify(params).slice(0, 50) })
  },
  async (params) => {
    const [name = 'x'] = Object.keys(params as object)
    throw new ProtocolError('RANGE', 'no', { field: name })
  },
  async (_params, { signal, event }) => {
    event(LARGE)
    if (isLeaving) await aborted(signal)
    signal.throwIfAborted()
    return {}
  },
  async () => {
    throw new DOMException('late', 'TimeoutError')
  }
]

function handlers(): ControlHandlers {
  const one = (method: string) => async (params: unknown, context: ControlContext) => {
    calls++
    if (isHolding) return await aborted(context.signal)
    return await ACTS[METHODS.indexOf(method) % ACTS.length]?.(params, context)
  }
  return Object.fromEntries(METHODS.map((method) => [method, one(method)])) as unknown as ControlHandlers
}

/** All calls but one that may run at a time run: a call that stays counted uses up the last. */
async function served(transport: 'socket' | 'tcp'): Promise<Form> {
  const dataDir = fuzzDir()
  const { server, opened } = await withServer(() =>
    serveControl({ handlers: handlers(), logger: silentLogger, random: systemRandom }, { dataDir, startedAtMs: 1, transport })
  )
  const endpoint = transport === 'tcp' ? findEndpoint(dataDir, 'win32') : undefined
  const form = { server, api: opened, token: endpoint?.kind === 'tcp' ? endpoint.token : undefined }
  isHolding = true
  const before = calls
  for (let held = 1; held < CONTROL_BOUNDS.callsMax; held++) {
    const { client } = connected(server)
    client.resume()
    client.write(probe(form))
  }
  const isHeld = await settled(() => calls - before === CONTROL_BOUNDS.callsMax - 1)
  isHolding = false
  mustBe(isHeld, 'calls up to the bound are taken')
  return form
}

async function opened(): Promise<Api> {
  if (api !== undefined && api.requests < REQUESTS_MAX) return api
  await close()
  api = { forms: { socket: await served('socket'), tcp: await served('tcp') }, requests: 0 }
  return api
}

async function close(): Promise<void> {
  const before = api
  api = undefined
  if (before !== undefined) for (const { api: one } of Object.values(before.forms)) await one.close()
}

const GOOD = text('POST /v1/call\n\n{"method":"status"}')
function probe({ token }: Form): Uint8Array {
  return requestOf(GOOD, { authorization: token === undefined ? undefined : `Bearer ${token}` })
}

/** A good call is answered, now or once what is under way has ended. */
async function mustTakeCalls(form: Form): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (statusOf(await exchanged(form.server, probe(form))) === 200) return
    await turn()
  }
  await close()
  mustBe(false, 'a call that has ended is not counted')
}

/** A call as `target.http` has requests; where the first line begins with `!`, the caller hangs up once it has written. */
const controlHttp: FuzzTarget = {
  name: 'control-http',
  bytesMax: 4_096,
  mutators: [mutateJson([...METHODS, 'method', 'params', 'POST /v1/call', 'GET /v1/hello', 'authorization: Bearer '], 'head')],
  seeds: () => {
    const call = (method: string, params: object = {}, line = 'POST /v1/call') =>
      Buffer.concat([text(`${line}\ncontent-type: application/json\n\n`), json({ method, params })])
    return [
      text('GET /v1/hello\n\n'),
      text('GET /v1/call\n\n'),
      text('POST /v1/other\norigin: http://localhost\n\n{}'),
      text('POST /v1/call\nhost: a.example\nauthorization: Bearer x\n\n{}'),
      text('POST /v1/call\n\n[]'),
      ...METHODS.slice(0, ACTS.length).map((method) => call(method)),
      ...METHODS.slice(0, ACTS.length).map((method) => call(method, {}, '!POST /v1/call')),
      call('find', { query: 'org.agentnet/marketplace@1', limit: 3 }),
      call('status', { nothing: [{ __proto__: 1 }] })
    ]
  },
  async run(bytes) {
    const open = await opened()
    open.requests++
    isLeaving = bytes[0] === 0x21
    const input = isLeaving ? bytes.subarray(1) : bytes
    const { socket, tcp } = open.forms
    for (const form of [socket, tcp]) {
      const request = requestOf(input, { authorization: form.token === undefined ? undefined : `Bearer ${form.token}`, own: 'replaced' })
      if (isLeaving) {
        const { client, leave } = connected(form.server)
        client.write(request)
        await turn()
        leave()
      } else mustAnswer(await exchanged(form.server, request), /"code":"INTERNAL"/)
      await mustTakeCalls(form)
    }
    isLeaving = false
    const before = calls
    const answer = await exchanged(tcp.server, requestOf(input, {}))
    mustAnswer(answer, /"code":"INTERNAL"/)
    mustBe(calls === before && statusOf(answer) >= 400, 'without the token no call is taken and nothing is told')
  }
}

export const targets: readonly FuzzTarget[] = [controlHttp]

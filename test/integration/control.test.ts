import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { request } from 'node:http'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { callControl, helloControl } from '../../src/api/control-client.ts'
import { findEndpoint, socketPath } from '../../src/api/control-endpoint.ts'
import { type ControlContext, type ControlHandlers, type ControlServer, serveControl } from '../../src/api/control-server.ts'
import { CONTROL_BOUNDS, CONTROL_PARAMS } from '../../src/api/methods.ts'
import { RookeryError } from '../../src/errors.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'

let dir: string
let server: ControlServer | undefined
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-control-'))
})
afterEach(async () => {
  await server?.close()
  server = undefined
  rmSync(dir, { recursive: true, force: true })
})

type Answer = (method: string, params: unknown, context: ControlContext) => Promise<unknown>

/** Every method ends in one function. */
function handlersOf(answer: Answer): ControlHandlers {
  const entries = Object.keys(CONTROL_PARAMS).map((method) => [
    method,
    (params: unknown, context: ControlContext) => answer(method, params, context)
  ])
  return Object.fromEntries(entries) as unknown as ControlHandlers
}

async function serve(
  answer: Answer = async (method, params) => ({ method, params }),
  init: { transport?: 'socket' | 'tcp'; dataDir?: string } = {}
) {
  server = await serveControl(
    { handlers: handlersOf(answer), logger: silentLogger, random: systemRandom },
    { dataDir: init.dataDir ?? dir, startedAtMs: 7, ...(init.transport === undefined ? {} : { transport: init.transport }) }
  )
  return server
}

async function refusal(work: Promise<unknown>): Promise<RookeryError> {
  const error = await work.then(
    () => new Error('nothing was refused'),
    (reason: unknown) => reason
  )
  if (error instanceof RookeryError) return error
  throw error
}

/** One raw exchange over the socket; `undefined` body sends no POST data. */
function raw(input: {
  method?: string
  path?: string
  body?: string | Uint8Array
  headers?: Record<string, string>
}): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const call = request(
      {
        socketPath: socketPath(dir),
        method: input.method ?? 'POST',
        path: input.path ?? '/v1/call',
        headers: { host: 'localhost', ...input.headers },
        agent: false
      },
      (response) => {
        let text = ''
        response.on('data', (chunk) => {
          text += String(chunk)
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
        response.on('error', reject)
      }
    )
    call.on('error', reject)
    call.end(input.body)
  })
}

describe('the control API', () => {
  it('tells values on the way, in their order and before the result', async () => {
    await serve(async (_method, _params, { event }) => {
      event({ kind: 'found', n: 1 })
      event({ kind: 'found', n: 2 })
      return 'done'
    })
    const told: unknown[] = []
    const result = await callControl(dir, 'status', {}, { onEvent: (event) => told.push(event) })
    expect([told, result]).toEqual([
      [
        { kind: 'found', n: 1 },
        { kind: 'found', n: 2 }
      ],
      'done'
    ])
  })

  it('answers a call, with progress on the way', async () => {
    await serve(async (method, params, { progress }) => {
      progress('storing 3 of 20')
      return { method, params }
    })
    const lines: string[] = []
    const result = await callControl(dir, 'find', { name: 'a/b@1' }, { onProgress: (text) => lines.push(text) })
    expect(result).toEqual({ method: 'find', params: { name: 'a/b@1' } })
    expect(lines).toEqual(['storing 3 of 20'])
    expect(await helloControl(dir)).toEqual({ pid: process.pid, startedAtMs: 7 })
  })

  it('hands errors over with code, field, value and remedy', async () => {
    await serve(async () => {
      throw new RookeryError('AGENT_UNKNOWN', 'no such agent', { kind: 'notFound', field: 'agent', value: 'x', remedy: 'known agents: a' })
    })
    expect(await refusal(callControl(dir, 'wake', { agent: 'x' }))).toMatchObject({
      code: 'AGENT_UNKNOWN',
      kind: 'notFound',
      field: 'agent',
      value: 'x',
      remedy: 'known agents: a'
    })
  })

  it('says what an unexpected error was, but shows no stack', async () => {
    await serve(async () => {
      throw new TypeError('of ours')
    })
    const error = await refusal(callControl(dir, 'status', {}))
    expect(error).toMatchObject({ code: 'INTERNAL', kind: 'internal', message: 'of ours' })
    expect(JSON.stringify(error)).not.toContain('.ts')
  })

  it('can be opened by its owner only', async () => {
    await serve()
    expect(statSync(socketPath(dir)).mode & 0o777).toBe(0o600)
  })

  it('ends the work when the caller hangs up', async () => {
    const gone = Promise.withResolvers<unknown>()
    const begun = Promise.withResolvers<void>()
    await serve((_method, _params, { signal }) => {
      begun.resolve()
      signal.addEventListener('abort', () => gone.resolve(signal.reason))
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    const abort = new AbortController()
    const call = callControl(dir, 'wake', {}, { signal: abort.signal })
    await begun.promise
    const reason = new Error('Ctrl-C')
    abort.abort(reason)
    await expect(call).rejects.toBe(reason)
    expect(await gone.promise).toMatchObject({ name: 'AbortError' })
  })

  it('ends running calls when it closes, and tells the caller that the outcome is unknown or the work was stopped', async () => {
    const begun = Promise.withResolvers<void>()
    await serve((_method, _params, { signal }) => {
      begun.resolve()
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    const call = refusal(callControl(dir, 'wake', {}))
    await begun.promise
    await server?.close()
    server = undefined
    expect(['CONTROL_LOST', 'ABORTED']).toContain((await call).code)
    expect((await refusal(callControl(dir, 'status', {}))).code).toBe('NODE_NOT_RUNNING')
  })

  it('answers a stop before the node stops', async () => {
    const stopped = Promise.withResolvers<void>()
    await serve(async (_method, _params, { afterAnswer }) => {
      afterAnswer(() => void server?.close().then(stopped.resolve))
      return { stopping: true }
    })
    expect(await callControl(dir, 'stop', {})).toEqual({ stopping: true })
    await stopped.promise
    server = undefined
  })
})

describe('bad input gives a named error and the server goes on', () => {
  const cases: [name: string, params: unknown, method: string, code: string, field: string | undefined][] = [
    ['an unknown method', {}, 'agent.remove', 'METHOD_UNKNOWN', 'method'],
    ['a method that every object has', {}, 'constructor', 'METHOD_UNKNOWN', 'method'],
    ['a missing parameter', {}, 'find', 'PARAMS_INVALID', 'name'],
    ['a wrong type', { name: 7 }, 'find', 'PARAMS_INVALID', 'name'],
    ['an unknown parameter', { name: 'a/b@1', tag: 'x' }, 'find', 'PARAMS_INVALID', 'tag'],
    ['a value above its bound', { name: 'a/b@1', limit: 100_000 }, 'find', 'PARAMS_INVALID', 'limit'],
    ['too many entries', { name: 'a/b@1', tags: Array(17).fill('t') }, 'find', 'PARAMS_INVALID', 'tags'],
    ['a bad agent name', { name: '../x' }, 'agent.add', 'PARAMS_INVALID', 'name'],
    ['a handler that is none', { name: 'a', handler: 'rm -rf' }, 'agent.add', 'PARAMS_INVALID', 'handler'],
    ['bad base64', { to: 'b', files: [{ name: 'f', mediaType: 'text/plain', base64: '?' }] }, 'send', 'PARAMS_INVALID', 'files[0].base64'],
    ['parameters that are no map', [], 'find', 'PARAMS_INVALID', undefined]
  ]
  for (const [name, params, method, code, field] of cases) {
    it(name, async () => {
      await serve()
      const error = await refusal(callControl(dir, method as 'find', params as never))
      expect(error).toMatchObject({ code, kind: 'usage' })
      expect(error.field).toBe(field)
      expect(error.remedy).toBeTruthy()
      expect(await callControl(dir, 'status', {})).toMatchObject({ method: 'status' })
    })
  }

  it('invalid JSON, bad UTF-8, an empty body, other paths and verbs', async () => {
    await serve()
    for (const body of ['{', '', 'null', '[]', '"x"', Uint8Array.of(0x7b, 0xff, 0x7d)]) {
      const { status, text } = await raw({ body })
      expect(status).toBe(400)
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'JSON_INVALID', kind: 'usage' } })
    }
    expect((await raw({ path: '/v1/other', body: '{}' })).status).toBe(404)
    expect((await raw({ method: 'GET' })).status).toBe(405)
    expect(await callControl(dir, 'status', {})).toMatchObject({ method: 'status' })
  })

  it('a body above its bound, announced or not, is refused by the bound’s name', async () => {
    await serve()
    const huge = Buffer.alloc(CONTROL_BOUNDS.requestBytesMax + 1, 0x20)
    const announced = await raw({ headers: { 'content-length': String(huge.length) } }).catch((error: unknown) => error)
    if (!(announced instanceof Error)) expect((announced as { text: string }).text).toContain('REQUEST_TOO_LARGE')
    const streamed = await raw({ headers: { 'transfer-encoding': 'chunked' }, body: huge }).catch((error: NodeJS.ErrnoException) => error)
    if (streamed instanceof Error) expect(['EPIPE', 'ECONNRESET']).toContain((streamed as NodeJS.ErrnoException).code)
    else expect(streamed.text).toContain('REQUEST_TOO_LARGE')
    const error = await refusal(callControl(dir, 'send', { to: 'a', text: 'x'.repeat(CONTROL_BOUNDS.requestBytesMax) }))
    expect(error).toMatchObject({ code: 'REQUEST_TOO_LARGE', field: 'requestBytesMax' })
    expect(await callControl(dir, 'status', {})).toMatchObject({ method: 'status' })
  })

  it('bytes that are no HTTP, and connections that end half way', async () => {
    await serve()
    for (const bytes of ['\0\0\0', 'GET / HTTP/9.9\r\n\r\n', 'POST /v1/call HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{']) {
      const socket = connect(socketPath(dir))
      socket.on('error', () => {})
      socket.end(bytes)
      socket.resume()
      await once(socket, 'close')
    }
    expect(await callControl(dir, 'status', {})).toMatchObject({ method: 'status' })
  })

  it('deep nesting does not end the server', async () => {
    await serve()
    const depth = 200_000
    const { text } = await raw({ body: `{"method":"send","params":{"to":"a","data":${'['.repeat(depth)}${']'.repeat(depth)}}}` })
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'PARAMS_INVALID' } })
    expect(await callControl(dir, 'status', {})).toMatchObject({ method: 'status' })
  })

  it('more calls at once than its bound are refused by name', async () => {
    const hold = Promise.withResolvers<object>()
    await serve(() => hold.promise)
    let busy = 0
    const allRefused = Promise.withResolvers<void>()
    const held = Array.from({ length: CONTROL_BOUNDS.callsMax + 8 }, () =>
      callControl(dir, 'wake', {}).catch((error: RookeryError) => {
        if (++busy === 8) allRefused.resolve()
        return error.code
      })
    )
    await allRefused.promise
    hold.resolve({})
    const ends = await Promise.all(held)
    expect(ends.filter((one) => one === 'CONTROL_BUSY')).toHaveLength(8)
  })
})

describe('finding the node', () => {
  it('without one says what to do, for a folder that is there and one that is not [F061]', async () => {
    for (const where of [dir, join(dir, 'nowhere')]) {
      const error = await refusal(callControl(where, 'status', {}))
      expect(error).toMatchObject({ code: 'NODE_NOT_RUNNING', kind: 'unavailable', value: where })
      expect(error.remedy).toContain(`rookery start --data ${where}`)
    }
    expect(await helloControl(dir)).toBeUndefined()
  })

  it('works by relative path, trailing slash and symbolic link alike [F097]', async () => {
    mkdirSync(join(dir, 'real'))
    symlinkSync(join(dir, 'real'), join(dir, 'link'))
    await serve(undefined, { dataDir: join(dir, 'real') })
    const cwd = process.cwd()
    try {
      process.chdir(dir)
      for (const name of ['real', './real/', 'link', join(dir, 'link/'), 'real/../link']) {
        expect(await callControl(name, 'status', {})).toMatchObject({ method: 'status' })
      }
    } finally {
      process.chdir(cwd)
    }
  })

  it('works where the path is too long for a socket', async () => {
    const long = join(dir, 'd'.repeat(60), 'e'.repeat(60))
    mkdirSync(long, { recursive: true })
    expect(Buffer.byteLength(socketPath(long))).toBeLessThan(104)
    await serve(undefined, { dataDir: long })
    expect(await callControl(long, 'status', {})).toMatchObject({ method: 'status' })
  })

  it('a socket that a killed process left is replaced; one that answers, or a file, is left alone', async () => {
    const path = socketPath(dir)
    const dead = createServer().listen(path)
    await once(dead, 'listening')
    const refusedWhileAlive = await refusal(serve())
    expect(refusedWhileAlive).toMatchObject({ code: 'CONTROL_SOCKET_TAKEN', kind: 'conflict' })
    rmSync(path)
    dead.close()
    writeFileSync(path, 'a file')
    expect((await refusal(serve())).code).toBe('CONTROL_SOCKET_TAKEN')
    expect(readFileSync(path, 'utf8')).toBe('a file')
  })
})

describe('over loopback, as on Windows [IX-05]', () => {
  it('needs the token of 32 bytes that stands in a private file, and removes it at the end', async () => {
    const running = await serve(undefined, { transport: 'tcp' })
    expect(running.address).toMatch(/^tcp:127\.0\.0\.1:\d+$/)
    const file = join(dir, 'control.json')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const endpoint = findEndpoint(dir, 'win32')
    if (endpoint?.kind !== 'tcp') throw new Error('no endpoint was found')
    expect(Buffer.from(endpoint.token, 'base64url')).toHaveLength(32)
    expect(await callControl(dir, 'status', {}, { endpoint })).toMatchObject({ method: 'status' })
    for (const token of ['A'.repeat(43), '']) {
      const error = await refusal(callControl(dir, 'status', {}, { endpoint: { ...endpoint, token } }))
      expect(error).toMatchObject({ code: 'TOKEN_INVALID' })
    }
    await running.close()
    server = undefined
    expect(existsSync(file)).toBe(false)
    expect(findEndpoint(dir, 'win32')).toBeUndefined()
  })

  it('a garbled token file means that no node is known', async () => {
    for (const text of ['', '{}', '{"host":"127.0.0.1","port":1,"token":"x"}']) {
      writeFileSync(join(dir, 'control.json'), text)
      expect(findEndpoint(dir, 'win32')).toBeUndefined()
    }
    chmodSync(dir, 0o700)
    expect(readdirSync(dir)).toContain('control.json')
  })
})

describe('the methods', () => {
  it('have no call that returns the bytes of a queued object [OD-50]', () => {
    const methods = Object.keys(CONTROL_PARAMS).filter((method) => method.startsWith('queue'))
    expect(methods).toEqual(['queue.list', 'queue.show', 'queue.drop', 'queue.retry', 'queue.export'])
    const source = (path: string) => readFileSync(join(import.meta.dirname, '../../src', path), 'utf8')
    const members = (path: string, name: string) => new RegExp(`export interface ${name} \\{([^}]*)\\}`).exec(source(path))?.[1] ?? ''
    // An export goes into a file of the owner's directory; the answer says where and how much.
    for (const answer of [
      members('api/methods.ts', 'QueueEntry'),
      members('delivery/queue-files.ts', 'QueueRecordView'),
      members('delivery/queue-files.ts', 'QueueExport')
    ]) {
      expect(answer).toContain('bytes: number')
      expect(answer).not.toMatch(/Uint8Array|object:|payload|base64/)
    }
  })
})
